//! Typed ids: 128 bits, shown as a prefix and 26 lower-case base32 characters that sort by age.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Crockford's base32 alphabet: without `i`, `l`, `o` and `u`, which are easily misread.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 26;

/// Why a text is not an id of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("`{given}` does not start with `{prefix}`")]
    Prefix { given: String, prefix: &'static str },
    #[error("`{given}` is not `{prefix}` and 26 characters of 0-9 and a-z without i, l, o, u")]
    Malformed { given: String, prefix: &'static str },
}

fn encode(value: u128, into: &mut fmt::Formatter<'_>) -> fmt::Result {
    for position in (0..LENGTH).rev() {
        let digit = usize::try_from((value >> (position * 5)) & 31).unwrap_or(0);
        fmt::Write::write_char(into, char::from(ALPHABET[digit]))?;
    }
    Ok(())
}

fn decode(text: &str) -> Option<u128> {
    if text.len() != LENGTH {
        return None;
    }
    text.bytes().try_fold(0u128, |value, byte| {
        let digit = ALPHABET.iter().position(|known| *known == byte)?;
        // 26 digits hold 130 bits, so the first digit may use only three of its five bits.
        (value >> 123 == 0).then_some((value << 5) | digit as u128)
    })
}

macro_rules! typed_id {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl $name {
            pub const PREFIX: &'static str = $prefix;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::PREFIX)?;
                encode(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(given: &str) -> Result<Self, IdError> {
                let digits = given
                    .strip_prefix(Self::PREFIX)
                    .ok_or_else(|| IdError::Prefix { given: given.to_owned(), prefix: Self::PREFIX })?;
                decode(digits)
                    .map(Self)
                    .ok_or_else(|| IdError::Malformed { given: given.to_owned(), prefix: Self::PREFIX })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

typed_id!(SandboxId, "sbx_", "One sandbox.");
typed_id!(ExecutionId, "exe_", "One command in a sandbox.");
typed_id!(TokenId, "tok_", "An API token. The id is not the secret.");
typed_id!(NodeId, "nod_", "One run of one process that has an engine. A restarted process is another node.");
typed_id!(QueueId, "que_", "One entry in the admission queue.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_it_was_written() {
        for value in [0, 1, u128::MAX, 0x0192_3f4e_aaaa_7bbb_8ccc_dddd_eeee_ffff] {
            let text = SandboxId(value).to_string();

            assert_eq!(text.len(), 4 + LENGTH);
            assert_eq!(text.parse(), Ok(SandboxId(value)));
        }
    }

    #[test]
    fn ids_sort_as_their_values_do() {
        assert!(SandboxId(31).to_string() < SandboxId(32).to_string());
    }

    #[test]
    fn malformed_id_is_refused_with_the_reason() {
        let sandbox = SandboxId(7).to_string();

        assert!(matches!(sandbox.parse::<ExecutionId>(), Err(IdError::Prefix { .. })));
        assert!(matches!("sbx_short".parse::<SandboxId>(), Err(IdError::Malformed { .. })));
        assert!(matches!(
            "sbx_zzzzzzzzzzzzzzzzzzzzzzzzzz".parse::<SandboxId>(),
            Err(IdError::Malformed { .. })
        ));
        assert!(matches!("sbx_ééééééééééééé".parse::<SandboxId>(), Err(IdError::Malformed { .. })));
    }
}
