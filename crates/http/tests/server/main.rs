//! End-to-end tests of a real server with real sandboxes, over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod access;
mod admin;
mod admission;
mod agents;
mod alerts;
mod artifacts;
mod bad_input;
mod busy_mount;
mod captured_log;
mod cleanup;
mod connections;
mod disconnected_callers;
mod events;
mod executions;
mod files;
mod fixture;
mod http_receiver;
mod idempotency;
mod integration;
mod lifecycle;
mod listing;
mod logs;
mod metrics;
mod on_linux;
mod origins;
mod pitfalls;
mod proof;
mod queue;
mod quotas;
mod resources;
mod runs;
mod streams;
mod telemetry;
mod terminal;
