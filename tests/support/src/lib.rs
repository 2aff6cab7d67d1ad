//! Fixtures that several test packages and benchmarks share: reports of skipped tests, waits with a deadline, runs as an
//! unprivileged user, real providers, and an HTTP connection.
//!
//! `tests/checker` does not use it: the checker shares no code with what it checks.

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "linux")]
pub mod linux;
mod skip;
mod unprivileged;
mod wait;

pub use skip::{skip, skip_without_strace};
pub use unprivileged::{UNPRIVILEGED_UID, UnprivilegedCopies};
pub use wait::{until, until_async, until_some, within};
