//! Content digests: SHA-256, written as `sha256:` and 64 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    hex: String,
}

/// Id of an image: the digest of its configuration, or of its single layer if it has no configuration.
pub type ImageId = Digest;
/// Id of a layer: the digest of the archive it was unpacked from, compressed as it came.
pub type LayerId = Digest;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not `sha256:` and 64 hexadecimal digits")]
pub struct DigestError {
    text: String,
}

const ALGORITHM: &str = "sha256:";
const DIGITS: usize = 64;
const SHORT: usize = 12;

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new().chain_update(bytes))
    }

    pub(crate) fn finish(hasher: Sha256) -> Self {
        Self { hex: hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// The hexadecimal digits alone. Safe as a file name.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// The first digits, for display.
    pub fn short(&self) -> &str {
        &self.hex[..SHORT]
    }

    pub(crate) fn from_hex(hex: &str) -> Option<Self> {
        let digits = hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (digits && hex.len() == DIGITS).then(|| Self { hex: hex.to_owned() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.hex)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let digest = text.strip_prefix(ALGORITHM).and_then(Self::from_hex);
        digest.ok_or_else(|| DigestError { text: text.chars().take(100).collect() })
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest::of(b"hello");

        assert_eq!(
            digest.to_string(),
            "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }

    #[test]
    fn a_digest_that_would_be_a_path_is_refused() {
        for text in ["sha256:../../etc", "sha512:00", "sha256:", &format!("sha256:{}", "A".repeat(64))] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
