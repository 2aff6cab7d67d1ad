//! The request log: an id and a log line for every request, and a response even when a handler panics.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pinfold_api::REQUEST_ID;
use pinfold_lifecycle::TokenId;
use tokio::time::Instant;

use super::error_response::{ErrorResponse, LogDetail};
use pinfold_service::Failure;

/// The status in logs when the client disconnected before the response, as nginx uses it.
pub(super) const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The token id for the log line, set by authentication. It travels with the request, since not every request gets a
/// response.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenSlot(Arc<OnceLock<TokenId>>);

impl TokenSlot {
    /// Set once.
    pub(super) fn set(&self, token: TokenId) {
        let _ = self.0.set(token);
    }
}

const LONGEST_ID: usize = 64;

/// The id of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

pub(super) async fn log_requests(mut request: Request, next: Next) -> Response {
    let id = given_id(&request).unwrap_or_else(fresh_id);
    let line = AccessLogLine {
        id: id.to_str().unwrap_or_default().to_owned(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        began: Instant::now(),
        token: TokenSlot::default(),
        is_written: false,
    };
    request.extensions_mut().insert(RequestId(line.id.clone()));
    request.extensions_mut().insert(line.token.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, id);
    line.answered(&response);
    response
}

/// The log line of a request. If the client disconnects it is dropped without a response, and written all the same.
struct AccessLogLine {
    id: String,
    method: Method,
    path: String,
    began: Instant,
    token: TokenSlot,
    is_written: bool,
}

impl AccessLogLine {
    fn answered(mut self, response: &Response) {
        let hidden = response.extensions().get::<LogDetail>().map(|LogDetail(why)| why.as_str());
        self.write(response.status().as_u16(), hidden);
        self.is_written = true;
    }

    fn write(&self, status: u16, hidden: Option<&str>) {
        let Self { id, method, path, began, token: TokenSlot(token), .. } = self;
        let ms = began.elapsed().as_secs_f64() * 1_000.0;
        let token = token.get().map_or_else(|| "-".to_owned(), TokenId::to_string);
        match hidden {
            Some(why) => {
                tracing::error!(request_id = id, %method, path, status, ms, token_id = token, why, "request failed");
            }
            None => tracing::info!(request_id = id, %method, path, status, ms, token_id = token, "request"),
        }
    }
}

impl Drop for AccessLogLine {
    fn drop(&mut self) {
        if !self.is_written {
            self.write(CLIENT_CLOSED_REQUEST, None);
        }
    }
}

/// The client's own request id, if it is printable.
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

#[expect(clippy::needless_pass_by_value, reason = "the signature of the panic handler")]
pub(super) fn after_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
    ErrorResponse(Failure::internal(panic_text(panic.as_ref()))).into_response()
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
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
    async fn a_panic_is_answered_with_an_id_and_without_its_message() {
        let router = Router::new()
            .route("/", get(panics))
            .layer(CatchPanicLayer::custom(after_panic))
            .layer(from_fn(log_requests));

        let response = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();

        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key(REQUEST_ID));
        assert!(response.extensions().get::<LogDetail>().unwrap().0.contains("a secret"));
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        assert!(!String::from_utf8_lossy(&body).contains("secret"));
        assert_eq!(serde_json::from_slice::<ErrorBody>(&body).unwrap().error.code, ErrorCode::Internal);
    }
}
