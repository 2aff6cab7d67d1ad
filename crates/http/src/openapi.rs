//! The OpenAPI document, generated from the routes.

use std::sync::{Arc, LazyLock};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use pinfold_api::ErrorBody;
use pinfold_store::Role;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, Content, InfoBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::routes;

use super::health;
use super::proof;
use super::route_groups::{Group, SHORT_TIMEOUT};
use pinfold_service::Service;
use pinfold_service::role_name;

const BEARER: &str = "bearer";

/// Error responses of every route.
const ERROR_RESPONSES: &[(StatusCode, &str)] = &[
    (StatusCode::BAD_REQUEST, "Invalid input; `details.field` names the field"),
    (StatusCode::UNAUTHORIZED, "The token is missing or invalid"),
    (StatusCode::FORBIDDEN, "The token's role is too low, or the Host or Origin is not accepted"),
    (StatusCode::NOT_FOUND, "Not found"),
    (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed"),
    (StatusCode::REQUEST_TIMEOUT, "The request body stalled"),
    (StatusCode::CONFLICT, "Not possible in the current state"),
    (StatusCode::GONE, "The sandbox has ended; `details.cause` says why"),
    (StatusCode::PAYLOAD_TOO_LARGE, "The request body is too large"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The request body is not JSON"),
    (StatusCode::UNPROCESSABLE_ENTITY, "The request is valid but cannot be carried out"),
    (StatusCode::TOO_MANY_REQUESTS, "A limit is reached"),
    (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error"),
    (StatusCode::SERVICE_UNAVAILABLE, "Temporarily unavailable; retry later"),
];

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(openapi))]
}

/// The OpenAPI document of all routes.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = health::document();
    document.merge(proof::document());
    for group in super::groups() {
        document.merge(group.into_document());
    }
    let about = "Runs agents in sandboxes, and proves that they are gone.";
    document.info = InfoBuilder::new()
        .title("Pinfold")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(about))
        .build();
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    let components = document.components.get_or_insert_with(Components::new);
    components.add_security_scheme(BEARER, bearer);
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    let mut parts = Vec::new();
    ErrorBody::schemas(&mut parts);
    components.schemas.extend(parts);
    document
}

/// Adds what all routes have in common: authentication, the required role and error responses.
pub(super) fn add_common_parts(mut document: OpenApi, role: Role) -> OpenApi {
    // `{*name}` is axum's syntax for a parameter with slashes, not OpenAPI's.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            operation.security = Some(vec![SecurityRequirement::new(BEARER, Vec::<String>::new())]);
            let extensions = ExtensionsBuilder::new().add("x-required-role", role_name(role));
            operation.extensions = Some(extensions.build());
        }
    }
    add_error_responses(document)
}

pub(super) fn add_error_responses(mut document: OpenApi) -> OpenApi {
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        for (status, description) in ERROR_RESPONSES {
            let response = || {
                let content = Content::new(Some(Ref::from_schema_name(ErrorBody::name())));
                let response = ResponseBuilder::new().description(*description);
                RefOr::T(response.content("application/json", content).build())
            };
            operation.responses.responses.entry(status.as_str().to_owned()).or_insert_with(response);
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    [get, put, post, delete, patch].into_iter().filter_map(Option::as_mut)
}

/// This OpenAPI document.
#[utoipa::path(get, operation_id = "openapi", path = "/openapi.json", tag = "server",
    responses((status = 200, description = "An OpenAPI document", body = Object)))]
async fn openapi(State(_): State<Arc<Service>>) -> Json<&'static OpenApi> {
    static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(document);
    Json(&DOCUMENT)
}
