//! What a sandbox uses: measured twice, so that there is a rate.

use std::time::Duration;

use pinfold_api::Resources;
use pinfold_lifecycle::{Life, SandboxId, Used};
use pinfold_provider::Usage;

use super::words::moment;
use super::{Failure, Service};

/// Long enough for a rate, short enough to wait for.
const BETWEEN: Duration = Duration::from_millis(200);
const MIB: f64 = 1_048_576.0;

impl Service {
    pub async fn resources(&self, id: SandboxId) -> Result<Resources, Failure> {
        let stored = self.stored(id).await?;
        let sandbox = &stored.sandbox;
        if let Life::Ended { at, receipt, .. } = &sandbox.life {
            let duration_ms = at.ms_since(sandbox.created_at);
            return Ok(Resources {
                duration_ms,
                ..in_all(receipt.used.unwrap_or_default(), moment(receipt.verified_at))
            });
        }
        let (began, before) = (self.now(), self.host.engine.usage(id).await?);
        tokio::time::sleep(BETWEEN).await;
        let (now, usage) = (self.now(), self.host.engine.usage(id).await?);
        Ok(Resources {
            cpu_percent: percent(before, usage, now.ms_since(began)),
            cpu_ms: usage.cpu_ms,
            memory_mb: usage.memory_bytes.map(mebibytes),
            memory_peak_mb: usage.memory_peak_bytes.map(mebibytes),
            duration_ms: now.ms_since(sandbox.created_at),
            operations: Some(usage.operations),
            processes: usage.processes,
            disk_mb: usage.disk_bytes.map(mebibytes),
            io_read_bytes: usage.io_read_bytes,
            io_written_bytes: usage.io_written_bytes,
            measured_at: moment(now),
        })
    }
}

fn in_all(used: Used, measured_at: String) -> Resources {
    Resources {
        cpu_percent: None,
        cpu_ms: used.cpu_ms,
        memory_mb: None,
        memory_peak_mb: used.memory_peak_bytes.map(mebibytes),
        duration_ms: 0,
        operations: None,
        processes: None,
        disk_mb: None,
        io_read_bytes: used.io_read_bytes,
        io_written_bytes: used.io_written_bytes,
        measured_at,
    }
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
