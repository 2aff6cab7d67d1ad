//! Whether a fault came about. A round in which it did not has held, and shows nothing.

use std::fmt;
use std::str::FromStr;

/// What was done, for whoever reads the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blow {
    Struck(String),
    /// Whoever it was meant for was gone, or never came to where it was to happen.
    Missed(String),
    /// This host has nothing to bring it about with.
    NoMeans(String),
}

const STRUCK: &str = "struck";
const MISSED: &str = "missed";
const NO_MEANS: &str = "no means";

impl Blow {
    pub(super) fn new(has_struck: bool, what: String) -> Self {
        if has_struck { Self::Struck(what) } else { Self::Missed(what) }
    }
}

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, what) = match self {
            Self::Struck(what) => (STRUCK, what),
            Self::Missed(what) => (MISSED, what),
            Self::NoMeans(what) => (NO_MEANS, what),
        };
        write!(f, "{word}: {what}")
    }
}

/// Rounds are processes of their own: what they print begins with it.
impl FromStr for Blow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(": ") {
            Some((STRUCK, what)) => Ok(Self::Struck(what.to_owned())),
            Some((MISSED, what)) => Ok(Self::Missed(what.to_owned())),
            Some((NO_MEANS, what)) => Ok(Self::NoMeans(what.to_owned())),
            _ => Err(format!("`{text}` does not tell whether it struck")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_round_prints_is_read_back() {
        let what = || "v1.sbx_0: lost /dev/shm".to_owned();

        for blow in [Blow::Struck(what()), Blow::Missed(what()), Blow::NoMeans(what())] {
            assert_eq!(blow.to_string().parse(), Ok(blow));
        }
        assert!("; 12.0 s".parse::<Blow>().is_err());
    }
}
