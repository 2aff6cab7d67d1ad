//! Every request is accounted for: an id, a line in the log, and an answer even where the server panics.

use std::any::Any;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pinfold_api::REQUEST_ID;
use pinfold_lifecycle::TokenId;
use tokio::time::Instant;

use super::answer::Hidden;
use crate::Failure;

/// Who asked, for the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) token: TokenId,
}

const LONGEST_ID: usize = 64;

/// The id of a request, for those who answer it.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

pub(super) async fn account_for(mut request: Request, next: Next) -> Response {
    let id = given_id(&request).unwrap_or_else(fresh_id);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    request.extensions_mut().insert(RequestId(id.to_str().unwrap_or_default().to_owned()));
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, id.clone());
    let ms = began.elapsed().as_secs_f64() * 1_000.0;
    let (id, status) = (id.to_str().unwrap_or_default(), response.status().as_u16());
    let token = response.extensions().get::<Told>().map(|told| told.token.to_string());
    let token = token.as_deref().unwrap_or("-");
    match response.extensions().get::<Hidden>() {
        Some(Hidden(why)) => {
            tracing::error!(request_id = id, %method, path, status, ms, token_id = token, why, "request failed");
        }
        None => tracing::info!(request_id = id, %method, path, status, ms, token_id = token, "request"),
    }
    response
}

/// Whoever asks may name the request, if the name can be printed.
fn given_id(request: &Request) -> Option<HeaderValue> {
    let given = request.headers().get(REQUEST_ID)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let fits = (1..=LONGEST_ID).contains(&given.len()) && given.as_bytes().iter().all(is_plain);
    fits.then(|| given.clone())
}

fn fresh_id() -> HeaderValue {
    let id = format!("req_{}", uuid::Uuid::now_v7().simple());
    HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("req_unknown"))
}

#[expect(clippy::needless_pass_by_value, reason = "what the layer hands over")]
pub(super) fn after_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
    Failure::internal(said(panic.as_ref())).into_response()
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a word".to_owned()))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::middleware::from_fn;
    use axum::routing::get;
    use pinfold_api::{ErrorBody, ErrorCode};
    use tower::ServiceExt;
    use tower_http::catch_panic::CatchPanicLayer;

    use super::*;

    async fn panics() {
        panic!("a secret");
    }

    #[tokio::test]
    async fn a_panic_is_answered_with_an_id_and_nothing_of_what_it_said() {
        let router = Router::new()
            .route("/", get(panics))
            .layer(CatchPanicLayer::custom(after_panic))
            .layer(from_fn(account_for));

        let response = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();

        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key(REQUEST_ID));
        assert!(response.extensions().get::<Hidden>().unwrap().0.contains("a secret"));
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        assert!(!String::from_utf8_lossy(&body).contains("secret"));
        assert_eq!(serde_json::from_slice::<ErrorBody>(&body).unwrap().error.code, ErrorCode::Internal);
    }
}
