//! Least and most of every setting that is a number or a time, in one table. A value outside of its bounds is refused
//! with its key, the bounds and where it was set, before anything reads it.

use std::fmt;

use toml::de::DeValue;

use super::values::Time;
use crate::units::milliseconds;

/// What a setting may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bounds {
    Count {
        least: u64,
        most: u64,
    },
    /// In milliseconds.
    Span {
        least: u64,
        most: u64,
    },
    Number {
        least: f64,
        most: f64,
    },
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Longer retention is an archive, which this is not.
const TEN_YEARS: u64 = 3_650 * DAY;
/// 16 PiB, in MiB.
const MOST_MB: u64 = 1 << 34;
/// More sandboxes, tokens or requests than one host can have.
const MILLION: u64 = 1_000_000;
/// The kernel's limit of process ids.
const MOST_PROCESSES: u64 = 1 << 22;

const fn count(least: u64, most: u64) -> Bounds {
    Bounds::Count { least, most }
}

const fn span(least: u64, most: u64) -> Bounds {
    Bounds::Span { least, most }
}

/// Limits of profiles are checked with their units where profiles are resolved; here only their type is.
const ANY_COUNT: Bounds = count(0, u64::MAX);
const ANY_SPAN: Bounds = span(0, u64::MAX);

/// `*` stands for any one name.
const TABLE: &[(&str, Bounds)] = &[
    ("requests.rate", count(1, MILLION)),
    ("requests.burst", count(1, MILLION)),
    ("requests.connections", count(1, MILLION)),
    ("requests.connections_without_token", count(1, MILLION)),
    ("requests.connections_per_address", count(1, MILLION)),
    ("requests.head_timeout", span(100, 600 * SECOND)),
    ("requests.body_timeout", span(100, HOUR)),
    ("requests.wrong_tokens", count(1, MILLION)),
    ("admission.sandboxes", count(0, MILLION)),
    ("admission.memory_mb", count(1, MOST_MB)),
    ("admission.disk_mb", count(1, MOST_MB)),
    ("admission.processes", count(1, 1 << 32)),
    ("admission.tokens.*", count(0, MILLION)),
    ("admission.labels.*.*", count(0, MILLION)),
    ("admission.keep_disk_mb", count(0, MOST_MB)),
    ("admission.keep_memory_mb", count(0, MOST_MB)),
    ("admission.keep_processes", count(0, MOST_PROCESSES)),
    // Logs of recently ended sandboxes are read most, so they are never deleted early.
    ("admission.stale_after", span(20 * MINUTE, TEN_YEARS)),
    ("retention.records", span(SECOND, TEN_YEARS)),
    ("retention.history", span(SECOND, TEN_YEARS)),
    ("retention.keys", span(SECOND, TEN_YEARS)),
    ("retention.logs", span(SECOND, TEN_YEARS)),
    ("retention.artifacts", span(SECOND, TEN_YEARS)),
    ("retention.metrics", span(SECOND, TEN_YEARS)),
    ("sandboxes.start", span(SECOND, DAY)),
    ("sandboxes.grace", span(0, HOUR)),
    ("sandboxes.stop_attempt", span(SECOND, HOUR)),
    ("sandboxes.stop_attempts", count(1, 1_000)),
    ("sandboxes.probe", span(100, 10 * MINUTE)),
    ("sandboxes.probe_every", span(SECOND, DAY)),
    ("sandboxes.evidence", span(SECOND, DAY)),
    ("sandboxes.unhealthy_age", span(SECOND, 30 * DAY)),
    ("sandboxes.queued", span(100, DAY)),
    ("sandboxes.idle", span(SECOND, 30 * DAY)),
    ("sandboxes.max_life", span(SECOND, 30 * DAY)),
    ("sandboxes.concurrent_executions", count(1, 1_000)),
    ("sandboxes.queue_length", count(0, 100_000)),
    ("sandboxes.jobs", count(0, 100_000)),
    ("engine.poll", span(1, 10 * SECOND)),
    ("engine.heartbeat", span(100, MINUTE)),
    ("engine.dead_after", span(SECOND, HOUR)),
    ("engine.reconcile_every", span(SECOND, DAY)),
    ("engine.launches", count(1, 1_000)),
    ("engine.stops", count(1, 100_000)),
    ("engine.instance_calls", count(1, 100_000)),
    ("cleanup.orphan_timeout", span(SECOND, 30 * DAY)),
    ("cleanup.stuck_timeout", span(SECOND, 30 * DAY)),
    ("cleanup.max_age", span(SECOND, 30 * DAY)),
    ("cleanup.overdue", span(SECOND, 30 * DAY)),
    ("cleanup.item_timeout", span(SECOND, 30 * DAY)),
    ("cleanup.batch", count(1, 10_000)),
    ("cleanup.pressure", Bounds::Number { least: 0.1, most: 1.0 }),
    ("flags.old", span(SECOND, 30 * DAY)),
    ("flags.long_running", span(SECOND, 30 * DAY)),
    ("warm.sizes.*", count(0, 1_000)),
    ("warm.life", span(10 * SECOND, DAY)),
    ("warm.launches", count(1, 1_000)),
    ("agents.timeout", ANY_SPAN),
    ("agents.inactivity", ANY_SPAN),
    ("agents.retries", count(0, 10)),
    ("agents.retry_after", span(1, 10 * MINUTE)),
    ("alerts.every", span(100, 10 * MINUTE)),
    ("alerts.window", span(SECOND, DAY)),
    ("alerts.cooldown", span(SECOND, 7 * DAY)),
    ("alerts.escalate_after", span(SECOND, 7 * DAY)),
    ("alerts.smtp_port", count(1, 65_535)),
    ("alerts.rules.*.threshold", Bounds::Number { least: 0.0, most: 1e15 }),
    ("alerts.rules.*.sustained", span(0, 7 * DAY)),
    ("alerts.rules.*.minimum", count(0, 1_000 * MILLION)),
    ("telemetry.interval", span(SECOND, HOUR)),
    ("profiles.*.memory_mb", ANY_COUNT),
    ("profiles.*.cpu_millis", count(0, u32::MAX as u64)),
    ("profiles.*.cpu_time", ANY_SPAN),
    ("profiles.*.network_requests", ANY_COUNT),
    ("profiles.*.disk_mb", ANY_COUNT),
    ("profiles.*.inodes", ANY_COUNT),
    ("profiles.*.processes", ANY_COUNT),
    ("profiles.*.open_files", ANY_COUNT),
    ("profiles.*.output_mb", ANY_COUNT),
    ("profiles.*.operations", ANY_COUNT),
    ("profiles.*.timeout", ANY_SPAN),
    ("profiles.*.inactivity", ANY_SPAN),
];

