//! Webhook requests: the notification as JSON, signed together with the time.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use sha2::Sha256;

use super::Webhook;
use super::http_client::HttpSendError;

const SIGNATURE: &str = "x-pinfold-signature";
const TIMESTAMP: &str = "x-pinfold-timestamp";
const DELIVERY: &str = "x-pinfold-delivery";

/// `seconds` is the time of this attempt, so that a receiver can refuse replays.
pub(super) fn request(
    to: &Webhook,
    delivery: &str,
    body: &str,
    seconds: i64,
) -> Result<Request<Full<Bytes>>, HttpSendError> {
    let mut request = Request::post(&to.url.0)
        .header(CONTENT_TYPE, "application/json")
        .header(DELIVERY, delivery)
        .header(TIMESTAMP, seconds);
    if let Some(secret) = &to.secret {
        request = request.header(SIGNATURE, format!("sha256={}", signature(&secret.0, seconds, body)));
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned())));
    request.map_err(HttpSendError::BadAddress)
}

/// HMAC-SHA256 of `TIMESTAMP.BODY`.
fn signature(secret: &str, seconds: i64, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        // HMAC accepts keys of any length, so this cannot happen.
        return String::new();
    };
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(body.as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redacted;

    #[test]
    fn the_signature_matches_openssl() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'it is a secret'
        assert_eq!(
            signature("it is a secret", 1_700_000_000, r#"{"a":1}"#),
            "e13ca661150ed628f4ae657a91356a99ce1d89519ed99c20a90f567c6f061275"
        );
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for url in ["", "not an address", "http://"] {
            let to = Webhook { url: Redacted(url.into()), secret: None };
            assert!(request(&to, "dlv_1", "{}", 0).is_err(), "{url}");
        }
    }
}
