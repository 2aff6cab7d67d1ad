//! Exhaustive model checker of the lifecycle.
//!
//! It explores every reachable state of small models with the real functions of `pinfold-lifecycle`: one store, one or
//! two nodes that crash and pause, a provider that fails or answers late, twice or never, and users who send any request
//! at any time. Every state is checked against the [`Invariant`]s.
//!
//! ```text
//!            ┌────────────────────── World ──────────────────────┐
//!   Action ─►│ rows (store) · nodes · running effects · instances │─► next World ─► all invariants
//!            └───────────────────────────────────────────────────┘
//! ```
//!
//! - [`World`]: one state. [`Action`]: one step between two states.
//! - [`SmallModel`] and [`models`]: the bounded models that are explored.
//! - [`Invariant`]: what must hold in every state and of every transition.
//! - [`mutants`]: removes one guard at a time, to show that the checker notices.
//! - [`explore`]: runs the checker and returns its [`Findings`].

mod actions;
mod canonical;
mod commit;
mod invariants;
mod model;
pub mod models;
pub mod mutants;
mod perform;
mod provider;
mod report;
mod world;

pub use actions::Action;
pub use invariants::Invariant;
pub use model::{Bounds, ExternalRequest, Flaw, SmallModel};
pub use report::{Findings, explore, find_violation};
pub use world::World;
