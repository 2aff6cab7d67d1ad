//! The seam to the places where sandboxes live: what a provider must be able to do, and what its answers mean.
//! Start reading at [`Provider`].

mod body;
#[cfg(feature = "conformance")]
pub mod conformance;
mod dialogue;
#[cfg(feature = "fake")]
pub mod fake;
mod files;
mod provider;
mod usage;

pub use body::{Discovered, Found, InstanceId, StartPermit};
pub use dialogue::{Fed, Feed, FeedError, ResizeError, SignalError, TerminalSize};
pub use files::{
    Change, ChangeKind, Changes, Content, Entry, FileError, FileKind, Files, Listing, Metadata, Pieces, Whole,
};
pub use provider::{
    AskBodyError, DiscoverError, Exec, ExecError, Killed, Provider, Start, StartError, WaitError,
};
pub use usage::{Capacity, Usage};
