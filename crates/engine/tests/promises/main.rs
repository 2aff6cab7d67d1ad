//! What the engine promises, one example each: the real engine over a store in memory, a world in memory and a
//! clock that only moves when everybody waits. `stage.rs` sets the scene; every other file is one theme.

#![allow(clippy::unwrap_used, reason = "tests")]

mod admission;
mod beginnings;
mod cleanup;
mod cleanup_turns;
mod cleanup_witness;
mod commits;
mod crashes;
mod executions;
mod handovers;
mod known_rows;
mod late_answers;
mod limits;
mod losses;
mod pool;
mod pool_troubles;
mod poor_disks;
mod queue;
mod quotas;
mod reconciling;
mod recovery;
mod room;
mod seams;
mod stage;
mod stops;
mod stuck_stops;
mod traps;
