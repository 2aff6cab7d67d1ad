//! The configured profiles: the built-in ones, with the operator's changes and additions.

use super::{PROFILES, Profile};

/// Profiles by name, in the canonical spelling, the default first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles(Vec<(String, Profile)>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {} `{given}`; there are {}", if *is_agent { "type of agent" } else { "profile" }, known.join(", "))]
pub struct UnknownProfile {
    pub given: String,
    pub known: Vec<String>,
    /// Whether only agent types were acceptable.
    pub is_agent: bool,
}

/// Longest part of an unknown name that an error message repeats.
const MAX_SHOWN_NAME: usize = 64;

impl Default for Profiles {
    fn default() -> Self {
        Self(PROFILES.iter().map(|(name, profile)| ((*name).to_owned(), *profile)).collect())
    }
}

impl Profiles {
    /// Returns the profile and the canonical spelling of its name. Case does not matter, and `-` equals `_`.
    pub fn get(&self, given: &str) -> Result<(&str, &Profile), UnknownProfile> {
        self.find(given, false)
    }

    /// Like [`get`](Self::get), but only for agent types.
    pub fn get_agent(&self, given: &str) -> Result<(&str, &Profile), UnknownProfile> {
        self.find(given, true)
    }

    fn find(&self, given: &str, is_agent: bool) -> Result<(&str, &Profile), UnknownProfile> {
        let mut candidates = self.iter().filter(|(_, profile)| profile.is_agent || !is_agent);
        let found = candidates.clone().find(|(name, _)| is_same(name, given));
        found.ok_or_else(|| UnknownProfile {
            given: given.chars().take(MAX_SHOWN_NAME).collect(),
            known: candidates.by_ref().map(|(name, _)| name.to_owned()).collect(),
            is_agent,
        })
    }

    /// Replaces the profile of this name, or adds it.
    pub fn insert(&mut self, name: &str, profile: Profile) {
        match self.0.iter_mut().find(|(own, _)| is_same(own, name)) {
            Some((_, own)) => *own = profile,
            None => self.0.push((name.to_owned(), profile)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Profile)> + Clone {
        self.0.iter().map(|(name, profile)| (name.as_str(), profile))
    }
}

fn is_same(name: &str, given: &str) -> bool {
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    name.bytes().map(plain).eq(given.bytes().map(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_lookup_ignores_spelling_and_an_unknown_name_lists_all_profiles() {
        let profiles = Profiles::default();

        assert_eq!(profiles.get("test-writer").unwrap().0, "TEST_WRITER");
        assert_eq!(profiles.get("Default").unwrap().0, "default");
        let refused = profiles.get("poet").unwrap_err();
        assert_eq!(refused.known.len(), PROFILES.len());
        assert!(
            refused.to_string().contains("no profile `poet`; there are default, ELICITATION"),
            "{refused}"
        );
    }

    #[test]
    fn default_profile_is_not_an_agent_type() {
        let refused = Profiles::default().get_agent("default").unwrap_err();

        assert_eq!(refused.known.len(), PROFILES.len() - 1);
        assert!(
            refused.to_string().contains("no type of agent `default`; there are ELICITATION"),
            "{refused}"
        );
    }

    #[test]
    fn inserted_profile_replaces_its_namesake_or_is_added() {
        let mut profiles = Profiles::default();
        let mut changed = *profiles.get("validation").unwrap().1;
        changed.limits.memory_mb = Some(64);

        profiles.insert("Validation", changed);
        profiles.insert("POET", changed);

        assert_eq!(profiles.get("VALIDATION"), Ok(("VALIDATION", &changed)));
        assert_eq!(profiles.get_agent("poet"), Ok(("POET", &changed)));
        assert_eq!(profiles.get("test-writer"), Profiles::default().get("TEST_WRITER"));
        assert_eq!(profiles.iter().count(), PROFILES.len() + 1);
    }
}
