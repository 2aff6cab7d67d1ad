//! The interface between the engine and the hosts that run sandboxes.
//!
//! ```text
//!   engine --> Provider --> keeper (process 1) --> executions
//!                 |
//!                 +-- start: marker -> StartPermit -> processes
//!                 +-- observe, discover: Evidence, Discovered
//!                 +-- stop: StopOutcome with a receipt
//! ```
//!
//! Main types:
//! - [`Provider`]: what a provider must do, and which calls may be repeated.
//! - [`InstanceId`]: one instance of a sandbox.
//! - [`StartPermit`]: the check that keeps a late launch from outliving a stop.
//! - [`Files`]: file access inside an instance.
//! - `conformance` (feature): the test suite that every provider passes.
//! - `fake` (feature): a provider in memory, with injected faults.
//!
//! Start reading at [`Provider`].

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "fake")]
pub mod fake;
mod files;
mod instance;
mod process_io;
mod provider;
mod usage;

pub use files::{
    ChangeKind, ContentStream, DirectoryEntry, FileChange, FileChanges, FileContent, FileError, FileKind,
    Files, InMemoryContent, Listing, Metadata,
};
pub use instance::{Discovered, Found, InstanceId, StartPermit};
pub use process_io::{ResizeError, SignalError, StdinError, StdinWrite, TerminalSize, WriteResult};
pub use provider::{
    DiscoverError, ExecError, ExecRequest, InstanceError, KillOutcome, Provider, StartError, StartRequest,
    WaitError,
};
pub use usage::{Capacity, Usage};
