//! What benchmarks have in common: the machine they ran on, figures of many runs, and whether a target is met.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

mod figures;
mod machine;
mod verdict;

pub use figures::{Figures, milliseconds, now};
pub use machine::{cpu_time, cpu_time_of_all, describe, memory};
pub use verdict::{at_least, at_most};
