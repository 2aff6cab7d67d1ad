//! Somebody who looks on while an engine works, and has no part in it.

use std::sync::Arc;

use pinfold_lifecycle::{Record, Sandbox};

use crate::engine::Engine;
use crate::{Reconcile, ReconcileError, ReconcileReport};

/// It is told in the task that did it, so that it can see who asked, and must not wait for anything.
pub trait Onlooker: Send + Sync + 'static {
    /// This was just committed, and nothing that follows from it has begun.
    fn committed(&self, sandbox: &Sandbox, records: &[Record]);

    /// Records were compared with bodies, which took so long.
    fn compared(&self, how: Reconcile, took_ms: u64, found: Result<&ReconcileReport, &ReconcileError>);
}

impl Engine {
    /// From now on. The first who looks on stays the only one.
    pub fn look_on(&self, onlooker: Arc<dyn Onlooker>) {
        let _ = self.inner.onlooker.set(onlooker);
    }
}
