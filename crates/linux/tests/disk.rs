//! What a sandbox writes: where it goes, how much of it there may be, what is said of it, and that it goes away.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "disk/crashes.rs"]
mod crashes;
#[path = "disk/layers.rs"]
mod layers;
#[path = "disk/limits.rs"]
mod limits;
#[path = "disk/owners.rs"]
mod owners;
#[path = "disk/removal.rs"]
mod removal;
#[path = "disk/stage.rs"]
mod stage;
