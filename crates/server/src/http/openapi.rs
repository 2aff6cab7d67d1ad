//! The description of the API, made from the routes themselves.

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

use super::chores;
use super::groups::{Group, QUICK};
use crate::Service;

const BEARER: &str = "bearer";

/// What any request may be refused with.
const REFUSALS: &[(StatusCode, &str)] = &[
    (StatusCode::BAD_REQUEST, "Something in the request cannot be used; `details.field` names it"),
    (StatusCode::UNAUTHORIZED, "No token, or one that is not valid"),
    (StatusCode::FORBIDDEN, "The token is good for less, or the Host or Origin is foreign"),
    (StatusCode::NOT_FOUND, "There is no such thing"),
    (StatusCode::METHOD_NOT_ALLOWED, "This cannot be asked here"),
    (StatusCode::CONFLICT, "It cannot be done in the state that things are in"),
    (StatusCode::GONE, "The sandbox has ended; `details.cause` says why"),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than the server takes"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body is not JSON"),
    (StatusCode::UNPROCESSABLE_ENTITY, "It cannot be done"),
    (StatusCode::TOO_MANY_REQUESTS, "A limit is reached"),
    (StatusCode::INTERNAL_SERVER_ERROR, "A fault of the server"),
    (StatusCode::SERVICE_UNAVAILABLE, "Not now; trying again can help"),
];

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, QUICK).routes(routes!(openapi))]
}

/// The whole description.
#[must_use]
pub fn document() -> OpenApi {
    let mut whole = chores::document();
    for group in super::groups() {
        whole.merge(group.into_document());
    }
    let about = "Runs agents in sandboxes, and proves that they are gone.";
    whole.info = InfoBuilder::new()
        .title("Pinfold")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(about))
        .build();
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    let components = whole.components.get_or_insert_with(Components::new);
    components.add_security_scheme(BEARER, bearer);
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    let mut parts = Vec::new();
    ErrorBody::schemas(&mut parts);
    components.schemas.extend(parts);
    whole
}

/// What all routes of a group have in common is said here instead of at each of them.
pub(super) fn furnish(mut document: OpenApi, role: Role) -> OpenApi {
    // The router's way to say that slashes belong to it is not the document's.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            operation.security = Some(vec![SecurityRequirement::new(BEARER, Vec::<String>::new())]);
            let role = format!("{role:?}").to_lowercase();
            operation.extensions = Some(ExtensionsBuilder::new().add("x-required-role", role).build());
            for (status, description) in REFUSALS {
                let refusal = || {
                    let content = Content::new(Some(Ref::from_schema_name(ErrorBody::name())));
                    RefOr::T(
                        ResponseBuilder::new()
                            .description(*description)
                            .content("application/json", content)
                            .build(),
                    )
                };
                operation.responses.responses.entry(status.as_str().to_owned()).or_insert_with(refusal);
            }
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    [get, put, post, delete, patch].into_iter().filter_map(Option::as_mut)
}

/// This description.
#[utoipa::path(get, operation_id = "openapi", path = "/openapi.json", tag = "server",
    responses((status = 200, description = "An OpenAPI document", body = Object)))]
async fn openapi(State(_): State<Arc<Service>>) -> Json<&'static OpenApi> {
    static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(document);
    Json(&DOCUMENT)
}