/// The bounds of a key. None: it is neither a number nor a time.
pub(super) fn bounds_of(path: &[&str]) -> Option<Bounds> {
    let is_it = |pattern: &str| {
        let mut names = pattern.split('.');
        path.iter().all(|name| names.next().is_some_and(|known| known == "*" || known == *name))
            && names.next().is_none()
    };
    TABLE.iter().find(|(pattern, _)| is_it(pattern)).map(|(_, bounds)| *bounds)
}

impl Bounds {
    /// Why a value of a file is not allowed.
    pub(super) fn refuse_value(self, value: &DeValue<'_>) -> Option<String> {
        match (self, value) {
            (Self::Span { .. }, DeValue::String(text)) => self.refuse_text(text),
            (Self::Count { .. } | Self::Span { .. }, DeValue::Integer(digits)) => {
                let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok();
                self.refuse_integer(number, &digits.to_string())
            }
            (Self::Number { .. }, DeValue::Integer(digits)) => {
                self.refuse_number(digits.as_str().parse().ok(), digits.as_str())
            }
            (Self::Number { .. }, DeValue::Float(number)) => {
                self.refuse_number(number.as_str().parse().ok(), number.as_str())
            }
            (_, other) => Some(format!("expected {}, not a {}; {self}", self.kind(), other.type_str())),
        }
    }

    /// Why the text of an environment variable, or a time in quotes, is not allowed.
    pub(super) fn refuse_text(self, text: &str) -> Option<String> {
        match self {
            Self::Count { .. } => match text.parse::<i128>() {
                Ok(number) => self.refuse_integer(Some(number), text),
                Err(_) => Some(format!("`{text}` is not {}; {self}", self.kind())),
            },
            Self::Span { least, most } => match milliseconds(text) {
                Ok(ms) if (least..=most).contains(&ms) => None,
                Ok(ms) => Some(format!("{} is not allowed; {self}", Time(ms))),
                Err(why) => Some(why),
            },
            Self::Number { .. } => self.refuse_number(text.parse().ok(), text),
        }
    }

    /// `number` is `None` if it does not fit into any integer.
    fn refuse_integer(self, number: Option<i128>, shown: &str) -> Option<String> {
        let (least, most, factor) = match self {
            Self::Count { least, most } => (least, most, 1),
            Self::Span { least, most } => (least, most, i128::from(SECOND)),
            Self::Number { .. } => return None,
        };
        let scaled = number.and_then(|number| number.checked_mul(factor));
        if scaled.is_some_and(|given| (i128::from(least)..=i128::from(most)).contains(&given)) {
            return None;
        }
        let shown = match (self, scaled.map(u64::try_from)) {
            (Self::Span { .. }, Some(Ok(ms))) => Time(ms).to_string(),
            _ => shown.to_owned(),
        };
        Some(format!("{shown} is not allowed; {self}"))
    }

    fn refuse_number(self, number: Option<f64>, shown: &str) -> Option<String> {
        let Self::Number { least, most } = self else { return None };
        match number {
            Some(number) if (least..=most).contains(&number) => None,
            Some(_) => Some(format!("{shown} is not allowed; {self}")),
            None => Some(format!("`{shown}` is not {}; {self}", self.kind())),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Count { .. } => "a whole number",
            Self::Span { .. } => "a time such as 90, \"500ms\", \"5m\" or \"1d\"",
            Self::Number { .. } => "a number",
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { least, most: u64::MAX } => write!(f, "it must be {least} or more"),
            Self::Span { least, most: u64::MAX } => write!(f, "it must be {} or more", Time(*least)),
            Self::Count { least, most } => write!(f, "the range is {least} to {most}"),
            Self::Span { least, most } => write!(f, "the range is {} to {}", Time(*least), Time(*most)),
            Self::Number { least, most } => write!(f, "the range is {least} to {most}"),
        }
    }
}
