//! A server with real sandboxes under a clock that can be shifted: some are working, some are stuck in each of
//! four ways, all are older than any limit, and the first scheduled cleanup is still to come.
//!
//! Main types: [`Fixture`] (the server's parts and clock), [`RunningServer`] (its HTTP side), [`Sandboxes`] (what
//! was created), [`ReportedAlerts`] (what the server alerts about).
//!
//! ```text
//! create_sandboxes --> Sandboxes::age --> wait_for_first_cleanup --> check_ended_exactly_the_stuck
//! (clock ahead)      (one scheduled run)        (receipts, causes, alerts)
//! ```

mod aged_provider;
mod alerts;
mod cleanup_checks;
mod clock;
mod create_sandbox;
mod expected_alerts;
mod fixture;
mod sandboxes;

pub use alerts::{AlertKey, ReportedAlerts};
pub use clock::ShiftedClock;
pub use fixture::{AlertInterval, Fixture, RunningServer};
pub use sandboxes::{Counts, Sandboxes, create_sandboxes};
