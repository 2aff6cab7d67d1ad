//! Validation of requested limits. An error names the field, the given value and the allowed range.

use std::fmt;

use super::LimitOverrides;
use crate::Policy;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLimit {
    #[error("{field}: {} is not allowed; allowed is from {} to {}", unit.show(*given), unit.show(*least), unit.show(*most))]
    OutOfRange { field: &'static str, given: u64, least: u64, most: u64, unit: Unit },
    #[error("{field}: {} is longer than {beyond}, which is {}", Unit::Milliseconds.show(*given_ms), Unit::Milliseconds.show(*limit_ms))]
    LongerThan { field: &'static str, given_ms: u64, beyond: &'static str, limit_ms: u64 },
}

/// Unit of a limit, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    Mebibytes,
    Milliseconds,
    /// Thousandths of one core.
    CpuMillis,
}

impl Unit {
    fn show(self, value: u64) -> Shown {
        Shown { unit: self, value }
    }
}

struct Shown {
    unit: Unit,
    value: u64,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.unit {
            Unit::Count => write!(f, "{value}"),
            Unit::Mebibytes => write!(f, "{value} MiB"),
            Unit::Milliseconds if value.is_multiple_of(1_000) => write!(f, "{} s", value / 1_000),
            Unit::Milliseconds => write!(f, "{value} ms"),
            Unit::CpuMillis => write!(f, "{}.{:03} cores", value / 1_000, value % 1_000),
        }
    }
}

const DAY_MS: u64 = 24 * 3_600_000;
/// Less is not enough to start one process.
const LEAST_MEMORY_MB: u64 = 4;
const MEBIBYTES_OF_A_TEBIBYTE: u64 = 1 << 20;
/// The kernel's limit of process ids.
const MOST_PROCESSES: u64 = 1 << 22;

pub(super) fn check(overrides: &LimitOverrides, policy: &Policy) -> Result<(), BadLimit> {
    let limits = &overrides.limits;
    let cpu = limits.cpu_millis.map(u64::from);
    let mebibytes = Unit::Mebibytes;
    range("memory", limits.memory_mb, LEAST_MEMORY_MB, 16 * MEBIBYTES_OF_A_TEBIBYTE, mebibytes)?;
    range("cpus", cpu, 10, 1_024_000, Unit::CpuMillis)?;
    range("cpu-time", limits.cpu_time_ms, 10, 30 * DAY_MS, Unit::Milliseconds)?;
    range("network-requests", limits.network_requests, 0, 1_000_000_000, Unit::Count)?;
    range("disk", limits.disk_mb, 1, 64 * MEBIBYTES_OF_A_TEBIBYTE, mebibytes)?;
    range("inodes", limits.inodes, 64, 1 << 32, Unit::Count)?;
    range("pids", limits.processes, 1, MOST_PROCESSES, Unit::Count)?;
    range("open-files", limits.open_files, 16, 1 << 20, Unit::Count)?;
    range("output", limits.output_mb, 1, MEBIBYTES_OF_A_TEBIBYTE, mebibytes)?;
    range("operations", limits.operations, 1, 1_000_000_000, Unit::Count)?;
    times(overrides, policy)
}

fn times(overrides: &LimitOverrides, policy: &Policy) -> Result<(), BadLimit> {
    let (execution, time) = (&overrides.execution, Unit::Milliseconds);
    range("max-life", overrides.max_life_ms, 1_000, 30 * DAY_MS, time)?;
    range("timeout", execution.timeout_ms, 10, 30 * DAY_MS, time)?;
    let inactivity_ms = execution.inactivity_ms.filter(|ms| *ms > 0);
    range("inactivity-timeout", inactivity_ms, 10, 30 * DAY_MS, time)?;
    range("idle-timeout", overrides.idle_ms, 1_000, 30 * DAY_MS, time)?;
    let life = ("the sandbox's max-life", overrides.max_life_ms.unwrap_or(policy.max_life_ms));
    let timeout = execution.timeout_ms.map_or(life, |ms| ("the timeout", ms));
    fits("timeout", execution.timeout_ms, life)?;
    fits("inactivity-timeout", execution.inactivity_ms, timeout)?;
    fits("idle-timeout", overrides.idle_ms, life)
}

fn range(field: &'static str, given: Option<u64>, least: u64, most: u64, unit: Unit) -> Result<(), BadLimit> {
    match given {
        Some(given) if given < least || given > most => {
            Err(BadLimit::OutOfRange { field, given, least, most, unit })
        }
        Some(_) | None => Ok(()),
    }
}

fn fits(
    field: &'static str,
    given: Option<u64>,
    (beyond, limit_ms): (&'static str, u64),
) -> Result<(), BadLimit> {
    match given {
        Some(given_ms) if given_ms > limit_ms => {
            Err(BadLimit::LongerThan { field, given_ms, beyond, limit_ms })
        }
        Some(_) | None => Ok(()),
    }
}
