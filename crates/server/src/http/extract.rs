//! What a request says, read strictly: what cannot be used is named by its field.

use std::fmt::Display;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use pinfold_api::ErrorCode;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Track};

use crate::Failure;

/// A body of JSON.
pub(super) struct Json<T>(pub(super) T);

/// What comes after the `?`.
pub(super) struct Query<T>(pub(super) T);

/// The part of the path that is called `id`.
pub(super) struct Id<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if !is_json(&request) {
            let told = "the body must be JSON: `Content-Type: application/json`";
            return Err(Failure::new(ErrorCode::UnsupportedMediaType, told));
        }
        let body = Bytes::from_request(request, state).await.map_err(unread)?;
        // Leaving all of it out is a way to ask for nothing in particular.
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
    pinfold_api::object(tracked).map_err(|error| named(&track.path(), &error))
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

fn unread(rejection: BytesRejection) -> Failure {
    let told = rejection.to_string();
    if rejection.into_response().status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Failure::new(ErrorCode::TooLarge, "the body is larger than this server takes");
    }
    Failure::bad_input("body", told)
}

/// Where in the document it is. An unknown field has no place yet; its message has its name.
fn named(path: &Path, error: &impl Display) -> Failure {
    let (path, told) = (path.to_string(), error.to_string());
    let unknown = told.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let missing = told.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
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
    Failure::bad_input(&field, told)
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let text = parts.uri.query().unwrap_or_default();
        let query = serde_html_form::Deserializer::from_bytes(text.as_bytes());
        let read = serde_path_to_error::deserialize(query);
        read.map(Self).map_err(|error| named(error.path(), error.inner()))
    }
}

impl<S: Send + Sync, T> FromRequestParts<S> for Id<T>
where
    T: FromStr,
    T::Err: Display,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        part_of_path(parts, state, "id")
            .await?
            .parse()
            .map(Self)
            .map_err(|error| Failure::bad_input("id", error))
    }
}

/// A part of the path by its name, decoded.
pub(super) async fn part_of_path<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &'static str,
) -> Result<String, Failure> {
    let given = RawPathParams::from_request_parts(parts, state).await;
    let given = given.map_err(|error| Failure::bad_input(name, error))?;
    let found = given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| Failure::internal(format!("the route has no `{name}`")))
}

/// A whole number. Events and bytes are counted in 63 bits, as the description says; nothing is no number.
pub(super) fn number<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = text.parse::<i64>().ok().and_then(|number| T::try_from(number).ok());
    number.map(Some).ok_or_else(|| D::Error::custom(format!("`{text}` is no number that can be used here")))
}

/// `1` and `true` are yes.
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
    fn what_cannot_be_used_is_named_by_its_field() {
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
