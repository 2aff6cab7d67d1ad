//! The log of a sandbox over the real store and the keeper's own writer: `stage.rs` sets the scene, every other file is
//! one theme.

#![allow(clippy::unwrap_used, reason = "tests")]

mod artifacts;
mod clearing;
mod crashes;
mod faults;
mod keeping;
mod moving;
mod racing;
mod reading;
mod stage;
