//! How a server proves that it knows a token before the token is sent to it. On loopback another user of the host may
//! have bound the server's port, and plain HTTP does not say who answers.
//!
//! ```text
//!   client ── token id, random nonce ──> server
//!          <── HMAC-SHA256(SHA-256(token), context, nonce, port) ──
//! ```
//!
//! The server has only the hash of the token, and the client computes it. The port is that on which the request arrived:
//! a program on another port cannot pass on the proof of the real server.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// Path of the request. It needs no token.
pub const PROOF_PATH: &str = "/api/proof";

/// Keeps the proof apart from every other use of the key.
const CONTEXT: &[u8] = b"pinfold server proof 1\0";
const BYTES: usize = 32;

/// Asks a server to prove that it knows a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProofRequest {
    /// The token's id, not the secret.
    #[schema(pattern = "^tok_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    pub token_id: String,
    /// 32 random bytes in hexadecimal.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub nonce: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProofAnswer {
    /// HMAC-SHA256 in hexadecimal.
    pub proof: String,
}

/// Computes the proof. None: the nonce is not 32 bytes in hexadecimal.
#[must_use]
pub fn server_proof(token_hash: &[u8; BYTES], nonce: &str, port: u16) -> Option<String> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if nonce.len() != 2 * BYTES || !nonce.bytes().all(is_hex) {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(token_hash).ok()?;
    for part in [CONTEXT, nonce.as_bytes(), &port.to_be_bytes()] {
        mac.update(part);
    }
    Some(hex(&mac.finalize().into_bytes()))
}

/// The hash by which a server knows a token.
#[must_use]
pub fn token_hash(token: &str) -> [u8; BYTES] {
    Sha256::digest(token.as_bytes()).into()
}

/// The id in a token. None: the text is not a token.
#[must_use]
pub fn token_id(token: &str) -> Option<String> {
    let (id, secret) = token.strip_prefix("pft_")?.split_once('_')?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_plain(id) && is_plain(secret)).then(|| format!("tok_{id}"))
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_depends_on_token_nonce_and_port() {
        let nonce = |byte: u8| hex(&[byte; BYTES]);
        let of = |token: &str, number, port| server_proof(&token_hash(token), &nonce(number), port).unwrap();

        assert_eq!(of("a", 1, 7463), of("a", 1, 7463));
        assert_ne!(of("a", 1, 7463), of("b", 1, 7463));
        assert_ne!(of("a", 1, 7463), of("a", 2, 7463));
        assert_ne!(of("a", 1, 7463), of("a", 1, 7464));
    }

    #[test]
    fn nonce_of_another_form_gets_no_proof() {
        for nonce in ["", "00", &"g".repeat(64), &"A".repeat(64), &"0".repeat(65)] {
            assert_eq!(server_proof(&token_hash("a"), nonce, 1), None, "{nonce}");
        }
    }

    #[test]
    fn only_a_token_has_an_id() {
        assert_eq!(token_id("pft_01m7_00ff"), Some("tok_01m7".to_owned()));
        for text in ["", "pft_", "pft_wrong", "pft__00", "pft_01m7_", "tok_01m7_00", "pft_01 m7_00"] {
            assert_eq!(token_id(text), None, "{text}");
        }
    }
}
