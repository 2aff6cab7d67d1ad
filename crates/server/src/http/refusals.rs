//! Whoever is turned away is told of in the log, with the address they came from: a wrong token, a role that is too
//! low, a foreign name or page, too many requests.

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
use super::requests::RequestId;

/// What was refused, and to which address.
type Refusal = (&'static str, Option<IpAddr>);

/// Remembers what was told a moment ago, so that nobody can flood the log.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<Refusal, Instant>>);

/// The same is not told again within this time.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// No more are told in that time, however many addresses there are.
const MOST: usize = 256;

impl Refusals {
    fn is_news(&self, refusal: Refusal, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.duration_since(*at) < SAY_EVERY);
        if told.len() >= MOST || told.contains_key(&refusal) {
            return false;
        }
        told.insert(refusal, now);
        true
    }
}

pub(super) async fn tell(State(refusals): State<Arc<Refusals>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map(|Peer(address)| *address);
    let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let request_id = request_id.unwrap_or_default();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    if let Some(event) = response.extensions().get::<ErrorCode>().copied().and_then(kind)
        && refusals.is_news((event, peer), Instant::now())
    {
        let peer = peer.map_or_else(|| "-".to_owned(), |address| address.to_string());
        tracing::warn!(security_event = event, peer, request_id, %method, path, "request refused");
    }
    response
}

/// None: it was not refused to somebody.
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
    fn the_same_is_told_once_in_a_second_and_anything_else_beside_it() {
        let (refusals, now) = (Refusals::default(), Instant::now());

        assert!(refusals.is_news(("unauthorized", NEAR), now));
        assert!(!refusals.is_news(("unauthorized", NEAR), now + SAY_EVERY / 2));
        assert!(refusals.is_news(("forbidden", NEAR), now));
        assert!(refusals.is_news(("unauthorized", None), now));
        assert!(refusals.is_news(("unauthorized", NEAR), now + SAY_EVERY));
    }

    #[test]
    fn many_addresses_together_cannot_flood_the_log() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let from = |last: u32| Some(IpAddr::from(last.to_be_bytes()));

        let told = (0..10_000).filter(|last| refusals.is_news(("unauthorized", from(*last)), now)).count();

        assert_eq!(told, MOST);
        assert!(refusals.is_news(("unauthorized", from(0)), now + SAY_EVERY));
    }
}
