//! Logs of sandboxes, with the real store and the keeper's log writer: `fixture.rs` drives a sandbox, every other file
//! tests one subject.

#![allow(clippy::unwrap_used, reason = "tests")]

mod artifacts;
mod concurrency;
mod crashes;
mod faults;
mod fixture;
mod moving;
mod reading;
mod retention;
mod stale_logs;
