//! A real server with real sandboxes, asked over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod access;
mod admission;
mod agents;
mod alerts;
mod artifacts;
mod bad_input;
mod care;
mod cleanup;
mod events;
mod executions;
mod files;
mod full_disk;
mod ground;
mod hanging_up;
mod integration;
mod killed;
mod life;
mod listing;
mod logs;
mod metrics;
mod obstacle;
mod origins;
mod queue;
mod quotas;
mod resources;
mod runbook;
mod runs;
mod streams;
mod telemetry;
mod terminal;
mod told;
mod traps;
