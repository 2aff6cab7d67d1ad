//! `/api/tokens`: say who may come in.

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

use super::extract::{Id, Json, Query};
use super::groups::{Group, QUICK};
use super::paging::CursorQuery;
use super::sandboxes::seen_through;
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Admin, QUICK).routes(routes!(list, create)).routes(routes!(revoke))]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Id` reads")]
struct TokenPath {
    /// The token's id, not the token itself.
    #[param(pattern = "^tok_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

/// All tokens, those that were revoked too.
#[utoipa::path(get, operation_id = "list_tokens", path = "/api/tokens", tag = "tokens", params(CursorQuery),
    responses((status = 200, description = "The oldest first", body = Vec<Token>,
        headers(("X-Next-Cursor" = String, description = "Where the next page begins, if there is one")))))]
async fn list(
    State(service): State<Arc<Service>>,
    Query(query): Query<CursorQuery>,
) -> Result<Response, Failure> {
    query.answer(service.tokens().await?, |token| &token.id)
}

/// Make a token.
#[utoipa::path(post, operation_id = "create_token", path = "/api/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, description = "The one answer that tells its secret", body = TokenCreated)))]
async fn create(
    State(service): State<Arc<Service>>,
    Json(asked): Json<NewToken>,
) -> Result<(StatusCode, Answer<TokenCreated>), Failure> {
    let created = seen_through(async move { service.create_token(&asked).await }).await?;
    Ok((StatusCode::CREATED, Answer(created)))
}

/// Revoke a token, from now on and for all servers on the same store.
#[utoipa::path(delete, operation_id = "revoke_token", path = "/api/tokens/{id}", tag = "tokens", params(TokenPath),
    responses((status = 200, description = "It is revoked", body = Token)))]
async fn revoke(State(service): State<Arc<Service>>, Id(id): Id<TokenId>) -> Result<Answer<Token>, Failure> {
    seen_through(async move { service.revoke_token(id).await }).await.map(Answer)
}
