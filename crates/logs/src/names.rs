//! Checks the names of runs and artifacts that users choose.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name of an artifact has 1 to {MAX_BYTES} bytes")]
    Length,
    #[error("`{name}` has an empty part, `.` or `..` in it; an artifact's name is a relative path")]
    Part { name: String },
    #[error("the name of an artifact has no control characters or backslashes")]
    Character,
    #[error("the id of a run has 1 to 64 characters of a-z, A-Z, 0-9, `_` and `-`")]
    Run,
}

const MAX_BYTES: usize = 512;

/// A relative path, such as `reports/result.json`.
pub fn check_artifact_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() || name.len() > MAX_BYTES {
        return Err(NameError::Length);
    }
    if name.chars().any(|character| character.is_control() || character == '\\') {
        return Err(NameError::Character);
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(NameError::Part { name: name.to_owned() });
    }
    Ok(())
}

pub fn check_run_id(run: &str) -> Result<(), NameError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&run.len()) && run.bytes().all(fits) { Ok(()) } else { Err(NameError::Run) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_paths_without_tricks() {
        for name in ["a", "reports/result.json", "with space", "naïve.txt", "..a", "a..", "x.json"] {
            assert_eq!(check_artifact_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(513);
        for name in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\b", "a\nb", "a\0", "\u{9b}", &long] {
            assert!(check_artifact_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn runs_are_ids() {
        assert_eq!(check_run_id("run_01ABC-x"), Ok(()));
        for run in ["", "a/b", "..", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(check_run_id(run), Err(NameError::Run));
        }
    }
}
