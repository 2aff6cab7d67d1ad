//! One piece of work against the provider, from its ticket to its answer. Bounded by its deadline: past that
//! the lifecycle has stopped waiting.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    Command, Effect, EffectKind, Event, ExecutionId, ExecutionLimits, Fence, SandboxId, Timestamp,
};
use pinfold_provider::{
    AskBodyError, Exec, ExecError, InstanceId, Killed, Start, StartError, StartPermit,
    WaitError as BodyWaitError,
};
use pinfold_store::{Row, Store, Stored};

use crate::WaitError;
use crate::apply::Input;
use crate::engine::Inner;
use crate::questions::Question;

/// Between two tries of a call that did not tell.
const TRY_AGAIN_MS: u64 = 500;
/// Between two questions to a body that does not answer.
const ASK_AGAIN_MS: u64 = 2_000;

impl Inner {
    /// The answer, or none: the deadline was quicker.
    pub(crate) async fn perform(self: Arc<Self>, effect: &Effect) -> Option<Input> {
        let deadline = effect.duty.deadline;
        let work = async {
            let _place = self.lanes.place(effect.work).await;
            let fact = self.clone().call(effect).await?;
            Some(self.go_on(effect, fact).await)
        };
        tokio::select! {
            biased;
            input = work => input,
            () = self.clock.sleep_until(deadline) => None,
        }
    }

    /// Asks at once what follows from the answer, and waits a little for that answer too.
    async fn go_on(&self, effect: &Effect, fact: Event) -> Input {
        let body = InstanceId { sandbox: effect.sandbox, generation: effect.generation };
        let question = match fact {
            Event::Launched { .. } => Question::Probe,
            Event::ExecutionStarted { execution, .. } => Question::End(execution),
            _ => return Input::Fact(fact),
        };
        self.raise(body, fact, question).await
    }

    async fn call(self: Arc<Self>, effect: &Effect) -> Option<Event> {
        let body = InstanceId { sandbox: effect.sandbox, generation: effect.generation };
        let ticket = effect.duty.ticket;
        match effect.work {
            EffectKind::Launch => self.launch(body, ticket).await,
            EffectKind::Probe => Some(self.reply(body, Question::Probe).await.ok()?.event(ticket)),
            EffectKind::Ping => Some(self.reply(body, Question::Ping).await.ok()?.event(ticket)),
            EffectKind::Look => {
                Some(Event::Looked { ticket, evidence: self.provider.observe(body.sandbox).await })
            }
            EffectKind::Stop { grace_ms } => {
                Some(Event::Stopped { ticket, outcome: self.provider.stop(body, grace_ms).await })
            }
            EffectKind::Extend { ends_at } => Some(self.extend(body, ticket, ends_at).await),
            EffectKind::Exec { execution } => self.start_execution(body, ticket, execution).await,
            EffectKind::Watch { execution } => Some(self.watch(body, ticket, execution).await),
            EffectKind::Kill { execution } => Some(self.kill(body, ticket, execution).await),
        }
    }

    async fn launch(&self, body: InstanceId, ticket: Fence) -> Option<Event> {
        // If others have changed it since, the permit tells.
        let stored = match self.known.get(body.sandbox) {
            Some(known) => Ok(Box::new(known)),
            None => self.readable(body.sandbox).await,
        };
        let Ok(stored) = stored else {
            return Some(Event::LaunchFailed { ticket, why: "its own row could not be read".into() });
        };
        let permit = LaunchPermit { store: self.store.as_ref(), sandbox: body.sandbox, ticket };
        let ends_at = stored.sandbox.expires_at;
        let ends_with_caller = stored.policy.ends_with_owner;
        let start = Start { body, spec: &stored.spec, ends_at, ends_with_caller, permit: &permit };
        match self.provider.start(start).await {
            Ok(()) => Some(Event::Launched { ticket }),
            Err(StartError::NoLongerWanted) => None,
            Err(StartError::Failed { why }) => Some(Event::LaunchFailed { ticket, why }),
        }
    }

    async fn extend(&self, body: InstanceId, ticket: Fence, ends_at: Timestamp) -> Event {
        loop {
            match self.provider.keep_alive(body, ends_at).await {
                Ok(()) => return Event::Extended { ticket },
                Err(error @ AskBodyError::NoSuchBody) => {
                    return Event::ExtendFailed { ticket, why: error.to_string() };
                }
                Err(AskBodyError::Unreachable { .. }) => self.pause(TRY_AGAIN_MS).await,
            }
        }
    }

    async fn start_execution(
        &self,
        body: InstanceId,
        ticket: Fence,
        execution: ExecutionId,
    ) -> Option<Event> {
        loop {
            if let Some((command, limits)) = self.what_to_run(body.sandbox, execution).await {
                let exec = Exec { execution, command: &command, limits };
                match self.provider.exec(body, exec).await {
                    Ok(()) => return Some(Event::ExecutionStarted { ticket, execution }),
                    Err(ExecError::Refused { cause, why }) => {
                        return Some(Event::ExecutionRefused { ticket, execution, cause, why });
                    }
                    // It may run: asking again tells, since the same execution is started at most once.
                    Err(ExecError::Unclear { .. }) => {}
                }
            }
            self.pause(TRY_AGAIN_MS).await;
        }
    }

    /// None: it cannot be read now.
    async fn what_to_run(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
    ) -> Option<(Arc<Command>, ExecutionLimits)> {
        if let Some(known) = self.known.command(sandbox, execution) {
            return Some(known);
        }
        let stored = self.store.execution(execution).await.ok()??;
        Some((stored.command, stored.execution.limits))
    }

    async fn watch(self: Arc<Self>, body: InstanceId, ticket: Fence, execution: ExecutionId) -> Event {
        loop {
            let why = match self.reply(body, Question::End(execution)).await {
                Ok(answer) => return answer.event(ticket),
                Err(BodyWaitError::NoSuchExecution) => format!("{execution} is not known to its body"),
                Err(BodyWaitError::Unreachable { why }) => why,
            };
            // Only a look at the whole body can tell what that means.
            self.clone().deliver(body.sandbox, Input::Fact(Event::Doubted { why })).await;
            self.pause(ASK_AGAIN_MS).await;
        }
    }

    async fn kill(&self, body: InstanceId, ticket: Fence, execution: ExecutionId) -> Event {
        loop {
            match self.provider.kill(body, execution).await {
                Killed::Gone => return Event::ExecutionGone { ticket, execution },
                Killed::Unknown { .. } => self.pause(TRY_AGAIN_MS).await,
            }
        }
    }

    async fn pause(&self, ms: u64) {
        self.clock.sleep_until(self.clock.now().after_ms(ms)).await;
    }

    pub(crate) async fn readable(&self, id: SandboxId) -> Result<Box<Stored>, WaitError> {
        match self.store.load(id).await? {
            Some(Row::Readable(stored)) => Ok(stored),
            Some(Row::Unreadable(row)) => Err(WaitError::Unreadable { why: row.why }),
            None => Err(WaitError::Missing),
        }
    }
}

/// Asks the store whether this very launch is still wanted. A store that does not answer says no.
struct LaunchPermit<'a> {
    store: &'a dyn Store,
    sandbox: SandboxId,
    ticket: Fence,
}

#[async_trait]
impl StartPermit for LaunchPermit<'_> {
    async fn still_wanted(&self) -> bool {
        match self.store.load(self.sandbox).await {
            Ok(Some(Row::Readable(stored))) => stored.sandbox.permits_launch(self.ticket),
            Ok(Some(Row::Unreadable(_)) | None) | Err(_) => false,
        }
    }
}
