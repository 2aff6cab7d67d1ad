//! Runs each request in its trace span.

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::LOCATION;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::context::FutureExt as _;

use super::audit_log::sandbox_in_path;
use pinfold_notify::telemetry::Spans;

pub(super) async fn trace(
    State(spans): State<Spans>,
    template: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let route = template.as_ref().map(MatchedPath::as_str);
    let Some(span) = spans.start_request(request.method(), route, request.headers()) else {
        return next.run(request).await;
    };
    let concerned = sandbox_in_path(request.uri().path());
    let response = next.run(request).with_context(span.context()).await;
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    span.answered(response.status(), concerned.or_else(|| location.and_then(sandbox_in_path)));
    response
}
