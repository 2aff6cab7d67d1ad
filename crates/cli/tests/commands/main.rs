//! The commands as users type them, with real sandboxes: as root and as an ordinary user.

#![allow(clippy::unwrap_used, reason = "tests")]

mod alert;
mod backends;
mod bad_input;
mod cleanup;
mod config;
mod console;
mod cp;
mod create;
mod data_directory;
mod demo;
mod doctor;
mod doctor_diagnosis;
mod environment;
mod fixture;
mod guides;
mod host_image;
mod image;
mod inspection;
mod limits;
mod ps;
mod queue;
mod quick_start;
mod refusals;
mod remote;
mod run;
mod screen;
mod serve;
mod server_restart;
mod stop;
mod store_failures;
mod telemetry;
mod tls;
mod two_servers;
