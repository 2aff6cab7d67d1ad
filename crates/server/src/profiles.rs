//! The types of agents there are here, and what each of them gets. Configuration may have others than the usual ones.

use std::collections::BTreeMap;

use pinfold_lifecycle::profile::{PROFILES, Profile};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles {
    known: BTreeMap<String, Profile>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no type of agent `{given}`; there are {}", known.join(", "))]
pub struct UnknownAgentType {
    pub given: String,
    pub known: Vec<String>,
}

impl Default for Profiles {
    fn default() -> Self {
        let agents = PROFILES.iter().filter(|profile| profile.is_agent);
        Self::new(agents.map(|profile| (profile.name.to_owned(), *profile)))
    }
}

impl Profiles {
    /// By their names, as users and records spell them.
    pub fn new(known: impl IntoIterator<Item = (String, Profile)>) -> Self {
        Self { known: known.into_iter().collect() }
    }

    /// In upper or lower case, with `-` or `_`.
    pub fn find(&self, given: &str) -> Result<(&str, &Profile), UnknownAgentType> {
        let plain = given.replace('-', "_");
        let found = self.known.iter().find(|(name, _)| name.eq_ignore_ascii_case(&plain));
        found.map(|(name, profile)| (name.as_str(), profile)).ok_or_else(|| UnknownAgentType {
            given: given.chars().take(64).collect(),
            known: self.known.keys().cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_agent_is_found_however_it_is_spelled_and_another_is_refused_with_all_there_are() {
        let profiles = Profiles::default();

        assert_eq!(profiles.find("test-writer").unwrap().0, "TEST_WRITER");
        let refused = profiles.find("default").unwrap_err();
        assert_eq!(refused.known.len(), 5);
        assert!(refused.to_string().contains("ELICITATION"), "{refused}");
    }
}
