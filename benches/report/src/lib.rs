//! What benchmarks have in common: the machine they ran on, figures of many runs, and whether a target is met.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

mod machine;
mod measurements;
mod verdict;

pub use machine::{cpu_time, cpu_time_of_all, describe, memory};
pub use measurements::{Measurements, milliseconds, now};
pub use verdict::{at_least, at_most};
