//! Makes sure that a plain-HTTP server on this host knows the token before the token is sent: another user of the host
//! may have bound the port. A server on another host is checked by TLS, or not at all.

use std::net::IpAddr;

use hyper::{Method, StatusCode, Uri};
use pinfold_api::{
    ErrorCode, ErrorDetail, PROOF_PATH, ProofAnswer, ProofRequest, hex, server_proof, token_hash, token_id,
};

use crate::client::{Client, JSON, full_content, read_json};
use crate::{ClientError, error::BoxedError};

const NONCE_BYTES: usize = 32;

/// The port of a plain-HTTP server on loopback. None: another server.
pub(crate) fn loopback_port(base: &Uri) -> Option<u16> {
    let host = base.host()?.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    let is_plain = base.scheme_str() == Some("http");
    (is_plain && is_loopback).then(|| base.port_u16().unwrap_or(80))
}

impl Client {
    /// Returns once the server has proven that it knows the token. Asks once.
    pub(crate) async fn ensure_proven(&self) -> Result<(), ClientError> {
        let Some(port) = self.unproven_port else { return Ok(()) };
        self.proven.get_or_try_init(|| self.prove(port)).await.copied()
    }

    async fn prove(&self, port: u16) -> Result<(), ClientError> {
        let Some(token_id) = token_id(&self.token) else {
            return Err(self.rejected("this is not a token"));
        };
        let nonce = nonce()?;
        let Some(expected) = server_proof(&token_hash(&self.token), &nonce, port) else {
            return Err(self.unproven("the nonce has a wrong form"));
        };
        let body = serde_json::to_vec(&ProofRequest { token_id, nonce });
        let body = full_content(body.map_err(|error| ClientError::Request(error.into()))?);
        let response = self.send(Method::POST, PROOF_PATH, body, JSON, JSON, None).await?;
        match response.status() {
            status if status.is_success() => match read_json::<ProofAnswer>(response).await {
                Ok(answer) if answer.proof == expected => Ok(()),
                Ok(_) => Err(self.unproven("its proof is wrong")),
                Err(_) => Err(self.unproven("its answer is not a proof")),
            },
            StatusCode::UNAUTHORIZED => Err(self.rejected("the server says that it is unknown or revoked")),
            status => Err(self.unproven(&format!("it answered {status}"))),
        }
    }

    fn unproven(&self, why: &str) -> ClientError {
        ClientError::Unproven { url: self.base.clone(), why: why.to_owned() }
    }

    /// The same error as if the server had rejected the token.
    fn rejected(&self, why: &str) -> ClientError {
        let detail = ErrorDetail {
            code: ErrorCode::Unauthorized,
            message: format!("a valid token is required, and the token was not sent to {}: {why}", self.base),
            details: serde_json::Map::new(),
            retry_after_ms: None,
        };
        ClientError::Refused { status: StatusCode::UNAUTHORIZED.as_u16(), detail: Box::new(detail) }
    }
}

fn nonce() -> Result<String, ClientError> {
    let mut bytes = [0; NONCE_BYTES];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| {
        let error: BoxedError = "the system has no random numbers".into();
        ClientError::Request(error)
    })?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_on_loopback_has_to_prove_itself() {
        let port = |url: &str| loopback_port(&url.parse().unwrap());

        assert_eq!(port("http://127.0.0.1:7463"), Some(7463));
        assert_eq!(port("http://127.9.9.9:1"), Some(1));
        assert_eq!(port("http://LOCALHOST"), Some(80));
        assert_eq!(port("http://[::1]:7463"), Some(7463));
        assert_eq!(port("http://[::ffff:127.0.0.1]:7463"), Some(7463));
        for url in ["https://127.0.0.1:7463", "https://localhost", "http://10.0.0.7:7463", "http://a.example"]
        {
            assert_eq!(port(url), None, "{url}");
        }
    }
}
