//! Walks through every state of the lifecycle in small worlds: the real functions, one store, one or two
//! control planes that crash and pause, a provider that fails, answers late, twice or never, and a user who
//! asks for anything at any time. Start reading at [`World`] and [`models`].

mod actions;
mod commit;
mod model;
pub mod models;
pub mod mutants;
mod perform;
mod promises;
mod provider;
mod report;
mod sameness;
mod world;

pub use actions::Action;
pub use model::{Bounds, Flaw, Small, Wish};
pub use promises::Promise;
pub use report::{Findings, explore, first_breach};
pub use world::World;
