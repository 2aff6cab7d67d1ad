//! Whether a fault was injected. A round without its fault proves nothing, even if it passes.

use std::fmt;
use std::str::FromStr;

/// Each variant carries a description for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Injection {
    Injected(String),
    /// The target was gone, or never reached the failpoint.
    Missed(String),
    /// This host has no means to inject it.
    Unsupported(String),
}

const INJECTED: &str = "injected";
const MISSED: &str = "missed";
const UNSUPPORTED: &str = "unsupported";

impl Injection {
    pub(super) fn new(is_injected: bool, what: String) -> Self {
        if is_injected { Self::Injected(what) } else { Self::Missed(what) }
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, what) = match self {
            Self::Injected(what) => (INJECTED, what),
            Self::Missed(what) => (MISSED, what),
            Self::Unsupported(what) => (UNSUPPORTED, what),
        };
        write!(f, "{word}: {what}")
    }
}

/// Rounds are separate processes: their output begins with this line.
impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(": ") {
            Some((INJECTED, what)) => Ok(Self::Injected(what.to_owned())),
            Some((MISSED, what)) => Ok(Self::Missed(what.to_owned())),
            Some((UNSUPPORTED, what)) => Ok(Self::Unsupported(what.to_owned())),
            _ => Err(format!("`{text}` does not say whether the fault was injected")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injection_is_parsed_back_from_its_text() {
        let what = || "v1.sbx_0: lost /dev/shm".to_owned();

        for injection in
            [Injection::Injected(what()), Injection::Missed(what()), Injection::Unsupported(what())]
        {
            assert_eq!(injection.to_string().parse(), Ok(injection));
        }
        assert!("; 12.0 s".parse::<Injection>().is_err());
    }
}
