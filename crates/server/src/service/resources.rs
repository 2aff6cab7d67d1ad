//! What a sandbox uses: measured twice, so that there is a rate.

use std::time::Duration;

use pinfold_api::{Resources, Verdict};
use pinfold_lifecycle::{Evidence, Life, SandboxId, Seen, Timestamp, Used};
use pinfold_provider::{Provider, Usage};
use pinfold_store::{Row, Stored};

use super::diagnosis::{Signs, diagnose};
use super::troubles::troubles;
use super::words::{self, moment};
use super::{Failure, Service, view};

/// Long enough for a rate, short enough to wait for.
const BETWEEN: Duration = Duration::from_millis(500);
const MIB: f64 = 1_048_576.0;

impl Service {
    pub async fn resources(&self, id: SandboxId) -> Result<Resources, Failure> {
        let stored = self.stored(id).await?;
        let (sandbox, limits) = (&stored.sandbox, &stored.spec.limits);
        let last_activity = self.last_activity(id).await;
        if let Life::Ended { at, receipt, cause } = &sandbox.life {
            let told = serde_json::json!(words::cause(*cause));
            let used = receipt.used.unwrap_or_default();
            return Ok(Resources {
                duration_ms: at.ms_since(sandbox.created_at),
                memory_limit_mb: limits.memory_mb,
                disk_limit_mb: limits.disk_mb,
                network_requests_limit: limits.network_requests,
                last_activity: last_activity.map(moment),
                diagnosis: format!("it has ended: {}", told.as_str().unwrap_or_default()),
                ..in_all(used, moment(receipt.verified_at))
            });
        }
        let looks = self.look_twice(&stored).await?;
        let seen = self.see(&stored, Some(&looks));
        let Looks { now, usage, last_activity: later, signs } = looks;
        let shown = view::sandbox(&Row::Readable(stored.clone()), None, now, self.rules.flags);
        let last_activity = later.or(last_activity);
        let (verdict, diagnosis) = diagnose(&signs);
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
            last_activity: last_activity.map(moment),
            measured_at: moment(now),
            verdict,
            diagnosis,
            troubles: troubles(&shown, &[], &seen),
        })
    }
}

/// What a sandbox uses, and what two looks at it say together.
pub(super) struct Looks {
    now: Timestamp,
    pub(super) usage: Usage,
    last_activity: Option<Timestamp>,
    pub(super) signs: Signs,
}

impl Service {
    pub(super) async fn look_twice(&self, stored: &Stored) -> Result<Looks, Failure> {
        let (sandbox, limits) = (&stored.sandbox, &stored.spec.limits);
        let (began, before) = (self.now(), self.host.engine.usage(sandbox.id).await?);
        tokio::time::sleep(BETWEEN).await;
        let (now, usage) = (self.now(), self.host.engine.usage(sandbox.id).await?);
        let between_ms = now.ms_since(began);
        let last_activity = self.last_activity(sandbox.id).await;
        let signs = Signs {
            executions: sandbox.executions.len(),
            cpu_percent: percent(before, usage, between_ms),
            cpu_limit_percent: limits.cpu_millis.map(|millis| f64::from(millis) / 10.0),
            memory_mb: usage.memory_bytes.map(mebibytes),
            memory_growth_mb: growth(before, usage),
            memory_limit_mb: limits.memory_mb.map(float),
            between_ms: float(between_ms),
            operations: usage.operations.saturating_sub(before.operations),
            quiet_ms: self.last_sign(stored).await.or(last_activity).map(|last| now.ms_since(last)),
        };
        Ok(Looks { now, usage, last_activity, signs })
    }

    /// When anything that runs in it last wrote something. What others did to it meanwhile is no sign of its life. None:
    /// nothing runs, or its keeper does not say.
    async fn last_sign(&self, stored: &Stored) -> Option<Timestamp> {
        let Evidence::Present(bodies) = self.host.provider.observe(stored.sandbox.id).await else {
            return None;
        };
        let own = bodies.into_iter().find(|body| body.generation == stored.sandbox.generation())?;
        let running = own.executions.into_iter().filter_map(|execution| match execution.seen {
            Seen::Running { last_activity_at } => Some(last_activity_at),
            Seen::Ended(_) => None,
        });
        running.max()
    }
}

fn in_all(used: Used, measured_at: String) -> Resources {
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

#[expect(clippy::cast_precision_loss, reason = "figures for people, far from where it matters")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_one_core_and_unknown_where_nothing_was_counted() {
        let at = |cpu_ms| Usage { cpu_ms: Some(cpu_ms), ..Usage::default() };

        assert_eq!(percent(at(1_000), at(1_200), 200), Some(100.0));
        assert_eq!(percent(at(1_000), at(1_400), 200), Some(200.0));
        assert_eq!(percent(at(1_000), at(1_000), 200), Some(0.0));
        assert_eq!(percent(Usage::default(), at(1_000), 200), None);
        assert_eq!(percent(at(1_000), at(1_200), 0), None);
    }
}
