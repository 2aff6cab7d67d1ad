//! Tests of a server that only real sandboxes can pass. A run over the fake provider skips them.

mod broken_keepers;
pub(crate) mod full_disk;
mod killed_server;
mod runbook;
mod stop_time;
