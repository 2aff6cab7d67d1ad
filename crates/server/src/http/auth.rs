//! Who is let in: those who show a token, and not too often.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use pinfold_api::ErrorCode;
use pinfold_lifecycle::TokenId;

use super::ServerConfig;
use super::requests::Told;
use crate::service::Caller;
use crate::{Failure, Service};

pub(super) struct Doorkeeper {
    service: Arc<Service>,
    rates: DefaultKeyedRateLimiter<TokenId>,
}

impl Doorkeeper {
    pub(super) fn new(service: Arc<Service>, config: &ServerConfig) -> Self {
        let quota = Quota::per_second(config.rate).allow_burst(config.burst);
        Self { service, rates: DefaultKeyedRateLimiter::keyed(quota) }
    }

    async fn judge(&self, shown: Option<String>) -> Result<Caller, Failure> {
        let refused = || {
            let told = "show a valid token: `Authorization: Bearer …`";
            Failure::new(ErrorCode::Unauthorized, told)
        };
        let shown = shown.ok_or_else(refused)?;
        let caller = self.service.recognise(&shown).await?.ok_or_else(refused)?;
        self.rates.check_key(&caller.token).map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
            Failure::new(ErrorCode::RateLimited, "too many requests with this token").retry_after_ms(ms)
        })?;
        Ok(caller)
    }
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
    let caller = match doorkeeper.judge(bearer(&request)).await {
        Ok(caller) => caller,
        Err(failure) => return failure.into_response(),
    };
    request.extensions_mut().insert(caller);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(Told { token: caller.token });
    response
}
