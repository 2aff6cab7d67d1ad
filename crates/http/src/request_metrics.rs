//! Records the latency of requests until their response begins, by route.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use pinfold_metrics::Route;
use tokio::time::Instant;

use pinfold_service::Service;

pub(super) async fn record_latency(
    State(service): State<Arc<Service>>,
    template: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let (method, began) = (request.method().clone(), Instant::now());
    let response = next.run(request).await;
    let template = template.as_ref().map(MatchedPath::as_str);
    let route = Route::new(method.as_str(), template, response.status().as_u16());
    service.record_latency(&route, began.elapsed());
    response
}
