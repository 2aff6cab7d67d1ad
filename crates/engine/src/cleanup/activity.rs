//! Whether anything goes on inside a body, as seen from outside: what it put out, what was asked of it, and where
//! that is long ago whether it uses the processor. A look that fails says nothing.

use pinfold_lifecycle::{EffectKind, Evidence, Lease, Seen, Timestamp};
use pinfold_provider::InstanceId;
use pinfold_store::Stored;

use super::Cleaner;

/// What a look has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Looked {
    /// When it last gave a sign of life.
    Last(Timestamp),
    Blind {
        why: String,
    },
}

/// How much of it was used so far, and whether it is used or waited for right now.
struct Processor {
    used_ms: u64,
    is_wanted: bool,
}

/// Of the time that is watched, as one part of so many: less than that is only what our own questions cost.
const USED_PART: u64 = 100;

impl Cleaner {
    /// When it last put something out or was asked for something.
    pub(super) async fn last_sign(&self, stored: &Stored) -> Looked {
        let body = body_of(stored);
        let evidence = self.in_time(stored, self.inner.provider.observe(body.sandbox)).await;
        let bodies = match evidence {
            Some(Evidence::Present(bodies)) => bodies,
            Some(Evidence::Unknown { why }) => return Looked::Blind { why },
            Some(Evidence::Absent(_)) => return Looked::Blind { why: "its body is not there".into() },
            None => return Looked::Blind { why: "there was no answer in time".into() },
        };
        let Some(seen) = bodies.iter().find(|seen| seen.generation == body.generation) else {
            return Looked::Blind { why: "another body is there".into() };
        };
        let of_executions = seen.executions.iter().filter_map(|execution| match execution.seen {
            Seen::Running { last_activity_at } => Some(last_activity_at),
            Seen::Ended(_) => None,
        });
        match of_executions.chain(seen.last_busy_at).chain(recorded_sign(stored)).max() {
            Some(last) => Looked::Last(last),
            None => Looked::Blind { why: "nobody noted when it last did something".into() },
        }
    }

    /// Whether it uses the processor now, watched for a while.
    pub(super) async fn uses_processor(&self, stored: &Stored) -> Result<bool, String> {
        let clock = &self.inner.clock;
        let began_at = clock.now();
        let before = self.processor(stored).await?;
        clock.sleep_until(began_at.after_ms(self.inner.config.cleanup.sample_ms)).await;
        let after = self.processor(stored).await?;
        let used = after.used_ms.saturating_sub(before.used_ms);
        // A busy host may have taken longer to answer, and given little to whoever would have used more.
        let is_used = used.saturating_mul(USED_PART) >= clock.now().ms_since(began_at);
        Ok(is_used || before.is_wanted || after.is_wanted)
    }

    async fn processor(&self, stored: &Stored) -> Result<Processor, String> {
        match self.in_time(stored, self.inner.provider.usage(body_of(stored))).await {
            Some(Ok(usage)) => {
                let used_ms = usage.cpu_ms.ok_or_else(|| "its processor time is not counted".to_owned())?;
                Ok(Processor { used_ms, is_wanted: usage.runs == Some(true) })
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Err("there was no answer in time".into()),
        }
    }

    /// One question among those of the engine. None: no answer in the time that a probe has.
    pub(super) async fn in_time<T>(&self, stored: &Stored, question: impl Future<Output = T>) -> Option<T> {
        let _place = self.inner.lanes.place(EffectKind::Look).await;
        let until = self.inner.clock.now().after_ms(stored.policy.probe_ms);
        tokio::select! {
            biased;
            answer = question => Some(answer),
            () = self.inner.clock.sleep_until(until) => None,
        }
    }
}

/// When it was last known to have work, or somebody asked to keep it.
fn recorded_sign(stored: &Stored) -> Option<Timestamp> {
    let Lease::Live(live) = &stored.sandbox.lease else { return None };
    let (idle_by, idle_ms) = live.idle_by.zip(stored.policy.idle_ms)?;
    Some(Timestamp(idle_by.0.saturating_sub_unsigned(idle_ms)))
}

pub(super) fn body_of(stored: &Stored) -> InstanceId {
    InstanceId { sandbox: stored.sandbox.id, generation: stored.sandbox.generation() }
}
