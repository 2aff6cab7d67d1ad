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
mod disconnected_callers;
mod events;
mod executions;
mod files;
mod fixture;
mod full_disk;
mod http_receiver;
mod integration;
mod killed_server;
mod lifecycle;
mod listing;
mod logs;
mod metrics;
mod origins;
mod pitfalls;
mod queue;
mod quotas;
mod resources;
mod runbook;
mod runs;
mod streams;
mod telemetry;
mod terminal;
