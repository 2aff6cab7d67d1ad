//! Groups of routes with the same required role and timeout. Every route is in a group, so that neither can be
//! forgotten.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use pinfold_api::{ErrorCode, IDEMPOTENCY_KEY};
use pinfold_store::Role;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::error_response::ErrorResponse;
use super::openapi;
use pinfold_service::{Caller, CreateOptions, role_name};
use pinfold_service::{Failure, Service};

/// Timeout of routes that do not wait for anything.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of routes that may wait: the longest wait, and some.
pub(super) const LONG_TIMEOUT: Duration = Duration::from_secs(LONGEST_WAIT_S + 30);
/// The longest wait in seconds.
pub(super) const LONGEST_WAIT_S: u64 = CreateOptions::LONGEST_WAIT_S;

/// Body size limit of requests with names and settings only.
const SMALL_BODY: usize = 64 << 10;
pub(super) const LARGE_BODY: usize = 4 << 20;

/// The role that a route requires. It is attached to responses for the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequiredRole(pub(super) Role);

pub(super) struct Group {
    router: OpenApiRouter<Arc<Service>>,
    role: Role,
    within: Duration,
    most_bytes: usize,
    has_idempotency_keys: bool,
}

impl Group {
    pub(super) fn of(role: Role, within: Duration) -> Self {
        Self {
            router: OpenApiRouter::new(),
            role,
            within,
            most_bytes: SMALL_BODY,
            has_idempotency_keys: false,
        }
    }

    /// Its requests can be repeated with an `Idempotency-Key`. Elsewhere the header is refused, so that no client relies
    /// on it in vain.
    pub(super) fn with_idempotency_keys(self) -> Self {
        Self { has_idempotency_keys: true, ..self }
    }

    pub(super) fn with_body_limit(self, most_bytes: usize) -> Self {
        Self { most_bytes, ..self }
    }

    pub(super) fn routes(mut self, routes: UtoipaMethodRouter<Arc<Service>>) -> Self {
        self.router = self.router.routes(routes);
        self
    }

    pub(super) fn into_router(self) -> Router<Arc<Service>> {
        let (router, _) = self.router.split_for_parts();
        let router = if self.has_idempotency_keys {
            router
        } else {
            router.route_layer(from_fn(refuse_idempotency_key))
        };
        router
            .route_layer(DefaultBodyLimit::max(self.most_bytes))
            .route_layer(from_fn_with_state(self.within, with_timeout))
            .route_layer(from_fn_with_state(self.role, require_role))
    }

    pub(super) fn into_document(self) -> utoipa::openapi::OpenApi {
        let (_, document) = self.router.split_for_parts();
        openapi::add_common_parts(document, self.role)
    }
}

/// Other methods than POST can be repeated without a key.
pub(super) async fn refuse_idempotency_key(request: Request, next: Next) -> Response {
    if request.method() == Method::POST && request.headers().contains_key(IDEMPOTENCY_KEY) {
        let message = "is not supported by this request; send it without the header";
        return ErrorResponse(Failure::bad_input(IDEMPOTENCY_KEY, message)).into_response();
    }
    next.run(request).await
}

async fn require_role(State(needed): State<Role>, request: Request, next: Next) -> Response {
    let mut response = match request.extensions().get::<Caller>() {
        Some(caller) if caller.role >= needed => next.run(request).await,
        Some(_) | None => {
            let role = role_name(needed);
            let message = format!("this requires the role `{role}`");
            ErrorResponse(Failure::new(ErrorCode::Forbidden, message).with("needed", role)).into_response()
        }
    };
    response.extensions_mut().insert(RequiredRole(needed));
    response
}

/// Limits the time until the response begins; streams have their own limits.
pub(super) async fn with_timeout(State(within): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s", within.as_secs());
            ErrorResponse(Failure::new(ErrorCode::TimedOut, message).retry_after_ms(1_000)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_response_times_out() {
        let router: Router = Router::new()
            .route("/", get(std::future::pending::<()>))
            .route_layer(from_fn_with_state(SHORT_TIMEOUT, with_timeout));

        let response = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();

        assert_eq!(response.status(), 503);
    }

    #[tokio::test]
    async fn an_unauthenticated_request_has_no_role() {
        let router: Router = Router::new()
            .route("/", get(|| async {}))
            .route_layer(from_fn_with_state(Role::Viewer, require_role));

        let response = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();

        assert_eq!(response.status(), 403);
    }
}
