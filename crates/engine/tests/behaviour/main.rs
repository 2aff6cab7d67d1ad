//! Behaviour of the engine, by example: the real engine over a store in memory, a fake provider and a virtual clock,
//! which advances only while every task waits. `fixture.rs` builds an engine; every other file tests one subject.

#![allow(clippy::unwrap_used, reason = "tests")]

mod admission;
mod cleanup;
mod cleanup_observer;
mod cleanup_schedule;
mod commits;
mod crashes;
mod disk_errors;
mod execution_files;
mod executions;
mod fakes;
mod fixture;
mod handovers;
mod host_capacity;
mod late_answers;
mod limits;
mod lost_instances;
mod pool;
mod pool_failures;
mod queue;
mod quotas;
mod reconcile;
mod recovery;
mod row_cache;
mod startup;
mod stops;
mod stuck_stops;
mod traps;
