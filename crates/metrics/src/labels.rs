//! What may vary in a name: words of closed lists, and types of agents as long as they are known. Whatever else somebody
//! writes becomes one word, so that nobody can make the names grow.

use std::collections::BTreeSet;

use pinfold_lifecycle::Cause;
use serde::Serialize;

/// A type of agent that is not among the known ones.
pub const OTHER: &str = "other";
/// No type of agent: somebody's own sandbox.
pub const NONE: &str = "none";

/// Every cause there is.
pub(crate) const CAUSES: [Cause; 25] = [
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
];

/// Longer names are not worth a label.
const LONGEST: usize = 64;

/// Those that names may be made of.
#[derive(Debug, Clone, Default)]
pub struct AgentTypes(BTreeSet<String>);

/// A type of agent as a part of a name. Only [`AgentTypes`] makes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentLabel(String);

impl AgentTypes {
    pub fn known<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().filter(|name| is_plain(name)).map(str::to_owned).collect())
    }

    /// Every word that a label can be.
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

/// How a word of a closed list is spelled where it is stored.
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
    fn ten_thousand_types_that_nobody_knows_are_one_word() {
        let types = AgentTypes::known(["VALIDATION"]);

        let words: BTreeSet<_> =
            (0..10_000).map(|number| types.label(Some(&format!("agent-{number}")))).collect();

        assert_eq!(words, BTreeSet::from([AgentLabel(OTHER.to_owned())]));
        assert_eq!(types.label(Some("VALIDATION")).as_str(), "VALIDATION");
        assert_eq!(types.label(None).as_str(), NONE);
    }

    #[test]
    fn a_name_that_could_be_taken_for_two_is_not_known() {
        let types = AgentTypes::known(["a|b", "", "a b", "a\"b"]);

        assert_eq!(types.label(Some("a|b")).as_str(), OTHER);
        assert_eq!(types.label(Some("")).as_str(), OTHER);
    }

    #[test]
    fn every_cause_is_in_the_list() {
        // One that is added breaks this match, and belongs into the list.
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
        };

        assert!(CAUSES.iter().enumerate().all(|(at, cause)| place(*cause) == at));
    }

    #[test]
    fn a_cause_is_spelled_as_it_is_stored() {
        assert_eq!(word(&Cause::StoppedByUser), "stopped_by_user");
    }
}
