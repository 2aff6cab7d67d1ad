//! Errors of requests: connection, certificate, decoding, and refusals by the server.

use std::path::PathBuf;

use pinfold_api::ErrorDetail;

pub(crate) type BoxedError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{url}` is not a server address; use http://HOST:PORT or https://HOST:PORT")]
    BadUrl { url: String },
    #[error("could not read certificate authorities from `{}`; PEM certificates are expected", path.display())]
    Authorities { path: PathBuf, source: BoxedError },
    /// Another program may have bound the server's port.
    #[error(
        "the program at {url} did not prove that it is the server of this token ({why}), so the token was not sent; \
         check which program listens there. A tunnel must use the server's port number, or https"
    )]
    Unproven { url: String, why: String },
    #[error("could not send the request to the server")]
    Request(#[source] BoxedError),
    #[error("the connection closed before the answer was complete")]
    Interrupted(#[source] BoxedError),
    #[error("could not decode the server's answer")]
    Decode(#[source] BoxedError),
    /// The server answered with an error.
    #[error("{}", detail.message)]
    Refused { status: u16, detail: Box<ErrorDetail> },
}
