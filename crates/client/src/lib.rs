//! The HTTP API of Pinfold from Rust. Start reading at [`Client`].

mod agents;
mod client;
mod error;
mod events;
mod found;
mod trust;

pub use client::{Answered, Client, encoded};
pub use error::ClientError;
pub use events::Events;
pub use found::{FindError, ServerFile, process_started};
