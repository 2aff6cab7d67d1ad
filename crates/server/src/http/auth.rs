//! Who is let in: those who show a token, and not too often.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota};
use pinfold_api::ErrorCode;
use pinfold_lifecycle::TokenId;
use pinfold_store::Tokens;

use super::ServerConfig;
use super::listen::{Peer, Place};
use super::noting::Asked;
use super::requests::Teller;
use crate::service::Caller;
use crate::{Failure, Service};

pub(super) struct Doorkeeper {
    service: Arc<Service>,
    rates: DefaultKeyedRateLimiter<TokenId>,
    /// Of wrong tokens.
    wrong: DefaultKeyedRateLimiter<IpAddr>,
    wrong_so_far: AtomicU32,
}

/// After so many wrong tokens, addresses that showed none lately are forgotten.
const FORGET_EVERY: u32 = 1_024;

impl Doorkeeper {
    pub(super) fn new(service: Arc<Service>, config: &ServerConfig) -> Self {
        let quota = Quota::per_second(config.rate).allow_burst(config.burst);
        Self {
            service,
            rates: DefaultKeyedRateLimiter::keyed(quota),
            wrong: DefaultKeyedRateLimiter::keyed(Quota::per_minute(config.wrong_tokens)),
            wrong_so_far: AtomicU32::new(0),
        }
    }

    async fn judge(&self, shown: Option<String>, from: Option<Peer>) -> Result<Caller, Failure> {
        let refused = || {
            let told = "show a valid token: `Authorization: Bearer …`";
            Failure::new(ErrorCode::Unauthorized, told)
        };
        let shown = shown.ok_or_else(refused)?;
        let Some(caller) = self.service.recognise(&shown).await? else {
            self.count_wrong(from)?;
            return Err(refused());
        };
        let too_many = |until| later("too many requests with this token", &until);
        self.rates.check_key(&caller.token).map_err(too_many)?;
        Ok(caller)
    }

    fn count_wrong(&self, from: Option<Peer>) -> Result<(), Failure> {
        if self.wrong_so_far.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.wrong.retain_recent();
        }
        let Some(Peer(address)) = from else { return Ok(()) };
        let too_many = |until| later("too many wrong tokens from this address", &until);
        self.wrong.check_key(&address).map_err(too_many)
    }
}

fn later(told: &str, until: &NotUntil<<DefaultClock as Clock>::Instant>) -> Failure {
    let wait = until.wait_time_from(DefaultClock::default().now());
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Failure::new(ErrorCode::RateLimited, told).retry_after_ms(ms)
}

fn bearer(request: &Request) -> Option<String> {
    let (scheme, shown) = request.headers().get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| shown.trim().to_owned())
}

pub(super) async fn let_in(
    State(doorkeeper): State<Arc<Doorkeeper>>,
    mut request: Request,
    next: Next,
) -> Response {
    let from = request.extensions().get().copied();
    let caller = match doorkeeper.judge(bearer(&request), from).await {
        Ok(caller) => caller,
        Err(failure) => return failure.into_response(),
    };
    if let Some(teller) = request.extensions().get::<Teller>() {
        teller.is(caller.token);
    }
    let look_again = request.extensions().get::<Place>().map(|place| place.look_again);
    let asked = Asked::of(&request, &doorkeeper.service, &caller);
    let token = caller.token;
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    if let Some(noted) = asked.and_then(|asked| asked.answered(&response)) {
        // What could not be noted was told in the log.
        let _ = noted.await;
    }
    match look_again {
        Some(look_again) if is_stream(&response) => {
            let revoked = until_revoked(doorkeeper.service.clone(), token, look_again);
            response.map(|body| Body::from_stream(body.into_data_stream().take_until(revoked)))
        }
        Some(_) | None => response,
    }
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Returns when a token holds no more. Whoever is in already is not asked for it again, so it is looked at so often.
pub(super) async fn until_revoked(service: Arc<Service>, token: TokenId, look_again: Duration) {
    loop {
        tokio::time::sleep(look_again).await;
        match service.host().store.token(token).await {
            Ok(Some(token)) if token.revoked_at.is_none() => {}
            Ok(_) => return,
            // A store that does not answer has revoked nothing.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, token_id = %token, "could not look at a token again");
            }
        }
    }
}
