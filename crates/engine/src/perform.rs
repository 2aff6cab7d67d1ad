//! Performs one effect against the provider, from its fence to its result, bounded by the effect's deadline.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    Cause, Command, Effect, EffectKind, Event, ExecutionId, ExecutionLimits, Fence, SandboxId, Timestamp,
};
use pinfold_provider::{
    ExecError, ExecRequest, InstanceError, InstanceId, KillOutcome, StartError, StartPermit, StartRequest,
    WaitError as InstanceWaitError,
};
use pinfold_store::{Row, Store, StoredSandbox};

use crate::WaitError;
use crate::apply::Input;
use crate::engine::Inner;
use crate::prefetch::InstanceCall;

/// Retry delay of a call with unknown outcome.
pub(crate) const RETRY_MS: u64 = 500;
/// Retry delay of a wait on an instance that does not answer.
const REWATCH_MS: u64 = 2_000;

/// The command of an execution, as an effect reads it.
pub(crate) struct ReadCommand {
    pub(crate) command: Arc<Command>,
    limits: ExecutionLimits,
    /// Why the environment cannot be read: the command must not run without it.
    unreadable_env: Option<String>,
}

impl Inner {
    /// None: the deadline passed first.
    pub(crate) async fn perform(self: Arc<Self>, effect: &Effect) -> Option<Input> {
        let deadline = effect.pending.deadline;
        let work = async {
            let _permit = self.limits.acquire(effect.kind).await;
            let fact = self.clone().call(effect).await?;
            Some(self.prefetch_next(effect, fact).await)
        };
        tokio::select! {
            biased;
            input = work => input,
            () = self.clock.sleep_until(deadline) => None,
        }
    }

    /// Prefetches the call that the lifecycle requests next, and waits briefly for its result.
    async fn prefetch_next(&self, effect: &Effect, fact: Event) -> Input {
        let instance = InstanceId { sandbox: effect.sandbox, generation: effect.generation };
        let call = match fact {
            Event::Launched { .. } => InstanceCall::Probe,
            Event::ExecutionStarted { execution, .. } => InstanceCall::End(execution),
            _ => return Input::Fact(fact),
        };
        self.prefetch(instance, fact, call).await
    }

    async fn call(self: Arc<Self>, effect: &Effect) -> Option<Event> {
        let instance = InstanceId { sandbox: effect.sandbox, generation: effect.generation };
        let fence = effect.pending.fence;
        match effect.kind {
            EffectKind::Launch => self.launch(instance, fence).await,
            EffectKind::Probe => {
                Some(self.call_instance(instance, InstanceCall::Probe).await.ok()?.event(fence))
            }
            EffectKind::Ping => {
                Some(self.call_instance(instance, InstanceCall::Ping).await.ok()?.event(fence))
            }
            EffectKind::Observe => {
                Some(Event::Observed { fence, evidence: self.provider.observe(instance.sandbox).await })
            }
            EffectKind::Stop { grace_ms } => {
                Some(Event::Stopped { fence, outcome: self.provider.stop(instance, grace_ms).await })
            }
            EffectKind::Extend { ends_at } => Some(self.extend(instance, fence, ends_at).await),
            EffectKind::PutFiles { execution } => self.put_files(instance, fence, execution).await,
            EffectKind::Exec { execution } => self.start_execution(instance, fence, execution).await,
            EffectKind::Watch { execution } => Some(self.watch(instance, fence, execution).await),
            EffectKind::Kill { execution } => Some(self.kill(instance, fence, execution).await),
            EffectKind::Collect { execution } => self.collect(instance, effect, execution).await,
        }
    }

    async fn launch(&self, instance: InstanceId, fence: Fence) -> Option<Event> {
        // A stale row does no harm: the permit reads the store.
        let stored = match self.row_cache.get(instance.sandbox) {
            Some(cached) => Ok(Box::new(cached)),
            None => self.readable(instance.sandbox).await,
        };
        let Ok(stored) = stored else {
            return Some(Event::LaunchFailed { fence, why: "the sandbox's row could not be read".into() });
        };
        let permit = LaunchPermit { store: self.store.as_ref(), sandbox: instance.sandbox, fence };
        let ends_at = stored.sandbox.expires_at;
        let ends_with_caller = stored.policy.ends_with_owner;
        let start = StartRequest { instance, spec: &stored.spec, ends_at, ends_with_caller, permit: &permit };
        match self.provider.start(start).await {
            Ok(()) => Some(Event::Launched { fence }),
            Err(StartError::NoLongerWanted) => None,
            Err(StartError::Failed { why }) => Some(Event::LaunchFailed { fence, why }),
        }
    }

