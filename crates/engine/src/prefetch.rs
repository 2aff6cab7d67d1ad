//! Prefetched calls: probes, pings and waits are harmless, so the engine starts them before the event that
//! leads to them is committed. If the result arrives at once, event and result share one commit. Otherwise the
//! call stays open, and the effect that the commit requests takes it over.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{Effect, EffectKind, Event, ExecutionId, Fence, Outcome, ProbeResult, SandboxId};
use pinfold_provider::{InstanceId, WaitError as InstanceWaitError};

use crate::apply::Input;
use crate::engine::Inner;
use crate::observer::{ping, probe};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InstanceCall {
    Probe,
    Ping,
    /// The outcome of an execution.
    End(ExecutionId),
}

#[derive(Debug, Clone)]
pub(crate) enum CallResult {
    Probe(ProbeResult),
    Ping(ProbeResult),
    End(ExecutionId, Outcome),
}

/// The result, or why the instance gave none.
type CallReply = Result<CallResult, InstanceWaitError>;
type PendingCall = Pin<Box<dyn Future<Output = CallReply> + Send>>;

impl InstanceCall {
    fn effect_kind(self) -> EffectKind {
        match self {
            Self::Probe => EffectKind::Probe,
            Self::Ping => EffectKind::Ping,
            Self::End(execution) => EffectKind::Watch { execution },
        }
    }

    /// How long a commit is delayed for the result. Correctness does not depend on it: a crash in this time is
    /// like a crash before the event.
    fn wait_ms(self) -> u64 {
        match self {
            Self::Probe | Self::Ping => 20,
            Self::End(_) => 2,
        }
    }
}

impl CallResult {
    /// The event that completes the matching one of these effects.
    pub(crate) fn event_for(self, effects: &[Effect]) -> Option<Event> {
        let call = match self {
            Self::Probe(_) => InstanceCall::Probe,
            Self::Ping(_) => InstanceCall::Ping,
            Self::End(execution, _) => InstanceCall::End(execution),
        };
        let requested = effects.iter().find(|effect| effect.kind == call.effect_kind())?;
        Some(self.event(requested.pending.fence))
    }

    pub(crate) fn event(self, fence: Fence) -> Event {
        match self {
            Self::Probe(probed) | Self::Ping(probed) => Event::Probed { fence, result: probed },
            Self::End(execution, outcome) => Event::ExecutionEnded { fence, execution, outcome },
        }
    }
}

/// Calls whose result was not there at once. They stay open.
#[derive(Default)]
pub(crate) struct Prefetches {
    open: Mutex<BTreeMap<(InstanceId, InstanceCall), PendingCall>>,
}

impl Prefetches {
    fn open(&self) -> MutexGuard<'_, BTreeMap<(InstanceId, InstanceCall), PendingCall>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the open calls of this sandbox that no pending effect needs.
    pub(crate) fn drop_obsolete(&self, sandbox: SandboxId, wanted: &[Effect]) {
        let waits = |(instance, call): &(InstanceId, InstanceCall)| {
            wanted
                .iter()
                .any(|effect| effect.generation == instance.generation && effect.kind == call.effect_kind())
        };
        self.open().retain(|requested, _| requested.0.sandbox != sandbox || waits(requested));
    }
}

impl Inner {
    /// Starts the call that follows from this event, and waits briefly for its result.
    pub(crate) async fn prefetch(&self, instance: InstanceId, fact: Event, call: InstanceCall) -> Input {
        let at = self.clock.now();
        let mut start_call = self.start_call(instance, call);
        let timeout = self.clock.sleep_until(at.after_ms(call.wait_ms()));
        tokio::select! {
            biased;
            call_instance = &mut start_call => Input::Prefetched { fact, at, result: call_instance.ok() },
            () = timeout => {
                self.prefetches.open().insert((instance, call), start_call);
                Input::Prefetched { fact, at, result: None }
            }
        }
    }

    /// The result of the open call, or of a new one.
    pub(crate) async fn call_instance(&self, instance: InstanceId, call: InstanceCall) -> CallReply {
        let open = self.prefetches.open().remove(&(instance, call));
        open.unwrap_or_else(|| self.start_call(instance, call)).await
    }

    fn start_call(&self, instance: InstanceId, call: InstanceCall) -> PendingCall {
        let provider = self.provider.clone();
        let observer = self.observer.get().cloned();
        Box::pin(async move {
            match call {
                InstanceCall::Probe => {
                    Ok(CallResult::Probe(probe(provider.as_ref(), observer.as_deref(), instance).await))
                }
                InstanceCall::Ping => {
                    Ok(CallResult::Ping(ping(provider.as_ref(), observer.as_deref(), instance).await))
                }
                InstanceCall::End(execution) => {
                    let outcome = provider.wait(instance, execution).await?;
                    Ok(CallResult::End(execution, outcome))
                }
            }
        })
    }
}
