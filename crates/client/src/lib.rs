//! The HTTP API of Pinfold from Rust. Start reading at [`Client`].

mod agents;
mod alerts;
mod care;
mod cleanup;
mod client;
mod error;
mod events;
mod files;
mod found;
mod metrics;
mod pages;
mod queue;
mod trust;
mod upload;

pub use client::{Answered, Client, encoded};
pub use error::ClientError;
pub use events::Events;
pub use files::FileContent;
pub use found::{FindError, ServerFile, process_started};
pub use upload::{Upload, Uploader, upload};
