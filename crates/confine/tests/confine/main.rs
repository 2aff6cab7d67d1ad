//! Tests of the confinement from inside: a real attempt on every denied system call, the remaining capabilities and
//! limits, what the keeper hides from its children, and ordinary programs, which must run unaffected.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which print their tables")]

mod attempts;
mod fixture;
mod keeper;
mod posture;
mod programs;
mod raw_syscalls;
mod syscall_groups;
