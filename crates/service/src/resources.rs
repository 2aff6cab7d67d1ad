//! Resource usage of a sandbox: two samples, to compute rates.

use std::time::Duration;

use pinfold_api::{Resources, Verdict};
use pinfold_lifecycle::{Evidence, Life, ProcessObservation, ResourceUsage, SandboxId, Timestamp};
use pinfold_provider::Usage;
use pinfold_store::{Row, StoredSandbox};

use super::convert::{self, rfc3339};
use super::diagnosis::diagnose;
use super::usage_verdict::{Signs, judge_usage};
use super::{Failure, Service, view};

/// Long enough for a rate, short enough for a request.
const BETWEEN: Duration = Duration::from_millis(500);
const MIB: f64 = 1_048_576.0;

impl Service {
    pub async fn resources(&self, id: SandboxId) -> Result<Resources, Failure> {
        let stored = self.stored(id).await?;
        let (sandbox, limits) = (&stored.sandbox, &stored.spec.limits);
        let last_activity = self.last_activity(id).await;
        if let Life::Ended { at, receipt, cause } = &sandbox.life {
            let cause = serde_json::json!(convert::cause(*cause));
            let used = receipt.used.unwrap_or_default();
            return Ok(Resources {
                duration_ms: at.ms_since(sandbox.created_at),
                memory_limit_mb: limits.memory_mb,
                disk_limit_mb: limits.disk_mb,
                network_requests_limit: limits.network_requests,
                last_activity: last_activity.map(rfc3339),
                diagnosis: format!("it has ended: {}", cause.as_str().unwrap_or_default()),
                ..totals_view(used, rfc3339(receipt.verified_at))
            });
        }
        let sample = self.sample_usage(&stored).await?;
        let observed = self.observe(&stored, Some(&sample)).await;
        let UsageSample { now, usage, last_activity: later, signs } = sample;
        let shown = view::sandbox(&Row::Readable(stored.clone()), None, now, self.config.flags);
        let last_activity = later.or(last_activity);
        let (verdict, diagnosis) = judge_usage(&signs);
        Ok(Resources {
            cpu_percent: signs.cpu_percent,
            cpu_ms: usage.cpu_ms,
            memory_mb: usage.memory_bytes.map(mebibytes),
            memory_peak_mb: usage.memory_peak_bytes.map(mebibytes),
            memory_limit_mb: limits.memory_mb,
            duration_ms: now.ms_since(sandbox.created_at),
            operations: Some(usage.operations),
            processes: usage.processes,
            disk_mb: usage.disk_bytes.map(mebibytes),
            disk_limit_mb: limits.disk_mb,
            io_read_bytes: usage.io_read_bytes,
            io_written_bytes: usage.io_written_bytes,
            network_requests: 0,
            network_requests_limit: limits.network_requests,
            last_activity: last_activity.map(rfc3339),
            measured_at: rfc3339(now),
            verdict,
            diagnosis,
            troubles: diagnose(&shown, &[], &observed),
        })
    }
}

/// The usage of a sandbox, and indicators computed from two samples.
pub(super) struct UsageSample {
    now: Timestamp,
    pub(super) usage: Usage,
    last_activity: Option<Timestamp>,
    pub(super) signs: Signs,
}

impl Service {
    pub(super) async fn sample_usage(&self, stored: &StoredSandbox) -> Result<UsageSample, Failure> {
        let (sandbox, limits) = (&stored.sandbox, &stored.spec.limits);
        let (began, before) = (self.now(), self.host.engine.usage(sandbox.id).await?);
        tokio::time::sleep(BETWEEN).await;
        let (now, usage) = (self.now(), self.host.engine.usage(sandbox.id).await?);
        let between_ms = now.ms_since(began);
        let last_activity = self.last_activity(sandbox.id).await;
        let signs = Signs {
            executions: sandbox.executions.len(),
            cpu_percent: percent(before, usage, between_ms),
            is_runnable: before.runs == Some(true) && usage.runs == Some(true),
            cpu_limit_percent: limits.cpu_millis.map(|millis| f64::from(millis) / 10.0),
            memory_mb: usage.memory_bytes.map(mebibytes),
            memory_growth_mb: growth(before, usage),
            memory_limit_mb: limits.memory_mb.map(float),
            between_ms: float(between_ms),
            operations: usage.operations.saturating_sub(before.operations),
            quiet_ms: self.last_output_at(stored).await.or(last_activity).map(|last| now.ms_since(last)),
        };
        Ok(UsageSample { now, usage, last_activity, signs })
    }

    /// When a process in it last wrote output. File requests by others do not count. None: no execution runs, or the
    /// keeper does not answer.
    async fn last_output_at(&self, stored: &StoredSandbox) -> Option<Timestamp> {
        let Evidence::Present(instances) = self.host.provider.observe(stored.sandbox.id).await else {
            return None;
        };
        let own = instances.into_iter().find(|it| it.generation == stored.sandbox.generation())?;
        let running = own.executions.into_iter().filter_map(|execution| match execution.process {
            ProcessObservation::Running { last_activity_at } => Some(last_activity_at),
            ProcessObservation::Ended(_) => None,
        });
        running.max()
    }
}

fn totals_view(used: ResourceUsage, measured_at: String) -> Resources {
    Resources {
        cpu_percent: None,
        cpu_ms: used.cpu_ms,
        memory_mb: None,
        memory_peak_mb: used.memory_peak_bytes.map(mebibytes),
        memory_limit_mb: None,
        duration_ms: 0,
        operations: None,
        processes: None,
        disk_mb: None,
        disk_limit_mb: None,
        io_read_bytes: used.io_read_bytes,
        io_written_bytes: used.io_written_bytes,
        network_requests: 0,
        network_requests_limit: None,
        last_activity: None,
        measured_at,
        verdict: Verdict::Ended,
        diagnosis: String::new(),
        troubles: Vec::new(),
    }
}

fn growth(before: Usage, after: Usage) -> f64 {
    let grown =
        after.memory_bytes.zip(before.memory_bytes).map(|(after, before)| after.saturating_sub(before));
    float(grown.unwrap_or(0)) / MIB
}

fn percent(before: Usage, after: Usage, ms: u64) -> Option<f64> {
    let used_ms = after.cpu_ms?.saturating_sub(before.cpu_ms?);
    (ms > 0).then(|| to_tenths(100.0 * float(used_ms) / float(ms)))
}

fn mebibytes(bytes: u64) -> f64 {
    to_tenths(float(bytes) / MIB)
}

fn to_tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "values for people, far below the limit of precision")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_rate_is_relative_to_one_core_and_unknown_without_samples() {
        let at = |cpu_ms| Usage { cpu_ms: Some(cpu_ms), ..Usage::default() };

        assert_eq!(percent(at(1_000), at(1_200), 200), Some(100.0));
        assert_eq!(percent(at(1_000), at(1_400), 200), Some(200.0));
        assert_eq!(percent(at(1_000), at(1_000), 200), Some(0.0));
        assert_eq!(percent(Usage::default(), at(1_000), 200), None);
        assert_eq!(percent(at(1_000), at(1_200), 0), None);
    }
}
