//! Files inside a real sandbox, accessed from outside, and attacks by code inside.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../fixture/config.rs"]
mod config;
mod fixture;
mod hostile;
mod plain;
