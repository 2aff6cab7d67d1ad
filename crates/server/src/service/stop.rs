//! Ending a sandbox: one path, from every state, bounded in time, to a receipt.

use pinfold_api::{Receipt, StopPending};
use pinfold_engine::{ApplyError, Stop};
use pinfold_lifecycle::{Cause, SandboxId};
use pinfold_store::Row;

use super::{Caller, Failure, Service, view, words};

#[derive(Debug, Clone)]
pub enum Stopped {
    Gone(Box<Receipt>),
    /// It goes on by itself.
    Pending(Box<StopPending>),
}

impl Service {
    /// Takes the caller's word that a quarantined body is gone.
    pub async fn attest(&self, id: SandboxId, caller: &Caller, reason: String) -> Result<(), Failure> {
        let by = format!("{} ({})", caller.name, caller.token);
        Ok(self.host.engine.attest(id, by, reason).await?)
    }

    /// Ends it, and forgets its record once it is proven gone.
    pub async fn forget(&self, id: SandboxId, forced: bool, wait_ms: u64) -> Result<Stopped, Failure> {
        let stopped = self.stop(id, forced, wait_ms).await?;
        match self.host.engine.forget(id).await {
            // Somebody else had it forgotten meanwhile.
            Ok(()) | Err(ApplyError::Missing) => Ok(stopped),
            Err(error) => Err(error.into()),
        }
    }

    /// Asking again gives the same receipt.
    pub async fn stop(&self, id: SandboxId, forced: bool, wait_ms: u64) -> Result<Stopped, Failure> {
        match self.host.engine.stop(id, Cause::StoppedByUser, forced, wait_ms).await? {
            Stop::Gone { cause, receipt } => Ok(Stopped::Gone(Box::new(view::receipt(id, cause, &receipt)))),
            Stop::Pending => {
                let status = match self.row(id).await? {
                    Row::Readable(stored) => view::status_of(&stored, self.now()),
                    Row::Unreadable(row) => return Err(Failure::unreadable(&row)),
                };
                let pending =
                    StopPending { sandbox_id: id.to_string(), status, location: words::url_of_sandbox(id) };
                Ok(Stopped::Pending(Box::new(pending)))
            }
        }
    }
}
