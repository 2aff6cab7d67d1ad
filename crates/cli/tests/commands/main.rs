//! The commands as users type them, with real sandboxes: as root and as an ordinary user.

#![allow(clippy::unwrap_used, reason = "tests")]

mod config;
mod console;
mod create;
mod doctor;
mod ground;
mod image;
mod input;
mod limits;
mod ps;
mod run;
mod serve;
mod stop;
mod takeover;
mod together;
