//! A server with real sandboxes under a clock that can be moved: some are at work, some are stuck in each of the four
//! ways to be, all are older than anything allows, and the first turn of cleanup is yet to come.

mod aged;
mod alerts;
mod clock;
mod crowd;
mod expected;
mod ground;
mod herd;
mod verdict;

pub use alerts::{About, Alerts};
pub use clock::MovedClock;
pub use crowd::{Crowd, Size, gather};
pub use ground::{Ground, Pace, Served};
