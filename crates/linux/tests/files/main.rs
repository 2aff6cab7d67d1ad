//! Files inside a real sandbox, asked for from outside, and what code inside does about it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod hostile;
mod plain;
mod stage;
