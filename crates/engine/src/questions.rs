//! Questions to a body that harm nobody, and so may be asked before the fact that raises them is written: where the
//! answer comes at once, fact and answer are one commit. An answer that takes longer is waited for by the errand
//! that the fact then calls for.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{Effect, EffectKind, Event, ExecutionId, Fence, Outcome, Probed, SandboxId};
use pinfold_provider::{InstanceId, WaitError as BodyWaitError};

use crate::apply::Input;
use crate::engine::Inner;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    Probe,
    Ping,
    /// How the execution ended.
    End(ExecutionId),
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Probe(Probed),
    Ping(Probed),
    End(ExecutionId, Outcome),
}

/// The answer, or why the body gave none.
type Reply = Result<Answer, BodyWaitError>;
type Asking = Pin<Box<dyn Future<Output = Reply> + Send>>;

impl Question {
    fn work(self) -> EffectKind {
        match self {
            Self::Probe => EffectKind::Probe,
            Self::Ping => EffectKind::Ping,
            Self::End(execution) => EffectKind::Watch { execution },
        }
    }

    /// How long a fact may wait to be written together with the answer. That no more is lost by a crash meanwhile
    /// than by one a moment earlier does not depend on it.
    fn patience_ms(self) -> u64 {
        match self {
            Self::Probe | Self::Ping => 20,
            Self::End(_) => 2,
        }
    }
}

impl Answer {
    /// The event that answers the one of these effects that asks for it.
    pub(crate) fn event_for(self, effects: &[Effect]) -> Option<Event> {
        let question = match self {
            Self::Probe(_) => Question::Probe,
            Self::Ping(_) => Question::Ping,
            Self::End(execution, _) => Question::End(execution),
        };
        let asked = effects.iter().find(|effect| effect.work == question.work())?;
        Some(self.event(asked.duty.ticket))
    }

    pub(crate) fn event(self, ticket: Fence) -> Event {
        match self {
            Self::Probe(probed) | Self::Ping(probed) => Event::Probed { ticket, probed },
            Self::End(execution, outcome) => Event::ExecutionEnded { ticket, execution, outcome },
        }
    }
}

/// Questions whose answer was not there at once. They stay asked.
#[derive(Default)]
pub(crate) struct Questions {
    open: Mutex<BTreeMap<(InstanceId, Question), Asking>>,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, BTreeMap<(InstanceId, Question), Asking>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the questions to this sandbox whose answer nobody waits for.
    pub(crate) fn drop_obsolete(&self, sandbox: SandboxId, wanted: &[Effect]) {
        let waits = |(body, question): &(InstanceId, Question)| {
            wanted.iter().any(|effect| effect.generation == body.generation && effect.work == question.work())
        };
        self.open().retain(|asked, _| asked.0.sandbox != sandbox || waits(asked));
    }
}

impl Inner {
    /// Asks what this fact raises, and waits a little for the answer.
    pub(crate) async fn raise(&self, body: InstanceId, fact: Event, question: Question) -> Input {
        let at = self.clock.now();
        let mut asking = self.asking(body, question);
        let patience = self.clock.sleep_until(at.after_ms(question.patience_ms()));
        tokio::select! {
            biased;
            reply = &mut asking => Input::Raised { fact, at, answer: reply.ok() },
            () = patience => {
                self.questions.open().insert((body, question), asking);
                Input::Raised { fact, at, answer: None }
            }
        }
    }

    /// The reply to a question that is open, or that is asked now.
    pub(crate) async fn reply(&self, body: InstanceId, question: Question) -> Reply {
        let open = self.questions.open().remove(&(body, question));
        open.unwrap_or_else(|| self.asking(body, question)).await
    }

    fn asking(&self, body: InstanceId, question: Question) -> Asking {
        let provider = self.provider.clone();
        Box::pin(async move {
            match question {
                Question::Probe => Ok(Answer::Probe(provider.probe(body).await)),
                Question::Ping => Ok(Answer::Ping(provider.ping(body).await)),
                Question::End(execution) => {
                    let outcome = provider.wait(body, execution).await?;
                    Ok(Answer::End(execution, outcome))
                }
            }
        })
    }
}
