//! Stopping a sandbox: one path from every state, bounded in time, that ends with a receipt.

use pinfold_api::{Receipt, StopPending};
use pinfold_engine::{ApplyError, StopProgress};
use pinfold_lifecycle::{Cause, SandboxId};
use pinfold_store::Row;

use super::{Caller, Failure, Service, convert, view};

#[derive(Debug, Clone)]
pub enum StopResult {
    Gone(Box<Receipt>),
    /// The engine continues the stop.
    Pending(Box<StopPending>),
}

/// The answer to a stop that is not proven yet.
const STOP_PENDING: &str = "Session deletion pending physical wrapper cleanup";

impl Service {
    /// Records the caller's attestation that a quarantined instance is gone.
    pub async fn attest(&self, id: SandboxId, caller: &Caller, reason: String) -> Result<(), Failure> {
        let by = format!("{} ({})", caller.name, caller.token);
        Ok(self.host.engine.attest(id, by, reason).await?)
    }

    /// Stops a sandbox, and removes its record once it is proven gone.
    pub async fn forget(
        &self,
        id: SandboxId,
        grace_ms: Option<u64>,
        wait_ms: u64,
    ) -> Result<StopResult, Failure> {
        let stopped = self.stop(id, grace_ms, wait_ms).await?;
        match self.host.engine.forget(id).await {
            // A concurrent request removed it.
            Ok(()) | Err(ApplyError::Missing) => Ok(stopped),
            Err(error) => Err(error.into()),
        }
    }

    /// A stop attempt needs time for its kill and its checks after the grace period.
    pub(super) fn check_grace(&self, grace_ms: u64) -> Result<u64, Failure> {
        let most = self.config.policy.stop_attempt_ms / 2;
        if grace_ms > most {
            let why = format!("{grace_ms} is too long; at most {most}, half of one stop attempt");
            return Err(Failure::bad_input("grace_ms", why));
        }
        Ok(grace_ms)
    }

    /// Stops a sandbox. A repeated call returns the same receipt. `grace_ms`: the time from SIGTERM to SIGKILL instead
    /// of the sandbox's own.
    pub async fn stop(
        &self,
        id: SandboxId,
        grace_ms: Option<u64>,
        wait_ms: u64,
    ) -> Result<StopResult, Failure> {
        if let Some(grace_ms) = grace_ms {
            self.check_grace(grace_ms)?;
        }
        match self.host.engine.stop(id, Cause::StoppedByUser, grace_ms, wait_ms).await? {
            StopProgress::Gone { cause, receipt } => {
                Ok(StopResult::Gone(Box::new(view::receipt(id, cause, &receipt))))
            }
            StopProgress::Pending => {
                let status = match self.row(id).await? {
                    Row::Readable(stored) => view::status_of(&stored, self.now()),
                    Row::Unreadable(row) => return Err(Failure::unreadable(&row)),
                };
                let pending = StopPending {
                    sandbox_id: id.to_string(),
                    message: STOP_PENDING.to_owned(),
                    status,
                    location: convert::sandbox_url(id),
                };
                Ok(StopResult::Pending(Box::new(pending)))
            }
        }
    }
}
