//! `/api/proof`: proves to a client that this server knows its token, before the client sends it.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Extension, Json as Answer, Router};
use pinfold_api::{ErrorCode, ProofAnswer, ProofRequest};
use pinfold_lifecycle::TokenId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::Authenticator;
use super::error_response::ErrorResponse;
use super::extract::Json;
use super::listen::{LocalPort, Peer};
use super::route_groups::{SHORT_TIMEOUT, refuse_idempotency_key, with_timeout};
use super::{method_not_allowed, openapi};
use pinfold_service::{Failure, Service};

const LONGEST_BODY: usize = 1 << 10;

fn router() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new().routes(routes!(prove))
}

pub(super) fn public(authenticator: Arc<Authenticator>) -> Router<Arc<Service>> {
    let (router, _) = router().split_for_parts();
    router
        .route_layer(from_fn(refuse_idempotency_key))
        .route_layer(DefaultBodyLimit::max(LONGEST_BODY))
        .route_layer(from_fn_with_state(SHORT_TIMEOUT, with_timeout))
        .layer(Extension(authenticator))
        .method_not_allowed_fallback(method_not_allowed)
}

pub(super) fn document() -> utoipa::openapi::OpenApi {
    openapi::add_error_responses(router().into_openapi())
}

/// Prove that this server knows a token, without receiving it. Needs no token.
#[utoipa::path(post, operation_id = "prove_server", path = "/api/proof", tag = "server", request_body = ProofRequest,
    responses((status = 200, description = "The proof: HMAC-SHA256, keyed with the SHA-256 of the token",
        body = ProofAnswer)))]
async fn prove(
    State(service): State<Arc<Service>>,
    Extension(authenticator): Extension<Arc<Authenticator>>,
    Extension(peer): Extension<Peer>,
    Extension(LocalPort(port)): Extension<LocalPort>,
    Json(request): Json<ProofRequest>,
) -> Result<Answer<ProofAnswer>, ErrorResponse> {
    let id = request.token_id.parse::<TokenId>().map_err(|error| Failure::bad_input("token_id", error))?;
    let Some(proof) = service.prove_token(id, &request.nonce, port).await? else {
        authenticator.count_wrong(Some(peer))?;
        return Err(Failure::new(ErrorCode::Unauthorized, "the token is unknown or revoked").into());
    };
    Ok(Answer(ProofAnswer { proof }))
}
