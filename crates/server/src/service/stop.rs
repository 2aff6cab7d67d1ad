//! Ending a sandbox: one path, from every state, bounded in time, to a receipt.

use pinfold_api::{Receipt, StopPending};
use pinfold_engine::Stop;
use pinfold_lifecycle::{Cause, SandboxId};
use pinfold_store::Row;

use super::{Failure, Service, view, words};

#[derive(Debug, Clone)]
pub enum Stopped {
    Gone(Box<Receipt>),
    /// It goes on by itself.
    Pending(Box<StopPending>),
}

impl Service {
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
