//! The store with failpoints and injected latency.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use pinfold_store::{DueSandbox, Store, StoreCall, StoreError, StoreLayer};

use super::Guard;
use super::failpoints::{Call, Failpoints};
use super::latency::InjectedLatency;

pub(crate) struct FailpointStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) failpoints: Arc<Failpoints>,
    pub(crate) latency: Arc<InjectedLatency>,
    pub(crate) without: Option<Guard>,
}

/// The failpoint around a call, if it has one. The queue has none: the load does not use it.
fn failpoint_call(call: StoreCall) -> Option<Call> {
    match call {
        StoreCall::Create => Some(Call::Create),
        StoreCall::FillPool => Some(Call::Fill),
        StoreCall::Claim => Some(Call::Claim),
        StoreCall::Commit => Some(Call::Commit),
        StoreCall::RemoveNode => Some(Call::Leave),
        _ => None,
    }
}

#[async_trait]
impl StoreLayer for FailpointStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn around<T: Send, E: From<StoreError> + Send>(
        &self,
        call: StoreCall,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let late = self.latency.around(work);
        match failpoint_call(call) {
            Some(call) => self.failpoints.around(call, late).await,
            None => late.await,
        }
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError> {
        if self.without == Some(Guard::Deadlines) {
            return Ok(Vec::new());
        }
        self.around(StoreCall::Due, self.inner.due(now, limit)).await
    }
}
