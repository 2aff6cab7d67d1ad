//! `/api/executions/{id}/artifacts`: stored artifacts of an execution.

use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use pinfold_api::Artifact;
use pinfold_lifecycle::ExecutionId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::executions::ExecutionPath;
use super::extract::{Id, path_param};
use super::route_groups::{Group, SHORT_TIMEOUT};
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(list)).routes(routes!(read))]
}

/// The path parameters `id` and `name`.
struct ArtifactParams {
    id: ExecutionId,
    name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ArtifactParams {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let id = path_param(parts, state, "id").await?;
        let id = id.parse().map_err(|error| Failure::bad_input("id", error))?;
        Ok(Self { id, name: path_param(parts, state, "name").await? })
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `ArtifactParams`")]
struct ArtifactPath {
    /// The execution id.
    #[param(pattern = "^exe_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
    /// The artifact's name, may contain slashes.
    name: String,
}

/// List the requested artifacts and their states. Also after the end of the sandbox.
#[utoipa::path(get, operation_id = "list_artifacts", path = "/api/executions/{id}/artifacts", tag = "executions",
    params(ExecutionPath),
    responses((status = 200, description = "All artifacts", body = Vec<Artifact>)))]
async fn list(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
) -> Result<Answer<Vec<Artifact>>, ErrorResponse> {
    Ok(Answer(service.artifacts(id).await?))
}

/// Download an artifact.
#[utoipa::path(get, operation_id = "read_artifact", path = "/api/executions/{id}/artifacts/{*name}", tag = "executions",
    params(ArtifactPath),
    responses((status = 200, description = "The content", body = Vec<u8>, content_type = "application/octet-stream")))]
async fn read(
    State(service): State<Arc<Service>>,
    ArtifactParams { id, name }: ArtifactParams,
) -> Result<Response, ErrorResponse> {
    let (artifact, content) = service.artifact(id, &name).await?;
    let headers = [
        (CONTENT_TYPE, artifact.content_type),
        (CONTENT_LENGTH, artifact.size.to_string()),
        (ETAG, format!("\"{}\"", artifact.sha256)),
        // The content is untrusted: a browser must not execute it.
        (CONTENT_DISPOSITION, "attachment".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, Body::from_stream(content)).into_response())
}
