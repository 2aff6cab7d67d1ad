//! Failures as HTTP responses: the one table from error codes to statuses.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pinfold_api::{ErrorBody, ErrorCode};

use pinfold_service::Failure;

/// Details for the log that the response does not contain.
#[derive(Debug, Clone)]
pub(super) struct LogDetail(pub(super) String);

pub(super) fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::BadInput => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden | ErrorCode::ForeignOrigin => StatusCode::FORBIDDEN,
        ErrorCode::UnknownRoute
        | ErrorCode::UnknownSandbox
        | ErrorCode::UnknownExecution
        | ErrorCode::UnknownToken
        | ErrorCode::UnknownFile
        | ErrorCode::UnknownArtifact
        | ErrorCode::UnknownImage
        | ErrorCode::UnknownAlert
        | ErrorCode::UnknownQueueEntry => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::WrongState | ErrorCode::NameTaken | ErrorCode::LeftQueue => StatusCode::CONFLICT,
        ErrorCode::BodyStalled => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::SandboxGone => StatusCode::GONE,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::StartFailed | ErrorCode::CannotBeDone | ErrorCode::KeyReused => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ErrorCode::SandboxBusy
        | ErrorCode::LimitReached
        | ErrorCode::ResourceLimitExceeded
        | ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::TimedOut
        | ErrorCode::Unavailable
        | ErrorCode::StoreUnwritable
        | ErrorCode::LowCapacity
        | ErrorCode::CapacityUnmeasurable
        | ErrorCode::FilesystemUnusable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A failure as the response of a handler.
#[derive(Debug)]
pub(super) struct ErrorResponse(pub(super) Failure);

impl From<Failure> for ErrorResponse {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let Self(Failure { detail, hidden }) = self;
        let (code, retry_after_ms) = (detail.code, detail.retry_after_ms);
        let mut response = (status_of(code), Json(ErrorBody { error: detail })).into_response();
        let headers = response.headers_mut();
        if let Some(ms) = retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
        }
        if code == ErrorCode::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // For the refusal log: several codes share a status.
        response.extensions_mut().insert(code);
        if let Some(hidden) = hidden {
            response.extensions_mut().insert(LogDetail(hidden));
        }
        response
    }
}
