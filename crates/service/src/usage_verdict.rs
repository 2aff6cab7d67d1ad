//! The verdict on a sandbox's resource usage: busy, hung, leaking, silent, idle or healthy.

use pinfold_api::Verdict;

/// Percent of one core, or of the CPU limit if that is lower.
const BUSY_PERCENT: f64 = 50.0;
const STILL_PERCENT: f64 = 3.0;
/// Longer than a normal pause between outputs.
const QUIET_MS: u64 = 5_000;
/// Memory counts as leaking above this share of its limit, or if it would reach the limit this soon at its current
/// growth.
const NEAR_LIMIT: f64 = 0.9;
const LIMIT_WITHIN_MS: f64 = 600_000.0;
/// Growth below this between two samples is normal variation.
const GROWTH_MIB: f64 = 1.0;

/// Indicators from two samples a short time apart.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Signs {
    pub(super) executions: usize,
    pub(super) cpu_percent: Option<f64>,
    /// Both samples found a process that runs or waits for a CPU. On a loaded host a busy loop gets only a share of
    /// a core, but it is always runnable.
    pub(super) is_runnable: bool,
    /// The CPU limit in percent of one core. None: no limit.
    pub(super) cpu_limit_percent: Option<f64>,
    pub(super) memory_mb: Option<f64>,
    pub(super) memory_growth_mb: f64,
    pub(super) memory_limit_mb: Option<f64>,
    pub(super) between_ms: f64,
    /// Operations between the two samples.
    pub(super) operations: u64,
    pub(super) quiet_ms: Option<u64>,
}

pub(super) fn judge_usage(signs: &Signs) -> (Verdict, String) {
    if signs.is_leaking() {
        return (Verdict::Leaking, "memory leak: memory grows towards its limit".into());
    }
    if signs.uses_its_cpu() {
        return (Verdict::Busy, "infinite loop or heavy computation: the processor is near 100 %".into());
    }
    if signs.is_starved() {
        return (
            Verdict::Busy,
            "infinite loop or heavy computation: the processor is shared and always wanted".into(),
        );
    }
    if signs.executions == 0 {
        return (Verdict::Idle, "no operations: nothing runs in it, it waits for work".into());
    }
    let quiet = signs.quiet_ms.is_some_and(|ms| ms >= QUIET_MS) && signs.operations == 0;
    match signs.cpu_percent {
        Some(percent) if quiet && percent <= STILL_PERCENT => {
            let seconds = signs.quiet_ms.unwrap_or_default() / 1_000;
            (
                Verdict::Hung,
                format!("hung on I/O or deadlock: the processor is near 0 %, nothing for {seconds} s"),
            )
        }
        Some(_) | None if quiet => (Verdict::Silent, "no operations: process stuck or waiting".into()),
        Some(_) | None => (Verdict::Healthy, "it works".into()),
    }
}

impl Signs {
    fn uses_its_cpu(&self) -> bool {
        let all = self.cpu_limit_percent.unwrap_or(100.0).min(100.0);
        self.cpu_percent.is_some_and(|percent| percent >= all * BUSY_PERCENT / 100.0)
    }

    /// A process always wants a CPU and gets less than it wants, because the host is loaded.
    fn is_starved(&self) -> bool {
        let gets_some = self.cpu_percent.is_some_and(|percent| percent > STILL_PERCENT);
        gets_some && self.is_runnable && self.operations == 0
    }

    fn is_leaking(&self) -> bool {
        let (Some(now), Some(limit)) = (self.memory_mb, self.memory_limit_mb) else { return false };
        if now >= limit * NEAR_LIMIT {
            return true;
        }
        let grows = self.memory_growth_mb >= GROWTH_MIB && self.between_ms > 0.0;
        grows && (limit - now) * self.between_ms / self.memory_growth_mb <= LIMIT_WITHIN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_has_its_likely_cause() {
        let works = Signs {
            executions: 1,
            cpu_percent: Some(40.0),
            memory_mb: Some(20.0),
            memory_limit_mb: Some(256.0),
            between_ms: 500.0,
            operations: 3,
            quiet_ms: Some(10),
            ..Signs::default()
        };
        let silent = Signs { operations: 0, quiet_ms: Some(QUIET_MS), ..works };
        let table = [
            (works, Verdict::Healthy, "it works"),
            (
                Signs { cpu_percent: Some(99.0), ..silent },
                Verdict::Busy,
                "infinite loop or heavy computation",
            ),
            (
                Signs { cpu_percent: Some(190.0), ..works },
                Verdict::Busy,
                "infinite loop or heavy computation",
            ),
            (
                Signs { cpu_percent: Some(24.0), cpu_limit_percent: Some(25.0), ..silent },
                Verdict::Busy,
                "infinite loop",
            ),
            (Signs { cpu_percent: Some(49.0), ..works }, Verdict::Healthy, "it works"),
            (Signs { cpu_percent: Some(19.0), is_runnable: true, ..silent }, Verdict::Busy, "infinite loop"),
            (Signs { cpu_percent: Some(19.0), is_runnable: true, ..works }, Verdict::Healthy, "it works"),
            (Signs { cpu_percent: Some(0.0), is_runnable: true, ..silent }, Verdict::Hung, "hung on I/O"),
            (Signs { cpu_percent: Some(0.0), ..silent }, Verdict::Hung, "hung on I/O or deadlock"),
            (Signs { cpu_percent: Some(0.0), ..works }, Verdict::Healthy, "it works"),
            (
                Signs { cpu_percent: Some(0.0), quiet_ms: Some(QUIET_MS - 1), ..silent },
                Verdict::Healthy,
                "it works",
            ),
            (silent, Verdict::Silent, "no operations: process stuck or waiting"),
            (Signs { cpu_percent: None, ..silent }, Verdict::Silent, "no operations"),
            (Signs { memory_growth_mb: 2.0, ..works }, Verdict::Leaking, "memory leak"),
            (
                Signs { memory_growth_mb: 2.0, cpu_percent: Some(99.0), ..works },
                Verdict::Leaking,
                "memory leak",
            ),
            (Signs { memory_mb: Some(240.0), ..works }, Verdict::Leaking, "memory leak"),
            (Signs { memory_growth_mb: 0.5, ..works }, Verdict::Healthy, "it works"),
            (
                Signs { memory_growth_mb: 1.0, memory_limit_mb: Some(16_384.0), ..works },
                Verdict::Healthy,
                "it works",
            ),
            (Signs { memory_growth_mb: 2.0, memory_limit_mb: None, ..works }, Verdict::Healthy, "it works"),
            (Signs { executions: 0, cpu_percent: Some(0.0), ..silent }, Verdict::Idle, "nothing runs in it"),
        ];
        for (signs, verdict, words) in table {
            let (said, why) = judge_usage(&signs);
            assert_eq!(said, verdict, "{signs:?}: {why}");
            assert!(why.contains(words), "{why}");
        }
    }
}
