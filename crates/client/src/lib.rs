//! HTTP client for the Pinfold API.
//!
//! [`Client`] holds a server address and a token; each API call is one of its methods. Calls that the server may accept
//! before they are complete return a [`Completion`]. [`Events`] streams the output of an execution, [`Upload`] and
//! [`FileContent`] stream file content, and [`ServerFile`] finds the server of a data directory.
//!
//! ```text
//!   caller ── Client::method ──> HTTP(S) request ──> pinfold serve
//!          <── Completion::Done(T)     200, 201
//!          <── Completion::Pending(T)  202, still at work
//!          <── ClientError::Refused    4xx, 5xx with an error document
//! ```

mod admin;
mod agents;
mod alerts;
mod cleanup;
mod client;
mod error;
mod events;
mod files;
mod metrics;
mod pages;
mod proof;
mod queue;
mod server_file;
mod tls;
mod upload;

pub use client::{Client, Completion, encode_query_value};
pub use error::ClientError;
pub use events::Events;
pub use files::FileContent;
pub use server_file::{ServerFile, ServerFileError, process_started};
pub use upload::{Upload, Uploader, upload};
