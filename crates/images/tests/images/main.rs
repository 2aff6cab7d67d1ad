//! Import and removal of images with the real unpacker: supported formats, hostile archives, crashes, and the same as
//! an unprivileged user. Runs as root, which can also act as another user.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests measure real time")]

mod archive;
mod bundles;
mod crashes;
mod fixture;
mod hostile;
mod limits;
mod mutations;
mod overlays;
mod removal;
mod sources;
mod unprivileged;
