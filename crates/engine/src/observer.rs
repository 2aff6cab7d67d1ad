//! Observer of an engine's commits, for metrics and audit.

use std::sync::Arc;

use pinfold_lifecycle::{Record, Sandbox};

use crate::engine::Engine;
use crate::{ReconcileError, ReconcileMode, ReconcileReport};

/// Called in the task that committed, so that the requester is known. Implementations must not block.
pub trait Observer: Send + Sync + 'static {
    /// Called after a commit and before its effects start.
    fn committed(&self, sandbox: &Sandbox, records: &[Record]);

    /// Records were compared with instances.
    fn compared(&self, mode: ReconcileMode, took_ms: u64, found: Result<&ReconcileReport, &ReconcileError>);
}

impl Engine {
    /// Set once; later calls have no effect.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        let _ = self.inner.observer.set(observer);
    }
}
