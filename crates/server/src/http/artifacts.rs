//! `/api/executions/{id}/artifacts`: files that were kept of what a command left.

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

use super::extract::{Id, part_of_path};
use super::groups::{Group, QUICK};
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, QUICK).routes(routes!(list)).routes(routes!(read))]
}

/// Which artifact of which execution.
struct Place {
    id: ExecutionId,
    name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let id = part_of_path(parts, state, "id").await?;
        let id = id.parse().map_err(|error| Failure::bad_input("id", error))?;
        Ok(Self { id, name: part_of_path(parts, state, "name").await? })
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Id` reads")]
struct ExecutionPath {
    /// The execution.
    #[param(pattern = "^exe_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Place` reads")]
struct ArtifactPath {
    /// The execution.
    #[param(pattern = "^exe_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
    /// The artifact, slashes and all.
    name: String,
}

/// The files that were asked to be kept, and what has become of each. Also after the end of the sandbox.
#[utoipa::path(get, operation_id = "list_artifacts", path = "/api/executions/{id}/artifacts", tag = "executions",
    params(ExecutionPath),
    responses((status = 200, description = "All of them", body = Vec<Artifact>)))]
async fn list(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
) -> Result<Answer<Vec<Artifact>>, Failure> {
    service.artifacts(id).await.map(Answer)
}

/// The content of one.
#[utoipa::path(get, operation_id = "read_artifact", path = "/api/executions/{id}/artifacts/{*name}", tag = "executions",
    params(ArtifactPath),
    responses((status = 200, description = "Its content", body = Vec<u8>, content_type = "application/octet-stream")))]
async fn read(State(service): State<Arc<Service>>, Place { id, name }: Place) -> Result<Response, Failure> {
    let (artifact, content) = service.artifact(id, &name).await?;
    let headers = [
        (CONTENT_TYPE, artifact.content_type),
        (CONTENT_LENGTH, artifact.size.to_string()),
        (ETAG, format!("\"{}\"", artifact.sha256)),
        // An agent wrote it: nothing of it runs in a browser.
        (CONTENT_DISPOSITION, "attachment".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, Body::from_stream(content)).into_response())
}
