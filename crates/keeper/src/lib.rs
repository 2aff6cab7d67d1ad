//! Process 1 of a Linux sandbox: starts, watches and ends what runs in it, by itself if it must.
//! The nursery ([`nursery`]) is a small process that gives birth to keepers; a keeper builds its own world
//! ([`world`]) and then serves its control socket ([`wire`]) until its end.

mod breach;
pub mod cell;
pub mod confine;
mod console;
pub mod disk;
mod execution;
pub mod files;
mod input;
mod keeper;
mod kernel;
pub mod log;
mod loop_device;
mod marked;
pub mod nursery;
mod peers;
mod plan;
pub mod precedence;
mod probe;
pub mod process;
mod sealed;
mod tree;
pub mod used;
#[cfg(feature = "weakened")]
pub mod weakness;
pub mod wire;
pub mod world;

/// Whether guards can be taken out of this build. A program that runs anybody's sandboxes must not be one.
pub const IS_WEAKENED: bool = cfg!(feature = "weakened");
