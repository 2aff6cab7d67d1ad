//! Routes that ask the same of whoever comes: a role, and how long the answer may take. A route is reached only
//! through a group, so none can be forgotten.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use pinfold_api::ErrorCode;
use pinfold_store::Role;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::openapi;
use crate::service::{Asking, Caller};
use crate::{Failure, Service};

/// An answer that waits for nothing.
pub(super) const QUICK: Duration = Duration::from_secs(30);
/// An answer that may wait for something, as long as it says: the longest wait, and some.
pub(super) const PATIENT: Duration = Duration::from_secs(LONGEST_WAIT_S + 30);
/// In seconds.
pub(super) const LONGEST_WAIT_S: u64 = Asking::LONGEST_WAIT_S;

/// Of a request that is read as a whole: what names things, and what carries something.
const SMALL_BODY: usize = 64 << 10;
pub(super) const LARGE_BODY: usize = 4 << 20;

/// The role that a route asks for, as its answers carry it to those who account for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needed(pub(super) Role);

pub(super) struct Group {
    router: OpenApiRouter<Arc<Service>>,
    role: Role,
    within: Duration,
    most_bytes: usize,
}

impl Group {
    pub(super) fn of(role: Role, within: Duration) -> Self {
        Self { router: OpenApiRouter::new(), role, within, most_bytes: SMALL_BODY }
    }

    pub(super) fn with_bodies(self, most_bytes: usize) -> Self {
        Self { most_bytes, ..self }
    }

    pub(super) fn routes(mut self, routes: UtoipaMethodRouter<Arc<Service>>) -> Self {
        self.router = self.router.routes(routes);
        self
    }

    pub(super) fn into_router(self) -> Router<Arc<Service>> {
        let (router, _) = self.router.split_for_parts();
        router
            .route_layer(DefaultBodyLimit::max(self.most_bytes))
            .route_layer(from_fn_with_state(self.within, in_time))
            .route_layer(from_fn_with_state(self.role, has_role))
    }

    pub(super) fn into_document(self) -> utoipa::openapi::OpenApi {
        let (_, document) = self.router.split_for_parts();
        openapi::furnish(document, self.role)
    }
}

async fn has_role(State(needed): State<Role>, request: Request, next: Next) -> Response {
    let mut response = match request.extensions().get::<Caller>() {
        Some(caller) if caller.role >= needed => next.run(request).await,
        Some(_) | None => {
            let role = format!("{needed:?}").to_lowercase();
            let told = format!("this needs the role `{role}`");
            Failure::new(ErrorCode::Forbidden, told).with("needed", role).into_response()
        }
    };
    response.extensions_mut().insert(Needed(needed));
    response
}

/// Until the answer begins: what is streamed then has bounds of its own.
async fn in_time(State(within): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let told = format!("there was no answer within {} s", within.as_secs());
            Failure::new(ErrorCode::TimedOut, told).retry_after_ms(1_000).into_response()
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
    async fn an_answer_that_does_not_come_in_time_is_given_up() {
        let router: Router = Router::new()
            .route("/", get(std::future::pending::<()>))
            .route_layer(from_fn_with_state(QUICK, in_time));

        let response = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();

        assert_eq!(response.status(), 503);
    }

    #[tokio::test]
    async fn who_was_not_recognised_has_no_role() {
        let router: Router = Router::new()
            .route("/", get(|| async {}))
            .route_layer(from_fn_with_state(Role::Viewer, has_role));

        let response = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();

        assert_eq!(response.status(), 403);
    }
}
