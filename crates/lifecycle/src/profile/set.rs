//! The profiles that hold where somebody has decided otherwise than the known ones.

use super::{PROFILES, Profile, UnknownProfile, known};

/// One for each known type of agent, and the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles(Vec<Profile>);

impl Default for Profiles {
    fn default() -> Self {
        Self(PROFILES.to_vec())
    }
}

impl Profiles {
    /// The profile of this name, in upper or lower case, with `-` or `_`.
    pub fn named(&self, given: &str) -> Result<&Profile, UnknownProfile> {
        let name = known::named(given)?.name;
        let found = self.0.iter().find(|profile| profile.name == name);
        found.ok_or_else(|| UnknownProfile { given: given.to_owned() })
    }

    /// Puts it in the place of the one with its name.
    pub fn replace(&mut self, profile: Profile) {
        for own in self.0.iter_mut().filter(|own| own.name == profile.name) {
            *own = profile;
        }
    }

    /// All of them, the default first.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_is_replaced_is_found_by_its_name_and_the_others_stay() {
        let mut profiles = Profiles::default();
        let mut changed = *profiles.named("validation").unwrap();
        changed.limits.memory_mb = Some(64);

        profiles.replace(changed);

        assert_eq!(profiles.named("VALIDATION").unwrap().limits.memory_mb, Some(64));
        assert_eq!(profiles.named("test-writer"), known::named("TEST_WRITER"));
        assert_eq!(profiles.iter().count(), PROFILES.len());
        assert!(profiles.named("POET").is_err());
    }
}
