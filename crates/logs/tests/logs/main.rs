//! The log of a sandbox over the real store and the keeper's own writer. `fixture.rs` drives the sandbox; every other
//! file covers one subject.

#![allow(clippy::unwrap_used, reason = "tests")]

mod artifacts;
mod crashes;
mod faults;
mod fixture;
mod moving;
mod racing;
mod reading;
mod retention;
mod stale_logs;
