//! Observer of an engine's commits and probes, for metrics, tracing and audit.

use std::sync::Arc;
use std::time::Duration;

use pinfold_lifecycle::{ProbeResult, Record, Sandbox};
use pinfold_provider::{InstanceId, Provider};

use crate::engine::{Engine, Inner};
use crate::{ReconcileError, ReconcileMode, ReconcileReport};

/// Called in the task that committed or probed, so that the requester is known. Implementations must not block.
pub trait Observer: Send + Sync + 'static {
    /// Called after a commit and before its effects start.
    fn committed(&self, sandbox: &Sandbox, records: &[Record]);

    /// A probe of an instance ended, after this time.
    fn probed(&self, instance: InstanceId, result: &ProbeResult, took: Duration);

    /// A ping of an instance ended.
    fn pinged(&self, instance: InstanceId, result: &ProbeResult);

    /// Records were compared with instances.
    fn compared(&self, mode: ReconcileMode, took_ms: u64, found: Result<&ReconcileReport, &ReconcileError>);
}

impl Engine {
    /// Set once; later calls have no effect.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        let _ = self.inner.observer.set(observer);
    }
}

impl Inner {
    /// Probes an instance, and reports that to the observer.
    pub(crate) async fn probe(&self, instance: InstanceId) -> ProbeResult {
        probe(self.provider.as_ref(), self.observer.get().map(AsRef::as_ref), instance).await
    }
}

pub(crate) async fn probe(
    provider: &dyn Provider,
    observer: Option<&dyn Observer>,
    instance: InstanceId,
) -> ProbeResult {
    let began = tokio::time::Instant::now();
    let result = provider.probe(instance).await;
    if let Some(observer) = observer {
        observer.probed(instance, &result, began.elapsed());
    }
    result
}

pub(crate) async fn ping(
    provider: &dyn Provider,
    observer: Option<&dyn Observer>,
    instance: InstanceId,
) -> ProbeResult {
    let result = provider.ping(instance).await;
    if let Some(observer) = observer {
        observer.pinged(instance, &result);
    }
    result
}
