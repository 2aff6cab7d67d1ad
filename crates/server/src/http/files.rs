//! `/api/sandbox/{id}/files/{path}`: read, write, list and remove files inside a sandbox, and make directories and links.

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
use pinfold_provider::{FileError, Pieces};
use pinfold_store::Role;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::extract::{Query, flag, number};
use super::groups::{Group, PATIENT};
use super::sandboxes::seen_through;
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
    /// Bytes, as the kernel has it: not every name is text.
    path: Vec<u8>,
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let asked = parts.uri.path().strip_prefix("/api/sandbox/");
        let Some((id, path)) = asked.and_then(|rest| rest.split_once("/files/")) else {
            return Err(Failure::internal("the route of files is elsewhere"));
        };
        let id = percent_decode_str(id).decode_utf8_lossy().parse();
        // The slash between the route and the path is the root's.
        let path = [b'/'].into_iter().chain(percent_decode_str(path)).collect();
        Ok(Self { id: id.map_err(|error| Failure::bad_input("id", error))?, path })
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
    /// Tell of the file or the link itself instead of its content.
    #[serde(default, deserialize_with = "flag")]
    stat: bool,
    /// The first byte wanted.
    #[serde(default, deserialize_with = "number")]
    from: Option<u64>,
    /// How many bytes are wanted at the most; of a list, how many entries: 10,000 unless told, and no more than 100,000.
    #[serde(default, deserialize_with = "number")]
    most: Option<u64>,
}

/// Of one list.
const ENTRIES: usize = 10_000;
const MOST_ENTRIES: usize = 100_000;

/// Read a file, list a directory with `?list=1`, or ask what something is with `?stat=1`.
#[utoipa::path(get, operation_id = "read_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, ReadQuery),
    responses((status = 200, description = "The content, the list, or what it is",
        content((Vec<u8> = "application/octet-stream"), (FileTold = "application/json")),
        headers(("X-File-Mode" = String, description = "Of a file, with its content: its permissions in octal")))))]
async fn read(
    State(service): State<Arc<Service>>,
    Place { id, path }: Place,
    Query(query): Query<ReadQuery>,
) -> Result<Response, Failure> {
    match (query.list, query.stat) {
        (true, true) => return Err(Failure::bad_input("stat", "it is a list or not; one of them is enough")),
        (true, false) => {
            let most = query.most.map_or(ENTRIES, |most| usize::try_from(most).unwrap_or(usize::MAX));
            let listing = service.list_files(id, &path, most.min(MOST_ENTRIES)).await?;
            return Ok(Answer(FileTold::Listing(listing)).into_response());
        }
        (false, true) => {
            return Ok(Answer(FileTold::Entry(service.stat_file(id, &path).await?)).into_response());
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
            // The connection breaks, so that nobody takes a part for the whole.
            Err(error) => Some((Err(error), None)),
        }
    });
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    let mode = [(FILE_MODE, format!("{:o}", content.metadata.mode))];
    Ok((kind, mode, Body::from_stream(pieces)).into_response())
}

/// One or the other, as it was asked for.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum FileTold {
    Listing(FileListing),
    Entry(FileEntry),
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WriteQuery {
    /// What to make: a `file` with what is sent, a `directory`, or a `link` that leads where what is sent says.
    #[param(inline)]
    #[serde(default)]
    kind: Made,
    /// Permissions in octal, such as `755`. Without it: what was there had, or the usual.
    mode: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Made {
    #[default]
    File,
    Directory,
    Link,
}

/// Write a file, whole or not at all, or make a directory or a link. What was there under this name is replaced; a
/// directory stays what it is.
#[utoipa::path(put, operation_id = "write_file", path = "/api/sandbox/{id}/files/{*path}", tag = "files", params(FilePath, WriteQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "It is there", body = FileWritten)))]
async fn write(
    State(service): State<Arc<Service>>,
    Place { id, path }: Place,
    Query(query): Query<WriteQuery>,
    request: Request,
) -> Result<Answer<FileWritten>, Failure> {
    let mode = query.mode.as_deref().map(octal).transpose()?;
    match query.kind {
        Made::File => write_content(&service, id, &path, mode, request).await,
        Made::Directory => {
            let told = |_| Failure::bad_input("body", "a directory has none");
            to_bytes(request.into_body(), 0).await.map_err(told)?;
            seen_through(async move { service.make_directory(id, &path, mode).await }).await
        }
        Made::Link => {
            if mode.is_some() {
                return Err(Failure::bad_input("mode", "a link has none"));
            }
            let told = |_| Failure::bad_input("body", format!("a link leads {LONGEST_TARGET} bytes far"));
            let target = to_bytes(request.into_body(), LONGEST_TARGET).await.map_err(told)?;
            if target.is_empty() {
                return Err(Failure::bad_input("body", "a link leads somewhere"));
            }
            seen_through(async move { service.make_link(id, &path, &target).await }).await
        }
    }
    .map(Answer)
}

/// As the kernel has it.
const LONGEST_TARGET: usize = 4_095;

async fn write_content(
    service: &Service,
    id: SandboxId,
    path: &[u8],
    mode: Option<u32>,
    request: Request,
) -> Result<FileWritten, Failure> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let too_large = || Failure::new(ErrorCode::TooLarge, format!("a file may have {MOST_BYTES} bytes"));
    if length.is_some_and(|length| length > MOST_BYTES) {
        return Err(too_large());
    }
    let mut content = Arriving { stream: request.into_body().into_data_stream(), left: Some(MOST_BYTES) };
    let written = service.write_file(id, path, mode, &mut content).await;
    if content.left.is_none() { Err(too_large()) } else { written }
}

fn octal(given: &str) -> Result<u32, Failure> {
    let mode = u32::from_str_radix(given, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| Failure::bad_input("mode", format!("`{given}` is no mode in octal")))
}

/// What is uploaded, on its way in.
struct Arriving {
    stream: BodyDataStream,
    /// How much more may come. None: more than that has come.
    left: Option<u64>,
}

#[async_trait]
impl Pieces for Arriving {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let ended = |why: String| FileError::NoContent { why };
        let Some(piece) = self.stream.next().await else { return Ok(None) };
        let piece = piece.map_err(|error| ended(error.to_string()))?;
        self.left = self.left.and_then(|left| left.checked_sub(piece.len() as u64));
        if self.left.is_none() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn arriving(text: &'static str, left: u64) -> Arriving {
        Arriving { stream: Body::from(text).into_data_stream(), left: Some(left) }
    }

    #[tokio::test]
    async fn a_file_of_the_largest_size_arrives_and_one_byte_more_does_not() {
        let (mut fits, mut is_over) = (arriving("abc", 3), arriving("abcd", 3));

        assert_eq!(fits.next().await.unwrap(), Some(b"abc".to_vec()));
        assert_eq!(fits.next().await.unwrap(), None);
        assert!(is_over.next().await.is_err());

        assert_eq!((fits.left, is_over.left), (Some(0), None));
    }
}
