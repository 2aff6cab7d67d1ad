//! `/healthz`: liveness, without a token.

use std::sync::Arc;

use axum::{Json, Router};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::method_not_allowed;
use pinfold_service::Service;

/// Liveness only.
fn router() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new().routes(routes!(healthz))
}

pub(super) fn public() -> Router<Arc<Service>> {
    let (router, _) = router().split_for_parts();
    router.method_not_allowed_fallback(method_not_allowed)
}

pub(super) fn document() -> utoipa::openapi::OpenApi {
    router().into_openapi()
}

#[derive(Serialize, ToSchema)]
struct Alive {
    /// Always `ok`.
    status: &'static str,
}

/// Liveness of the server. Needs no token.
#[utoipa::path(get, operation_id = "healthz", path = "/healthz", tag = "server",
    responses((status = 200, description = "The server is alive", body = Alive)))]
async fn healthz() -> Json<Alive> {
    Json(Alive { status: "ok" })
}