    async fn extend(&self, instance: InstanceId, fence: Fence, ends_at: Timestamp) -> Event {
        loop {
            match self.provider.keep_alive(instance, ends_at).await {
                Ok(()) => return Event::Extended { fence },
                Err(error @ InstanceError::NoSuchInstance) => {
                    return Event::ExtendFailed { fence, why: error.to_string() };
                }
                Err(InstanceError::Unreachable { .. }) => self.pause(RETRY_MS).await,
            }
        }
    }

    async fn start_execution(
        &self,
        instance: InstanceId,
        fence: Fence,
        execution: ExecutionId,
    ) -> Option<Event> {
        loop {
            if let Some(command) = self.command_of(instance.sandbox, execution).await {
                if let Some(why) = command.unreadable_env {
                    let cause = Cause::StartFailed;
                    return Some(Event::ExecutionRefused { fence, execution, cause, why });
                }
                let exec = ExecRequest { execution, command: &command.command, limits: command.limits };
                match self.provider.exec(instance, exec).await {
                    Ok(()) => return Some(Event::ExecutionStarted { fence, execution }),
                    Err(ExecError::Refused { cause, why }) => {
                        return Some(Event::ExecutionRefused { fence, execution, cause, why });
                    }
                    // The command may be running. Repeating is safe: an execution starts at most once.
                    Err(ExecError::Unclear { .. }) => {}
                }
            }
            self.pause(RETRY_MS).await;
        }
    }

    /// None: the command cannot be read now.
    pub(crate) async fn command_of(&self, sandbox: SandboxId, execution: ExecutionId) -> Option<ReadCommand> {
        if let Some((command, limits)) = self.row_cache.command(sandbox, execution) {
            return Some(ReadCommand { command, limits, unreadable_env: None });
        }
        let stored = self.store.execution(execution).await.ok()??;
        Some(ReadCommand {
            command: stored.command,
            limits: stored.execution.limits,
            unreadable_env: stored.unreadable_env,
        })
    }

    async fn watch(self: Arc<Self>, instance: InstanceId, fence: Fence, execution: ExecutionId) -> Event {
        loop {
            let why = match self.call_instance(instance, InstanceCall::End(execution)).await {
                Ok(answer) => return answer.event(fence),
                Err(InstanceWaitError::NoSuchExecution) => {
                    format!("{execution} is unknown to its instance")
                }
                Err(InstanceWaitError::Unreachable { why }) => why,
            };
            // The lifecycle decides after an observation of the whole instance.
            self.clone().apply_with_retry(instance.sandbox, Input::Fact(Event::Doubted { why })).await;
            self.pause(REWATCH_MS).await;
        }
    }

    async fn kill(&self, instance: InstanceId, fence: Fence, execution: ExecutionId) -> Event {
        loop {
            match self.provider.kill(instance, execution).await {
                KillOutcome::Gone => return Event::ExecutionGone { fence, execution },
                KillOutcome::Unknown { .. } => self.pause(RETRY_MS).await,
            }
        }
    }

    pub(crate) async fn pause(&self, ms: u64) {
        self.clock.sleep_until(self.clock.now().after_ms(ms)).await;
    }

    pub(crate) async fn readable(&self, id: SandboxId) -> Result<Box<StoredSandbox>, WaitError> {
        match self.store.load(id).await? {
            Some(Row::Readable(stored)) => Ok(stored),
            Some(Row::Unreadable(row)) => Err(WaitError::Unreadable { why: row.why }),
            None => Err(WaitError::Missing),
        }
    }
}

/// Asks the store whether this launch is still wanted. A store that fails counts as no.
struct LaunchPermit<'a> {
    store: &'a dyn Store,
    sandbox: SandboxId,
    fence: Fence,
}

#[async_trait]
impl StartPermit for LaunchPermit<'_> {
    async fn still_wanted(&self) -> bool {
        match self.store.load(self.sandbox).await {
            Ok(Some(Row::Readable(stored))) => stored.sandbox.permits_launch(self.fence),
            Ok(Some(Row::Unreadable(_)) | None) | Err(_) => false,
        }
    }
}
