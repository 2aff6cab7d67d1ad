//! A real server with real sandboxes, asked over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod access;
mod bad_input;
mod care;
mod events;
mod executions;
mod files;
mod ground;
mod life;
mod listing;
mod origins;
mod streams;
mod terminal;
