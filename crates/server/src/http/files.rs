//! `/api/sandbox/{id}/files/{path}`: read, write, list and remove files inside a sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json as Answer;
use axum::body::{Body, BodyDataStream};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use pinfold_api::{ErrorCode, FileListing, FileRemoved, FileWritten};
use pinfold_lifecycle::SandboxId;
use pinfold_provider::{FileError, Pieces};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::{Query, flag, number, part_of_path};
use super::groups::{Group, PATIENT};
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, PATIENT).routes(routes!(read)),
        Group::of(Role::Operator, PATIENT).routes(routes!(write)).routes(routes!(remove)),
    ]
}

/// Of one file, in one request.
const MOST_BYTES: u64 = 1 << 30;

/// Where in which sandbox.
struct Place {
    id: SandboxId,
    path: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let id = part_of_path(parts, state, "id").await?;
        let id = id.parse().map_err(|error| Failure::bad_input("id", error))?;
        // The slash between the route and the path is the root's.
        let path = format!("/{}", part_of_path(parts, state, "path").await?);
        Ok(Self { id, path })
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Place` reads")]
struct FilePath {
    /// The sandbox.
    #[param(pattern = "^sbx_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
    /// From the sandbox's root, slashes and all.
    path: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReadQuery {
    /// List a directory instead.
    #[serde(default, deserialize_with = "flag")]
    list: bool,
    /// The first byte wanted.
    #[serde(default, deserialize_with = "number")]
    from: Option<u64>,
    /// How many bytes are wanted at the most.
    #[serde(default, deserialize_with = "number")]
    most: Option<u64>,
}

/// Read a file, or list a directory with `?list=1`.
#[utoipa::path(get, operation_id = "read_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, ReadQuery),
    responses((status = 200, description = "The content, or the list",
        content((Vec<u8> = "application/octet-stream"), (FileListing = "application/json")))))]
async fn read(
    State(service): State<Arc<Service>>,
    Place { id, path }: Place,
    Query(query): Query<ReadQuery>,
) -> Result<Response, Failure> {
    if query.list {
        return Ok(Answer(service.list_files(id, &path).await?).into_response());
    }
    let (from, most) = (query.from.unwrap_or(0), query.most.unwrap_or(u64::MAX));
    let content = service.read_file(id, &path, from, most).await?;
    let pieces = unfold(Some(content.pieces), |pieces| async move {
        let mut pieces = pieces?;
        match pieces.next().await {
            Ok(Some(piece)) => Some((Ok(piece), Some(pieces))),
            Ok(None) => None,
            // The connection breaks, so that nobody takes a part for the whole.
            Err(error) => Some((Err(error), None)),
        }
    });
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, Body::from_stream(pieces)).into_response())
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WriteQuery {
    /// Permissions in octal, such as `755`. Without it: what the file had, or the usual.
    mode: Option<String>,
}

/// Write a file, whole or not at all. What was there under this name is replaced.
#[utoipa::path(put, operation_id = "write_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, WriteQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "It is written", body = FileWritten)))]
async fn write(
    State(service): State<Arc<Service>>,
    Place { id, path }: Place,
    Query(query): Query<WriteQuery>,
    request: Request,
) -> Result<Answer<FileWritten>, Failure> {
    let mode = query.mode.as_deref().map(octal).transpose()?;
    let length = request.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let too_large = || Failure::new(ErrorCode::TooLarge, format!("a file may have {MOST_BYTES} bytes"));
    if length.is_some_and(|length| length > MOST_BYTES) {
        return Err(too_large());
    }
    let mut content = Arriving { stream: request.into_body().into_data_stream(), left: MOST_BYTES };
    let written = service.write_file(id, &path, mode, &mut content).await;
    if content.left == 0 { Err(too_large()) } else { written.map(Answer) }
}

fn octal(given: &str) -> Result<u32, Failure> {
    let mode = u32::from_str_radix(given, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| Failure::bad_input("mode", format!("`{given}` is no mode in octal")))
}

/// What is uploaded, on its way in.
struct Arriving {
    stream: BodyDataStream,
    left: u64,
}

#[async_trait]
impl Pieces for Arriving {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let ended = |why: String| FileError::NoContent { why };
        let Some(piece) = self.stream.next().await else { return Ok(None) };
        let piece = piece.map_err(|error| ended(error.to_string()))?;
        self.left = self.left.saturating_sub(piece.len() as u64);
        if self.left == 0 {
            return Err(ended("it is too large".to_owned()));
        }
        Ok(Some(piece.to_vec()))
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RemoveQuery {
    /// A directory with all that is in it.
    #[serde(default, deserialize_with = "flag")]
    recursive: bool,
}

/// Remove a file or a directory.
#[utoipa::path(delete, operation_id = "remove_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, RemoveQuery),
    responses((status = 200, description = "It is removed", body = FileRemoved)))]
async fn remove(
    State(service): State<Arc<Service>>,
    Place { id, path }: Place,
    Query(query): Query<RemoveQuery>,
) -> Result<Answer<FileRemoved>, Failure> {
    service.remove_file(id, &path, query.recursive).await.map(Answer)
}
