//! `/api/tokens`: manage access tokens.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use pinfold_api::{NewToken, Token, TokenCreated};
use pinfold_lifecycle::TokenId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Id, Json, Query};
use super::paging::CursorQuery;
use super::route_groups::{Group, SHORT_TIMEOUT};
use super::sandboxes::run_to_completion;
use pinfold_service::Service;

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Admin, SHORT_TIMEOUT).routes(routes!(list, create)).routes(routes!(revoke))]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `Id`")]
struct TokenPath {
    /// The token's id, not the secret.
    #[param(pattern = "^tok_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

/// List all tokens, revoked ones included.
#[utoipa::path(get, operation_id = "list_tokens", path = "/api/tokens", tag = "tokens", params(CursorQuery),
    responses((status = 200, description = "Oldest first", body = Vec<Token>,
        headers(("X-Next-Cursor" = String, description = "The cursor of the next page, if there is one")))))]
async fn list(
    State(service): State<Arc<Service>>,
    Query(query): Query<CursorQuery>,
) -> Result<Response, ErrorResponse> {
    Ok(query.answer(service.tokens().await?, |token| &token.id)?)
}

/// Create a token.
#[utoipa::path(post, operation_id = "create_token", path = "/api/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, description = "The token with its secret, which is shown once", body = TokenCreated)))]
async fn create(
    State(service): State<Arc<Service>>,
    Json(request): Json<NewToken>,
) -> Result<(StatusCode, Answer<TokenCreated>), ErrorResponse> {
    let created = run_to_completion(async move { service.create_token(&request).await }).await?;
    Ok((StatusCode::CREATED, Answer(created)))
}

/// Revoke a token at once, on all servers of the store.
#[utoipa::path(delete, operation_id = "revoke_token", path = "/api/tokens/{id}", tag = "tokens", params(TokenPath),
    responses((status = 200, description = "Revoked", body = Token)))]
async fn revoke(
    State(service): State<Arc<Service>>,
    Id(id): Id<TokenId>,
) -> Result<Answer<Token>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.revoke_token(id).await }).await?))
}
