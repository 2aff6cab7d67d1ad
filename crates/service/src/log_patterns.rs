//! Known error messages in logs and their usual causes. A log is written by untrusted code: a match is a hint, not a
//! proof.

use pinfold_api::TroubleKind;

pub(super) struct LogPattern {
    /// In lower case.
    text: &'static str,
    pub(super) kind: TroubleKind,
    pub(super) cause: &'static str,
}

impl LogPattern {
    pub(super) fn matches(&self, text: &str) -> bool {
        text.to_lowercase().contains(self.text)
    }
}

pub(super) const LOG_PATTERNS: &[LogPattern] = &[
    of("operation timed out", TroubleKind::ServiceHangs, "external service hang"),
    of("connection timed out", TroubleKind::ServiceHangs, "external service hang"),
    of("maximum call stack", TroubleKind::EndlessRecursion, "infinite recursion"),
    of("maximum recursion depth", TroubleKind::EndlessRecursion, "infinite recursion"),
    of("out of memory", TroubleKind::OutOfMemory, "memory leak"),
    of("memory_limit", TroubleKind::OutOfMemory, "memory leak"),
    of("cannot allocate memory", TroubleKind::OutOfMemory, "memory leak"),
    of("no space left on device", TroubleKind::DiskFull, "disk limit reached"),
    of("cannot fork", TroubleKind::ProcessesFull, "process limit reached"),
    of("could not resolve host", TroubleKind::NoNetwork, "a network that it does not have"),
    of("network is unreachable", TroubleKind::NoNetwork, "a network that it does not have"),
    of("temporary failure in name resolution", TroubleKind::NoNetwork, "a network that it does not have"),
];

const fn of(text: &'static str, kind: TroubleKind, cause: &'static str) -> LogPattern {
    LogPattern { text, kind, cause }
}
