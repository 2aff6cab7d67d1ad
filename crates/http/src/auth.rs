//! Authentication by bearer token, and rate limits.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota};
use pinfold_api::ErrorCode;
use pinfold_lifecycle::TokenId;

use super::ServerConfig;
use super::audit_log::PendingAuditEntry;
use super::error_response::ErrorResponse;
use super::listen::{ConnectionPermit, Peer};
use super::request_log::TokenSlot;
use pinfold_service::Caller;
use pinfold_service::{Failure, Service};

pub(super) struct Authenticator {
    service: Arc<Service>,
    token_rates: DefaultKeyedRateLimiter<TokenId>,
    /// Rate limit of wrong tokens per address.
    wrong_token_rates: DefaultKeyedRateLimiter<IpAddr>,
    wrong_tokens: AtomicU32,
}

/// Idle addresses are dropped from the rate limiter after so many wrong tokens.
const FORGET_EVERY: u32 = 1_024;

impl Authenticator {
    pub(super) fn new(service: Arc<Service>, config: &ServerConfig) -> Self {
        let quota = Quota::per_second(config.rate).allow_burst(config.burst);
        Self {
            service,
            token_rates: DefaultKeyedRateLimiter::keyed(quota),
            wrong_token_rates: DefaultKeyedRateLimiter::keyed(Quota::per_minute(config.wrong_tokens)),
            wrong_tokens: AtomicU32::new(0),
        }
    }

    async fn authenticate(&self, shown: Option<String>, from: Option<Peer>) -> Result<Caller, Failure> {
        let unauthorized = || {
            let message = "a valid token is required: `Authorization: Bearer …`";
            Failure::new(ErrorCode::Unauthorized, message)
        };
        let shown = shown.ok_or_else(unauthorized)?;
        let Some(caller) = self.service.authenticate(&shown).await? else {
            self.count_wrong(from)?;
            return Err(unauthorized());
        };
        let too_many = |until| rate_limited("too many requests with this token", &until);
        self.token_rates.check_key(&caller.token).map_err(too_many)?;
        Ok(caller)
    }

    pub(super) fn count_wrong(&self, from: Option<Peer>) -> Result<(), Failure> {
        self.service.count_wrong_token();
        if self.wrong_tokens.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.wrong_token_rates.retain_recent();
        }
        let Some(Peer(address)) = from else { return Ok(()) };
        let too_many = |until| rate_limited("too many wrong tokens from this address", &until);
        self.wrong_token_rates.check_key(&address).map_err(too_many)
    }
}

fn rate_limited(message: &str, until: &NotUntil<<DefaultClock as Clock>::Instant>) -> Failure {
    let wait = until.wait_time_from(DefaultClock::default().now());
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Failure::new(ErrorCode::RateLimited, message).retry_after_ms(ms)
}

fn bearer(request: &Request) -> Option<String> {
    let (scheme, shown) = request.headers().get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| shown.trim().to_owned())
}

pub(super) async fn require_token(
    State(authenticator): State<Arc<Authenticator>>,
    mut request: Request,
    next: Next,
) -> Response {
    let from = request.extensions().get().copied();
    let permit = request.extensions().get::<ConnectionPermit>().cloned();
    let caller = match authenticator.authenticate(bearer(&request), from).await {
        Ok(caller) => caller,
        Err(failure) => return refuse(failure, permit.as_ref()),
    };
    if let Some(permit) = &permit
        && let Err(failure) = permit.connection.authorise().await
    {
        return refuse(failure, None);
    }
    if let Some(slot) = request.extensions().get::<TokenSlot>() {
        slot.set(caller.token);
    }
    let recheck_interval = permit.map(|permit| permit.recheck_interval);
    let entry = PendingAuditEntry::of(&request, &authenticator.service, &caller);
    let token = caller.token;
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    if let Some(written) = entry.and_then(|entry| entry.answered(&response)) {
        // A failed write was logged.
        let _ = written.await;
    }
    match recheck_interval {
        Some(recheck_interval) if is_stream(&response) => {
            let revoked = until_revoked(authenticator.service.clone(), token, recheck_interval);
            response.map(|body| Body::from_stream(body.into_data_stream().take_until(revoked)))
        }
        Some(_) | None => response,
    }
}

/// Answers a request that is not served. A connection in the authorised pool whose token is no longer valid is closed,
/// and so is one that found no place there.
fn refuse(failure: Failure, permit: Option<&ConnectionPermit>) -> Response {
    let closes = match permit {
        Some(permit) => failure.detail.code == ErrorCode::Unauthorized && permit.connection.is_authorised(),
        None => true,
    };
    let mut response = ErrorResponse(failure).into_response();
    if closes {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Returns when a token is revoked. Open streams are not authenticated again, so the token is checked at this
/// interval.
pub(super) async fn until_revoked(service: Arc<Service>, token: TokenId, recheck_interval: Duration) {
    loop {
        tokio::time::sleep(recheck_interval).await;
        match service.is_token_valid(token).await {
            Ok(true) => {}
            Ok(false) => return,
            // A store that does not answer revokes nothing.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, token_id = %token, "could not check a token again, retrying later");
            }
        }
    }
}
