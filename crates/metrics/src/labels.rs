//! Label values: words of closed lists, and known agent types. Everything else becomes one word, so that user input
//! cannot increase the number of time series.

use std::collections::BTreeSet;

use pinfold_lifecycle::Cause;
use serde::Serialize;

/// An agent type that is not known.
pub const OTHER: &str = "other";
/// No agent type.
pub const NONE: &str = "none";

/// All causes.
pub(crate) const CAUSES: [Cause; 26] = [
    Cause::Completed,
    Cause::ExitNonzero,
    Cause::StoppedByUser,
    Cause::TimeLimit,
    Cause::Inactivity,
    Cause::Idle,
    Cause::MaxLife,
    Cause::MemoryLimit,
    Cause::CpuLimit,
    Cause::NetworkLimit,
    Cause::DiskLimit,
    Cause::ProcessLimit,
    Cause::OutputLimit,
    Cause::StartDeadline,
    Cause::StartFailed,
    Cause::ProbeFailed,
    Cause::Cancelled,
    Cause::CallerGone,
    Cause::Shutdown,
    Cause::Orphan,
    Cause::Lost,
    Cause::HostRestarted,
    Cause::EvictedEmergency,
    Cause::ProviderError,
    Cause::OperationLimit,
    Cause::KeeperKilled,
];

/// Longer names are not used as a label value.
const LONGEST: usize = 64;

/// The agent types that are used as label values.
#[derive(Debug, Clone, Default)]
pub struct AgentTypes(BTreeSet<String>);

/// An agent type as a label value. Only [`AgentTypes`] creates one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentLabel(String);

impl AgentTypes {
    pub fn known<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().filter(|name| is_plain(name)).map(str::to_owned).collect())
    }

    /// All possible label values.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.0.iter().map(String::as_str).chain([NONE, OTHER]).map(str::to_owned).collect()
    }

    #[must_use]
    pub fn label(&self, given: Option<&str>) -> AgentLabel {
        let word = match given {
            None => NONE,
            Some(name) if self.0.contains(name) => name,
            Some(_) => OTHER,
        };
        AgentLabel(word.to_owned())
    }
}

impl AgentLabel {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_plain(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= LONGEST;
    fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The serialized name of a value of a closed list.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => OTHER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_unknown_types_are_one_label() {
        let types = AgentTypes::known(["VALIDATION"]);

        let words: BTreeSet<_> =
            (0..10_000).map(|number| types.label(Some(&format!("agent-{number}")))).collect();

        assert_eq!(words, BTreeSet::from([AgentLabel(OTHER.to_owned())]));
        assert_eq!(types.label(Some("VALIDATION")).as_str(), "VALIDATION");
        assert_eq!(types.label(None).as_str(), NONE);
    }

    #[test]
    fn ambiguous_agent_type_is_unknown() {
        let types = AgentTypes::known(["a|b", "", "a b", "a\"b"]);

        assert_eq!(types.label(Some("a|b")).as_str(), OTHER);
        assert_eq!(types.label(Some("")).as_str(), OTHER);
    }

    #[test]
    fn every_cause_is_listed() {
        // A new cause breaks this match and must be added to the list.
        let place = |cause: Cause| match cause {
            Cause::Completed => 0,
            Cause::ExitNonzero => 1,
            Cause::StoppedByUser => 2,
            Cause::TimeLimit => 3,
            Cause::Inactivity => 4,
            Cause::Idle => 5,
            Cause::MaxLife => 6,
            Cause::MemoryLimit => 7,
            Cause::CpuLimit => 8,
            Cause::NetworkLimit => 9,
            Cause::DiskLimit => 10,
            Cause::ProcessLimit => 11,
            Cause::OutputLimit => 12,
            Cause::StartDeadline => 13,
            Cause::StartFailed => 14,
            Cause::ProbeFailed => 15,
            Cause::Cancelled => 16,
            Cause::CallerGone => 17,
            Cause::Shutdown => 18,
            Cause::Orphan => 19,
            Cause::Lost => 20,
            Cause::HostRestarted => 21,
            Cause::EvictedEmergency => 22,
            Cause::ProviderError => 23,
            Cause::OperationLimit => 24,
            Cause::KeeperKilled => 25,
        };

        assert!(CAUSES.iter().enumerate().all(|(at, cause)| place(*cause) == at));
    }

    #[test]
    fn cause_label_equals_its_serialized_name() {
        assert_eq!(word(&Cause::StoppedByUser), "stopped_by_user");
    }
}
