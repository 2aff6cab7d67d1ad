//! Strict extractors of request bodies, queries and path parameters. Errors name the invalid field.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use pinfold_api::{ErrorCode, without_type_names};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Track};

use pinfold_lifecycle::SandboxId;
use pinfold_service::{Failure, Service};

use super::error_response::ErrorResponse;

/// A JSON request body.
pub(super) struct Json<T>(pub(super) T);

/// The query string.
pub(super) struct Query<T>(pub(super) T);

/// The path parameter `id`.
pub(super) struct Id<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        if !is_json(&request) {
            let message = "the body must be JSON: `Content-Type: application/json`";
            return Err(Failure::new(ErrorCode::UnsupportedMediaType, message).into());
        }
        let body = Bytes::from_request(request, state).await.map_err(body_failure)?;
        // An empty body is an empty object.
        let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
        let mut json = serde_json::Deserializer::from_slice(text);
        let value = read(&mut json)?;
        json.end().map_err(|error| Failure::bad_input("body", error))?;
        Ok(Self(value))
    }
}

fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(json: D) -> Result<T, Failure> {
    let mut track = Track::new();
    let tracked = serde_path_to_error::Deserializer::new(json, &mut track);
    pinfold_api::object(tracked).map_err(|error| field_failure(&track.path(), &error))
}

fn is_json(request: &Request) -> bool {
    let given = request.headers().get(CONTENT_TYPE).map(|it| it.to_str().unwrap_or("?"));
    let is_empty = request.headers().get("content-length").is_none_or(|length| length == "0")
        && !request.headers().contains_key("transfer-encoding");
    match given {
        None => is_empty,
        Some(given) => {
            given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
        }
    }
}

fn body_failure(rejection: BytesRejection) -> Failure {
    let message = rejection.to_string();
    if rejection.into_response().status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Failure::new(ErrorCode::TooLarge, "the request body is too large");
    }
    Failure::bad_input("body", message)
}

/// Names the field of a deserialization error. For an unknown or missing field, the name is in the message.
fn field_failure(path: &Path, error: &impl Display) -> Failure {
    let (path, message) = (path.to_string(), without_type_names(&error.to_string(), "an object"));
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let is_root = path == "." || path.is_empty();
    let field = match unknown.or(missing) {
        Some(name) if is_root || path == name || path.ends_with(&format!(".{name}")) => {
            if is_root {
                name.to_owned()
            } else {
                path
            }
        }
        Some(name) => format!("{path}.{name}"),
        None if is_root => "body".to_owned(),
        None => path,
    };
    Failure::bad_input(&field, message)
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let text = parts.uri.query().unwrap_or_default();
        let query = serde_html_form::Deserializer::from_bytes(text.as_bytes());
        let read = serde_path_to_error::deserialize(query);
        Ok(read.map(Self).map_err(|error| field_failure(error.path(), error.inner()))?)
    }
}

impl<S: Send + Sync, T> FromRequestParts<S> for Id<T>
where
    T: FromStr,
    T::Err: Display,
{
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Ok(path_param(parts, state, "id")
            .await?
            .parse()
            .map(Self)
            .map_err(|error| Failure::bad_input("id", error))?)
    }
}

/// The path parameter `id` of a sandbox: its id, or the name of one that is not proven gone.
pub(super) struct SandboxRef(pub(super) SandboxId);

impl FromRequestParts<Arc<Service>> for SandboxRef {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Self::Rejection> {
        let given = path_param(parts, service, "id").await?;
        Ok(Self(service.find_sandbox(&given).await?))
    }
}

/// A decoded path parameter.
pub(super) async fn path_param<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &'static str,
) -> Result<String, Failure> {
    let given = RawPathParams::from_request_parts(parts, state).await;
    let given = given.map_err(|error| Failure::bad_input(name, error))?;
    let found = given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| Failure::internal(format!("the route has no `{name}`")))
}

/// An integer of at most 63 bits, as the OpenAPI document says. An empty value is refused.
pub(super) fn number<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = text.parse::<i64>().ok().and_then(|number| T::try_from(number).ok());
    number.map(Some).ok_or_else(|| D::Error::custom(format!("`{text}` is not a valid number here")))
}

/// A boolean: `1` and `true`, or `0` and `false`.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        other => Err(D::Error::custom(format!("`{other}` is neither true nor false"))),
    }
}

#[cfg(test)]
mod tests {
    use pinfold_api::{CreateSandbox, ExecRequest};

    use super::*;

    fn field_of<T: DeserializeOwned>(body: &str) -> String {
        let mut json = serde_json::Deserializer::from_str(body);
        let Err(failure) = read::<T, _>(&mut json) else { panic!("{body} was read") };
        failure.detail.details["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn an_invalid_value_is_named_by_its_field() {
        for (body, field) in [
            (r#"{"colour": 1}"#, "colour"),
            (r#"{"limits": {"memory": 1}}"#, "limits.memory"),
            (r#"{"limits": {"memory_mb": -1}}"#, "limits.memory_mb"),
            (r#"{"labels": {"a": 1}}"#, "labels.a"),
            (r#"{"name": 7}"#, "name"),
            (r#"{"limits": [64]}"#, "limits"),
            ("[]", "body"),
            ("[", "body"),
            ("", "body"),
        ] {
            assert_eq!(field_of::<CreateSandbox>(body), field, "{body}");
        }
        assert_eq!(field_of::<ExecRequest>("{}"), "command");
    }
}
