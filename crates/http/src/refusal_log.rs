//! Logs refused requests with their remote address: wrong tokens, low roles, foreign hosts or origins, rate limits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use pinfold_api::ErrorCode;
use tokio::time::Instant;

use super::listen::Peer;
use super::request_log::RequestId;

/// The kind of refusal, and the remote address.
type Refusal = (&'static str, Option<IpAddr>);

/// Recently logged refusals, so that a client cannot flood the log.
#[derive(Default)]
pub(super) struct RefusalLog(Mutex<HashMap<Refusal, Instant>>);

/// The same refusal is logged at most once in this time.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// At most so many refusals are logged in that time, over all addresses.
const MAX_LOGGED: usize = 256;

impl RefusalLog {
    fn should_log(&self, refusal: Refusal, now: Instant) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|_, at| now.duration_since(*at) < LOG_EVERY);
        if logged.len() >= MAX_LOGGED || logged.contains_key(&refusal) {
            return false;
        }
        logged.insert(refusal, now);
        true
    }
}

pub(super) async fn log_refusals(
    State(refusals): State<Arc<RefusalLog>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map(|Peer(address)| *address);
    let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let request_id = request_id.unwrap_or_default();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    if let Some(event) = response.extensions().get::<ErrorCode>().copied().and_then(kind)
        && refusals.should_log((event, peer), Instant::now())
    {
        let peer = peer.map_or_else(|| "-".to_owned(), |address| address.to_string());
        tracing::warn!(security_event = event, peer, request_id, %method, path, "request refused");
    }
    response
}

/// The log name of a refusal. None: not a security event.
fn kind(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::Unauthorized => Some("unauthorized"),
        ErrorCode::Forbidden => Some("forbidden"),
        ErrorCode::ForeignOrigin => Some("foreign_origin"),
        ErrorCode::RateLimited => Some("rate_limited"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    #[test]
    fn the_same_refusal_is_logged_once_a_second() {
        let (refusals, now) = (RefusalLog::default(), Instant::now());

        assert!(refusals.should_log(("unauthorized", NEAR), now));
        assert!(!refusals.should_log(("unauthorized", NEAR), now + LOG_EVERY / 2));
        assert!(refusals.should_log(("forbidden", NEAR), now));
        assert!(refusals.should_log(("unauthorized", None), now));
        assert!(refusals.should_log(("unauthorized", NEAR), now + LOG_EVERY));
    }

    #[test]
    fn many_addresses_together_cannot_flood_the_log() {
        let (refusals, now) = (RefusalLog::default(), Instant::now());
        let from = |last: u32| Some(IpAddr::from(last.to_be_bytes()));

        let logged =
            (0..10_000).filter(|last| refusals.should_log(("unauthorized", from(*last)), now)).count();

        assert_eq!(logged, MAX_LOGGED);
        assert!(refusals.should_log(("unauthorized", from(0)), now + LOG_EVERY));
    }
}
