//! Ends requests whose body stalls. A body that makes progress may take as long as its route allows.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use pinfold_api::ErrorCode;
use tokio::time::Sleep;

use super::error_response::ErrorResponse;
use pinfold_service::Failure;

/// Fails a body that brings nothing for `within`, and answers 408 whatever the handler made of that.
pub(super) async fn limit_stalls(State(within): State<Duration>, request: Request, next: Next) -> Response {
    let has_stalled = Arc::new(AtomicBool::new(false));
    let flag = has_stalled.clone();
    let timed = |body| Body::new(TimedBody { body, within, quiet: None, has_stalled: flag });
    let response = next.run(request.map(timed)).await;
    if !has_stalled.load(Ordering::Relaxed) {
        return response;
    }
    let message = format!("the request body stalled for {} s", within.as_secs_f64());
    ErrorResponse(Failure::new(ErrorCode::BodyStalled, message).retry_after_ms(1_000)).into_response()
}

#[derive(Debug, thiserror::Error)]
#[error("the body stalled")]
struct Stalled;

struct TimedBody {
    body: Body,
    within: Duration,
    /// Runs while the body is waited for.
    quiet: Option<Pin<Box<Sleep>>>,
    has_stalled: Arc<AtomicBool>,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self { body, within, quiet, has_stalled } = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            *quiet = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let quiet = quiet.get_or_insert_with(|| Box::pin(tokio::time::sleep(*within)));
        std::task::ready!(quiet.as_mut().poll(context));
        has_stalled.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(Stalled.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
