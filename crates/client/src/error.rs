//! What can go wrong between here and the server, and what the server says.

use std::path::PathBuf;

use pinfold_api::ErrorDetail;

pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{url}` is no address of a server; write http://HOST:PORT or https://HOST:PORT")]
    BadUrl { url: String },
    #[error("could not read the authorities in `{}`; they have to be certificates in PEM", path.display())]
    Authorities { path: PathBuf, source: Source },
    #[error("could not ask the server")]
    Ask(#[source] Source),
    #[error("the answer broke off")]
    BrokeOff(#[source] Source),
    #[error("the answer cannot be understood")]
    Misunderstood(#[source] Source),
    /// The server answered, and refused.
    #[error("{}", detail.message)]
    Refused { status: u16, detail: Box<ErrorDetail> },
}
