//! Image names: lowercase words such as `python`, `team/app` or `team/app:1.2`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The built-in image. No import can take its name.
pub const HOST: &str = "host";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("image name is empty")]
    Empty,
    #[error("image name has {length} characters, at most {LONGEST} are allowed")]
    TooLong { length: usize },
    #[error("image name `{name}`: `{HOST}` is the built-in image")]
    Reserved { name: String },
    #[error(
        "image name `{name}`: the part `{part}` must be lowercase letters, digits and single `.`, `_` or `-` between them"
    )]
    Word { name: String, part: String },
    #[error(
        "image name `{name}`: the tag `{tag}` must be letters, digits, `.`, `_` and `-`, and begin with a letter, digit or `_`"
    )]
    Tag { name: String, tag: String },
}

const LONGEST: usize = 128;

impl ImageName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Maps `/` to `+`, which no name contains, so that every name has a unique file name.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.json", self.0.replace('/', "+"))
    }
}

impl FromStr for ImageName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > LONGEST {
            return Err(NameError::TooLong { length: name.len() });
        }
        // Escaped for display.
        let shown = name.escape_debug().to_string();
        let (words, tag) = name.split_once(':').map_or((name, None), |(words, tag)| (words, Some(tag)));
        if words == HOST {
            return Err(NameError::Reserved { name: shown });
        }
        if let Some(part) = words.split('/').find(|word| !is_word(word)) {
            return Err(NameError::Word { name: shown, part: part.escape_debug().to_string() });
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(NameError::Tag { name: shown, tag: tag.escape_debug().to_string() });
        }
        Ok(Self(name.to_owned()))
    }
}

fn is_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = word.as_bytes();
    let ends_plain = bytes.first().copied().is_some_and(plain) && bytes.last().copied().is_some_and(plain);
    let separators_alone = bytes.windows(2).all(|pair| plain(pair[0]) || plain(pair[1]));
    ends_plain && separators_alone && bytes.iter().all(|&byte| plain(byte) || b"._-".contains(&byte))
}

fn is_tag(tag: &str) -> bool {
    let bytes = tag.as_bytes();
    let begins_well = bytes.first().is_some_and(|&first| first.is_ascii_alphanumeric() || first == b'_');
    begins_well && bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ImageName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_paths_and_tags_are_names() {
        for name in ["a", "python", "team/app:1.2", "my-app_2.0", "a/b/c:_x", "x:V1-rc"] {
            assert!(name.parse::<ImageName>().is_ok(), "{name}");
        }
    }

    #[test]
    fn an_invalid_name_is_refused_and_the_error_shows_the_invalid_part() {
        let refused = |name: &str| name.parse::<ImageName>().unwrap_err().to_string();

        assert_eq!(refused(""), "image name is empty");
        assert!(refused(&"a".repeat(129)).contains("129 characters"));
        assert!(refused("host").contains("built-in"));
        assert!(refused("host:1").contains("built-in"));
        assert!(refused("team//app").contains("the part ``"));
        assert!(refused("team/App").contains("the part `App`"));
        assert!(refused("../up").contains("the part `..`"));
        assert!(refused("a..b").contains("the part `a..b`"));
        assert!(refused("a:b:c").contains("the tag `b:c`"));
        assert!(refused("a:").contains("the tag ``"));
        assert!(refused("a\u{1b}[2J").contains("\\u{1b}"));
    }
}
