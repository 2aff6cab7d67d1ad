//! Images as they come in and go, with the real unpacker: what can be imported, what hostile archives try, crashes,
//! and the same as an ordinary user. Runs as root, since only root can be both.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests measure real time")]

mod archive;
mod bundles;
mod crashes;
mod hostile;
mod limits;
mod mutations;
mod overlays;
mod removing;
mod rootless;
mod sources;
mod stage;
