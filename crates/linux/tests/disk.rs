//! Storage of sandboxes: where files go, limits on them, what is reported, and their removal.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "disk/crashes.rs"]
mod crashes;
#[path = "disk/fixture.rs"]
mod fixture;
#[path = "disk/layers.rs"]
mod layers;
#[path = "disk/limits.rs"]
mod limits;
#[path = "disk/owners.rs"]
mod owners;
#[path = "disk/removal.rs"]
mod removal;
