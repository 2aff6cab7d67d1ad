//! One violated guarantee, and its kind.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViolationKind {
    /// A resource exists that no row accounts for.
    Leak,
    /// The API or a row reports a state that is not true.
    FalseStatus,
    /// A row waits without a deadline, or its deadline is not enforced.
    Stuck,
    /// Counters do not add up.
    Totals,
    /// Something acknowledged is no longer known.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub kind: ViolationKind,
    pub text: String,
}

impl Violation {
    pub(crate) fn new(kind: ViolationKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broken = match self.kind {
            ViolationKind::Leak => "leak",
            ViolationKind::FalseStatus => "false status",
            ViolationKind::Stuck => "stuck",
            ViolationKind::Totals => "totals",
            ViolationKind::Lost => "lost",
        };
        write!(f, "{broken}: {}", self.text)
    }
}
