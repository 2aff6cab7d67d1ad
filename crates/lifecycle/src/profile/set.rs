//! The profiles that hold here: the known ones, changed and added to by whoever runs Pinfold.

use super::{PROFILES, Profile};

/// By their names, as users and records spell them, the default first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles(Vec<(String, Profile)>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {} `{given}`; there are {}", if *is_agent { "type of agent" } else { "profile" }, known.join(", "))]
pub struct UnknownProfile {
    pub given: String,
    pub known: Vec<String>,
    /// Whether only types of agents were asked for.
    pub is_agent: bool,
}

/// As much of a wrong name as is said back.
const TOLD: usize = 64;

impl Default for Profiles {
    fn default() -> Self {
        Self(PROFILES.iter().map(|(name, profile)| ((*name).to_owned(), *profile)).collect())
    }
}

impl Profiles {
    /// The profile of this name and how it is spelled. Upper and lower case, `-` and `_` are the same.
    pub fn named(&self, given: &str) -> Result<(&str, &Profile), UnknownProfile> {
        self.find(given, false)
    }

    /// The same, where only a type of agent will do.
    pub fn of_agent(&self, given: &str) -> Result<(&str, &Profile), UnknownProfile> {
        self.find(given, true)
    }

    fn find(&self, given: &str, is_agent: bool) -> Result<(&str, &Profile), UnknownProfile> {
        let mut candidates = self.iter().filter(|(_, profile)| profile.is_agent || !is_agent);
        let found = candidates.clone().find(|(name, _)| is_same(name, given));
        found.ok_or_else(|| UnknownProfile {
            given: given.chars().take(TOLD).collect(),
            known: candidates.by_ref().map(|(name, _)| name.to_owned()).collect(),
            is_agent,
        })
    }

    /// In the place of the one with its name, or beside the others.
    pub fn put(&mut self, name: &str, profile: Profile) {
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
    fn a_profile_is_found_however_it_is_spelled_and_another_is_refused_with_all_there_are() {
        let profiles = Profiles::default();

        assert_eq!(profiles.named("test-writer").unwrap().0, "TEST_WRITER");
        assert_eq!(profiles.named("Default").unwrap().0, "default");
        let refused = profiles.named("poet").unwrap_err();
        assert_eq!(refused.known.len(), PROFILES.len());
        assert!(
            refused.to_string().contains("no profile `poet`; there are default, ELICITATION"),
            "{refused}"
        );
    }

    #[test]
    fn where_an_agent_is_asked_for_the_default_will_not_do() {
        let refused = Profiles::default().of_agent("default").unwrap_err();

        assert_eq!(refused.known.len(), PROFILES.len() - 1);
        assert!(
            refused.to_string().contains("no type of agent `default`; there are ELICITATION"),
            "{refused}"
        );
    }

    #[test]
    fn a_profile_that_is_put_takes_the_place_of_its_name_or_a_new_one() {
        let mut profiles = Profiles::default();
        let mut changed = *profiles.named("validation").unwrap().1;
        changed.limits.memory_mb = Some(64);

        profiles.put("Validation", changed);
        profiles.put("POET", changed);

        assert_eq!(profiles.named("VALIDATION"), Ok(("VALIDATION", &changed)));
        assert_eq!(profiles.of_agent("poet"), Ok(("POET", &changed)));
        assert_eq!(profiles.named("test-writer"), Profiles::default().named("TEST_WRITER"));
        assert_eq!(profiles.iter().count(), PROFILES.len() + 1);
    }
}
