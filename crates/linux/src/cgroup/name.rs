//! Names of our cgroups: one plain path component.

const LONGEST: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` cannot name a cgroup: 1 to {LONGEST} of A-Z a-z 0-9 . _ -, the first a letter or digit", name.escape_debug())]
pub struct BadName {
    name: String,
}

pub(super) fn check(name: &str) -> Result<(), BadName> {
    let first_is_plain = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let all_are_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if first_is_plain && all_are_plain && name.len() <= LONGEST {
        return Ok(());
    }
    Err(BadName { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn plain_names_pass() {
        for name in ["pinfold.0af3", "sbx_01-2.7", "7"] {
            assert_eq!(check(name), Ok(()));
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", ".", "..", "a/b", "../x", ".hidden", "a\nb", "ä", "-x", &"x".repeat(201)] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
