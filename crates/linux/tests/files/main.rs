//! Files inside a real sandbox, asked for from outside, and what code inside does about it.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../ground/config.rs"]
mod config;
mod hostile;
mod plain;
mod stage;
