//! The commands as users type them, with real sandboxes: as root and as an ordinary user.

#![allow(clippy::unwrap_used, reason = "tests")]

mod alert;
mod cleanup;
mod config;
mod console;
mod cp;
mod create;
mod demo;
mod doctor;
mod ground;
mod guides;
mod image;
mod input;
mod limits;
mod looks;
mod planes;
mod ps;
mod queue;
mod quick_start;
mod remote;
mod run;
mod screen;
mod serve;
mod stop;
mod takeover;
mod telemetry;
mod tls;
mod together;
mod troubles;
