//! The confinement tried from inside: every door by an attempt that is real, what is left of capabilities and
//! limits, what the keeper keeps to itself, and the ordinary programs that must not notice.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which print their tables")]

mod attempts;
mod doors;
mod keeper;
mod kernel;
mod posture;
mod programs;
mod stage;
