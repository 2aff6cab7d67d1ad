//! `/api/images`: list, import and remove images.

use std::io;
use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::StreamExt;
use pinfold_api::{ErrorCode, Image, ImageRemoved};
use pinfold_store::Role;
use serde::Deserialize;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Query, path_param};
use super::paging::CursorQuery;
use super::route_groups::{Group, LONG_TIMEOUT, SHORT_TIMEOUT};
use super::sandboxes::run_to_completion;
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(list)),
        Group::of(Role::Admin, LONG_TIMEOUT).routes(routes!(import)).routes(routes!(remove)),
    ]
}

/// The largest archive.
const MOST_BYTES: u64 = 16 << 30;

/// List images.
#[utoipa::path(get, operation_id = "list_images", path = "/api/images", tag = "images", params(CursorQuery),
    responses((status = 200, description = "Sorted by name", body = Vec<Image>,
        headers(("X-Next-Cursor" = String, description = "The cursor of the next page, if there is one")))))]
async fn list(
    State(service): State<Arc<Service>>,
    Query(query): Query<CursorQuery>,
) -> Result<Response, ErrorResponse> {
    Ok(query.answer(service.images().await?, |image| &image.name)?)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ImportQuery {
    /// The image's name, such as `team/app:1.2`.
    #[param(
        pattern = "^[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?$",
        max_length = 128
    )]
    name: String,
}

/// Import an image: a tar archive (plain, gzip or zstd) of a root file system or an OCI layout, or the output of
/// `docker save`.
#[utoipa::path(post, operation_id = "import_image", path = "/api/images", tag = "images", params(ImportQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, description = "Imported", body = Image)))]
async fn import(
    State(service): State<Arc<Service>>,
    Query(query): Query<ImportQuery>,
    request: Request,
) -> Result<(StatusCode, Answer<Image>), ErrorResponse> {
    let archive = receive(&service, request.into_body()).await?;
    let imported = run_to_completion(async move {
        let imported = service.import_image(archive.path().to_owned(), query.name).await;
        // The temporary file is removed whether or not the import succeeded.
        drop(archive);
        imported
    });
    Ok((StatusCode::CREATED, Answer(imported.await?)))
}

/// Stores an upload on the data directory's disk: archives may be larger than memory and than `/tmp`.
async fn receive(service: &Service, body: Body) -> Result<NamedTempFile, Failure> {
    let failed = |error: io::Error| Failure::internal(format!("could not store an upload: {error}"));
    let file = service.new_upload().map_err(failed)?;
    let mut writer = tokio::fs::File::from_std(file.reopen().map_err(failed)?);
    let (mut stream, mut length) = (body.into_data_stream(), 0_u64);
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| Failure::bad_input("body", error))?;
        length += piece.len() as u64;
        if length > MOST_BYTES {
            let message = format!("an archive may have at most {MOST_BYTES} bytes");
            return Err(Failure::new(ErrorCode::TooLarge, message));
        }
        writer.write_all(&piece).await.map_err(failed)?;
    }
    writer.flush().await.map_err(failed)?;
    Ok(file)
}

/// The path parameter `name`, may contain slashes.
struct ImageName(String);

impl<S: Send + Sync> FromRequestParts<S> for ImageName {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Ok(path_param(parts, state, "name").await.map(Self)?)
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `ImageName`")]
struct NamePath {
    /// The image's name, may contain slashes.
    #[param(max_length = 128)]
    name: String,
}

/// Remove an image that no sandbox uses.
#[utoipa::path(delete, operation_id = "remove_image", path = "/api/images/{*name}", tag = "images", params(NamePath),
    responses((status = 200, description = "Removed", body = ImageRemoved)))]
async fn remove(
    State(service): State<Arc<Service>>,
    ImageName(name): ImageName,
) -> Result<Answer<ImageRemoved>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.remove_image(name).await }).await?))
}
