//! Activity of an instance as seen from outside: output, requests, and CPU use where those are long ago. A
//! failed observation proves nothing.

use pinfold_lifecycle::{EffectKind, Evidence, Lease, ProcessObservation, Timestamp};
use pinfold_provider::InstanceId;
use pinfold_store::StoredSandbox;

use super::Cleaner;

/// The last known activity of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LastActivity {
    Last(Timestamp),
    Unknown { why: String },
}

/// CPU time used so far, and whether a process uses or waits for a CPU right now.
struct CpuSample {
    used_ms: u64,
    is_wanted: bool,
}

/// CPU use below 1/100 of the sampled time is attributed to our own calls.
const USED_PART: u64 = 100;

impl Cleaner {
    /// The time of the last output or request.
    pub(super) async fn last_activity(&self, stored: &StoredSandbox) -> LastActivity {
        let instance = instance_of(stored);
        let evidence = self.with_probe_timeout(stored, self.inner.provider.observe(instance.sandbox)).await;
        let instances = match evidence {
            Some(Evidence::Present(instances)) => instances,
            Some(Evidence::Unknown { why }) => return LastActivity::Unknown { why },
            Some(Evidence::Absent(_)) => {
                return LastActivity::Unknown { why: "the instance is missing".into() };
            }
            None => return LastActivity::Unknown { why: "no answer in time".into() },
        };
        let Some(seen) = instances.iter().find(|seen| seen.generation == instance.generation) else {
            return LastActivity::Unknown { why: "an instance of another generation is present".into() };
        };
        let of_executions = seen.executions.iter().filter_map(|execution| match execution.process {
            ProcessObservation::Running { last_activity_at } => Some(last_activity_at),
            ProcessObservation::Ended(_) => None,
        });
        match of_executions.chain(seen.last_busy_at).chain(recorded_activity(stored)).max() {
            Some(last) => LastActivity::Last(last),
            None => LastActivity::Unknown { why: "no activity was recorded".into() },
        }
    }

    /// Whether the instance uses the CPU, sampled over `sample_ms`.
    pub(super) async fn uses_cpu(&self, stored: &StoredSandbox) -> Result<bool, String> {
        let clock = &self.inner.clock;
        let began_at = clock.now();
        let before = self.cpu_sample(stored).await?;
        clock.sleep_until(began_at.after_ms(self.inner.config.cleanup.sample_ms)).await;
        let after = self.cpu_sample(stored).await?;
        let used = after.used_ms.saturating_sub(before.used_ms);
        // On a busy host the instance may want more CPU than it gets, so waiting for a CPU counts as use. In both samples:
        // a probe of ours is there for one at the most.
        let is_used = used.saturating_mul(USED_PART) >= clock.now().ms_since(began_at);
        Ok(is_used || (before.is_wanted && after.is_wanted))
    }

    async fn cpu_sample(&self, stored: &StoredSandbox) -> Result<CpuSample, String> {
        match self.with_probe_timeout(stored, self.inner.provider.usage(instance_of(stored))).await {
            Some(Ok(usage)) => {
                let used_ms = usage.cpu_ms.ok_or_else(|| "CPU time is not measured".to_owned())?;
                Ok(CpuSample { used_ms, is_wanted: usage.runs == Some(true) })
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Err("no answer in time".into()),
        }
    }

    /// Runs a call within the engine's concurrency limit. None: no answer within the probe timeout.
    pub(super) async fn with_probe_timeout<T>(
        &self,
        stored: &StoredSandbox,
        question: impl Future<Output = T>,
    ) -> Option<T> {
        let _permit = self.inner.limits.acquire(EffectKind::Observe).await;
        let until = self.inner.clock.now().after_ms(stored.policy.probe_ms);
        tokio::select! {
            biased;
            answer = question => Some(answer),
            () = self.inner.clock.sleep_until(until) => None,
        }
    }
}

/// When the sandbox was last recorded as busy or kept alive.
fn recorded_activity(stored: &StoredSandbox) -> Option<Timestamp> {
    let Lease::Live(live) = &stored.sandbox.lease else { return None };
    let (idle_by, idle_ms) = live.idle_by.zip(stored.policy.idle_ms)?;
    Some(Timestamp(idle_by.0.saturating_sub_unsigned(idle_ms)))
}

pub(super) fn instance_of(stored: &StoredSandbox) -> InstanceId {
    InstanceId { sandbox: stored.sandbox.id, generation: stored.sandbox.generation() }
}
