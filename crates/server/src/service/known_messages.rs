//! What people have learnt to look for in logs, and what it means. Whatever a log says, somebody inside has written it:
//! it is a hint and never a proof.

use pinfold_api::TroubleKind;

pub(super) struct KnownMessage {
    /// In small letters.
    text: &'static str,
    pub(super) kind: TroubleKind,
    pub(super) cause: &'static str,
}

impl KnownMessage {
    pub(super) fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(self.text)
    }
}

pub(super) const KNOWN_MESSAGES: &[KnownMessage] = &[
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

const fn of(text: &'static str, kind: TroubleKind, cause: &'static str) -> KnownMessage {
    KnownMessage { text, kind, cause }
}
