//! `/api/sandbox/{id}/files/{path}`: read, write, list and remove files inside a sandbox, and create directories and
//! links.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json as Answer;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use percent_encoding::percent_decode_str;
use pinfold_api::{ErrorCode, FILE_MODE, FileEntry, FileListing, FileRemoved, FileWritten};
use pinfold_lifecycle::SandboxId;
use pinfold_provider::{ContentStream, FileError};
use pinfold_store::Role;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Query, flag, number};
use super::route_groups::{Group, LONG_TIMEOUT};
use super::sandboxes::run_to_completion;
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, LONG_TIMEOUT).routes(routes!(read)),
        Group::of(Role::Operator, LONG_TIMEOUT).routes(routes!(write)).routes(routes!(remove)),
    ]
}

/// The largest file of one request.
const MOST_BYTES: u64 = 1 << 30;

/// The path parameters `id` and `path`.
struct FileParams {
    id: SandboxId,
    /// Raw bytes: file names need not be UTF-8.
    path: Vec<u8>,
}

impl FromRequestParts<Arc<Service>> for FileParams {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Self::Rejection> {
        let asked = parts.uri.path().strip_prefix("/api/sandbox/");
        let Some((id, path)) = asked.and_then(|rest| rest.split_once("/files/")) else {
            return Err(Failure::internal("the route of files has changed").into());
        };
        let id = service.find_sandbox(&percent_decode_str(id).decode_utf8_lossy()).await?;
        // The slash before the path parameter is the root.
        let path = [b'/'].into_iter().chain(percent_decode_str(path)).collect();
        Ok(Self { id, path })
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `FileParams`")]
struct FilePath {
    /// The sandbox id, or the name of a sandbox that is not proven gone.
    id: String,
    /// The path from the sandbox's root, may contain slashes.
    path: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReadQuery {
    /// List a directory instead.
    #[serde(default, deserialize_with = "flag")]
    list: bool,
    /// Return metadata instead of the content. Links are not followed.
    #[serde(default, deserialize_with = "flag")]
    stat: bool,
    /// The offset of the first byte.
    #[serde(default, deserialize_with = "number")]
    from: Option<u64>,
    /// The maximum number of bytes; of a list, of entries: default 10,000, at most 100,000.
    #[serde(default, deserialize_with = "number")]
    most: Option<u64>,
}

/// Entries of one list.
const ENTRIES: usize = 10_000;
const MOST_ENTRIES: usize = 100_000;

/// Read a file, list a directory with `?list=1`, or get metadata with `?stat=1`.
#[utoipa::path(get, operation_id = "read_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, ReadQuery),
    responses((status = 200, description = "The content, the list, or the metadata",
        content((Vec<u8> = "application/octet-stream"), (FileInfo = "application/json")),
        headers(("X-File-Mode" = String, description = "The file's permissions in octal, with its content")))))]
async fn read(
    State(service): State<Arc<Service>>,
    FileParams { id, path }: FileParams,
    Query(query): Query<ReadQuery>,
) -> Result<Response, ErrorResponse> {
    match (query.list, query.stat) {
        (true, true) => {
            return Err(Failure::bad_input("stat", "give either `list` or `stat`, not both").into());
        }
        (true, false) => {
            let most = query.most.map_or(ENTRIES, |most| usize::try_from(most).unwrap_or(usize::MAX));
            let listing = service.list_files(id, &path, most.min(MOST_ENTRIES)).await?;
            return Ok(Answer(FileInfo::Listing(listing)).into_response());
        }
        (false, true) => {
            return Ok(Answer(FileInfo::Entry(service.stat_file(id, &path).await?)).into_response());
        }
        (false, false) => {}
    }
    let (from, most) = (query.from.unwrap_or(0), query.most.unwrap_or(u64::MAX));
    let content = service.read_file(id, &path, from, most).await?;
    let pieces = unfold(Some(content.pieces), |pieces| async move {
        let mut pieces = pieces?;
        match pieces.next().await {
            Ok(Some(piece)) => Some((Ok(piece), Some(pieces))),
            Ok(None) => None,
            // Break the connection, so that the client notices the truncation.
            Err(error) => Some((Err(error), None)),
        }
    });
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    let mode = [(FILE_MODE, format!("{:o}", content.metadata.mode))];
    Ok((kind, mode, Body::from_stream(pieces)).into_response())
}

/// A directory listing or the metadata of one file.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum FileInfo {
    Listing(FileListing),
    Entry(FileEntry),
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WriteQuery {
    /// What to create: a `file` with the body as content, a `directory`, or a `link` with the body as target.
    #[param(inline)]
    #[serde(default)]
    kind: WriteKind,
    /// Permissions in octal, such as `755`. Default: those of the replaced file, or the usual.
    mode: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WriteKind {
    #[default]
    File,
    Directory,
    Link,
}

/// Write a file atomically, or create a directory or a link. An existing file is replaced; an existing directory
/// stays.
#[utoipa::path(put, operation_id = "write_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, WriteQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "Written", body = FileWritten)))]
async fn write(
    State(service): State<Arc<Service>>,
    FileParams { id, path }: FileParams,
    Query(query): Query<WriteQuery>,
    request: Request,
) -> Result<Answer<FileWritten>, ErrorResponse> {
    let mode = query.mode.as_deref().map(octal).transpose()?;
    let written = match query.kind {
        WriteKind::File => write_content(&service, id, &path, mode, request).await,
        WriteKind::Directory => {
            let failure = |_| Failure::bad_input("body", "a directory has no content");
            to_bytes(request.into_body(), 0).await.map_err(failure)?;
            run_to_completion(async move { service.make_directory(id, &path, mode).await }).await
        }
        WriteKind::Link => {
            if mode.is_some() {
                return Err(Failure::bad_input("mode", "a link has no mode").into());
            }
            let failure = |_| {
                Failure::bad_input("body", format!("a link target may have at most {LONGEST_TARGET} bytes"))
            };
            let target = to_bytes(request.into_body(), LONGEST_TARGET).await.map_err(failure)?;
            if target.is_empty() {
                return Err(Failure::bad_input("body", "a link target must not be empty").into());
            }
            run_to_completion(async move { service.make_link(id, &path, &target).await }).await
        }
    };
    Ok(Answer(written?))
}

/// The kernel's PATH_MAX without the final NUL.
const LONGEST_TARGET: usize = 4_095;

async fn write_content(
    service: &Service,
    id: SandboxId,
    path: &[u8],
    mode: Option<u32>,
    request: Request,
) -> Result<FileWritten, Failure> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let too_large =
        || Failure::new(ErrorCode::TooLarge, format!("a file may have at most {MOST_BYTES} bytes"));
    if length.is_some_and(|length| length > MOST_BYTES) {
        return Err(too_large());
    }
    let mut content = Upload { stream: request.into_body().into_data_stream(), left: Some(MOST_BYTES) };
    let written = service.write_file(id, path, mode, &mut content).await;
    if content.left.is_none() { Err(too_large()) } else { written }
}

fn octal(given: &str) -> Result<u32, Failure> {
    let mode = u32::from_str_radix(given, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| Failure::bad_input("mode", format!("`{given}` is not an octal mode")))
}

/// An upload in progress.
struct Upload {
    stream: BodyDataStream,
    /// Bytes that may still follow. None: the limit was exceeded.
    left: Option<u64>,
}

#[async_trait]
impl ContentStream for Upload {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let ended = |why: String| FileError::NoContent { why };
        let Some(piece) = self.stream.next().await else { return Ok(None) };
        let piece = piece.map_err(|error| ended(error.to_string()))?;
        self.left = self.left.and_then(|left| left.checked_sub(piece.len() as u64));
        if self.left.is_none() {
            return Err(ended("too large".to_owned()));
        }
        Ok(Some(piece.to_vec()))
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RemoveQuery {
    /// Remove a directory with its content.
    #[serde(default, deserialize_with = "flag")]
    recursive: bool,
}

/// Remove a file or a directory.
#[utoipa::path(delete, operation_id = "remove_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, RemoveQuery),
    responses((status = 200, description = "Removed", body = FileRemoved)))]
async fn remove(
    State(service): State<Arc<Service>>,
    FileParams { id, path }: FileParams,
    Query(query): Query<RemoveQuery>,
) -> Result<Answer<FileRemoved>, ErrorResponse> {
    Ok(Answer(service.remove_file(id, &path, query.recursive).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(text: &'static str, left: u64) -> Upload {
        Upload { stream: Body::from(text).into_data_stream(), left: Some(left) }
    }

    #[tokio::test]
    async fn an_upload_of_the_maximum_size_is_accepted_and_one_byte_more_is_not() {
        let (mut fits, mut is_over) = (upload("abc", 3), upload("abcd", 3));

        assert_eq!(fits.next().await.unwrap(), Some(b"abc".to_vec()));
        assert_eq!(fits.next().await.unwrap(), None);
        assert!(is_over.next().await.is_err());

        assert_eq!((fits.left, is_over.left), (Some(0), None));
    }
}
