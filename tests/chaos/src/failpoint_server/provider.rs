//! The provider with a failpoint around each call.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{Finding, Receipt, ReceiptCheck, StopOutcome, Timestamp};
use pinfold_provider::{
    InstanceId, Provider, ProviderCall, ProviderLayer, StartError, StartPermit, StartRequest,
};

use super::Guard;
use super::failpoints::{Call, Failpoints};

pub(crate) struct FailpointProvider {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) failpoints: Arc<Failpoints>,
    pub(crate) without: Option<Guard>,
}

struct FailpointPermit<'a> {
    inner: &'a dyn StartPermit,
    gates: &'a Failpoints,
}

#[async_trait]
impl StartPermit for FailpointPermit<'_> {
    async fn still_wanted(&self) -> bool {
        self.gates.around(Call::Permit, self.inner.still_wanted()).await
    }
}

/// A receipt without any observation behind it: what the missing guard would let through.
fn unverified_stop(instance: InstanceId) -> StopOutcome {
    let check = |kind: &str| ReceiptCheck {
        kind: kind.into(),
        result: Finding::Absent,
        means: "not observed".into(),
        detail: None,
    };
    StopOutcome::Gone(Box::new(Receipt {
        generation: instance.generation,
        verified_at: Timestamp(0),
        checks: vec![check("processes"), check("cgroups")],
        freed_bytes: 0,
        used: None,
        attested: None,
    }))
}

/// The failpoint around a call, if it has one.
fn failpoint_call(call: ProviderCall) -> Option<Call> {
    match call {
        ProviderCall::Discover => Some(Call::Discover),
        ProviderCall::Start => Some(Call::Start),
        ProviderCall::Observe => Some(Call::Observe),
        ProviderCall::Probe => Some(Call::Probe),
        ProviderCall::Exec => Some(Call::Exec),
        ProviderCall::Wait => Some(Call::Wait),
        ProviderCall::Kill => Some(Call::Kill),
        ProviderCall::Stop => Some(Call::Stop),
        ProviderCall::KeepAlive => Some(Call::Extend),
        ProviderCall::Ping
        | ProviderCall::NextSuspect
        | ProviderCall::Signal
        | ProviderCall::WriteStdin
        | ProviderCall::Resize
        | ProviderCall::Usage
        | ProviderCall::Capacity => None,
    }
}

#[async_trait]
impl ProviderLayer for FailpointProvider {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn around<T: Send>(&self, call: ProviderCall, work: impl Future<Output = T> + Send) -> T {
        match failpoint_call(call) {
            Some(call) => self.failpoints.around(call, work).await,
            None => work.await,
        }
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        let permit = FailpointPermit { inner: start.permit, gates: &self.failpoints };
        let start = StartRequest { permit: &permit, ..start };
        self.around(ProviderCall::Start, self.inner.start(start)).await
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        if self.without == Some(Guard::Observation) {
            return unverified_stop(instance);
        }
        self.around(ProviderCall::Stop, self.inner.stop(instance, grace_ms)).await
    }
}
