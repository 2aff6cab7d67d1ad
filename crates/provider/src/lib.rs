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
//! - [`OutputLogs`]: the output of executions, also after the end of their instance.
//! - [`Inspect`]: processes and probes of an instance, for a person who asks what is wrong with it.
//! - `conformance` (feature): the test suite that every provider passes.
//! - `fake` (feature): a provider in memory, with injected faults.
//! - `layer` (feature): `ProviderLayer`, a provider around another one, for tests.
//!
//! Start reading at [`Provider`].

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "fake")]
pub mod fake;
mod files;
mod inspect;
mod instance;
#[cfg(feature = "layer")]
mod layer;
mod output;
mod process_io;
mod provider;
mod usage;

pub use files::{
    ChangeKind, ContentStream, DirectoryEntry, FileChange, FileChanges, FileContent, FileError, FileKind,
    Files, InMemoryContent, Listing, Metadata,
};
pub use inspect::{Inspect, InstanceFault, ProbeReport, ProcessInfo, ProcessState};
pub use instance::{Discovered, Found, InstanceId, StartPermit};
#[cfg(feature = "layer")]
pub use layer::{ProviderCall, ProviderLayer};
pub use output::{
    LockOutcome, LockedOutput, OutputChunk, OutputEntry, OutputGap, OutputLogs, OutputReader, OutputStream,
    OutputWatch, ReadPosition, StoredOutput,
};
pub use process_io::{ResizeError, SignalError, StdinError, StdinWrite, TerminalSize, WriteResult};
pub use provider::{
    DiscoverError, ExecError, ExecRequest, InstanceError, KillOutcome, Provider, StartError, StartRequest,
    Suspect, WaitError,
};
pub use usage::{Capacity, Usage};
