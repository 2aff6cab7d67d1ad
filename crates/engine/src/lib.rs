//! The engine drives sandboxes through their lifecycle: it loads a row, lets the pure lifecycle decide, commits the
//! result and only then acts on it. There is no other way to change state.
//!
//! ```text
//!   request (HTTP, CLI)      deadline loop      result of an effect
//!            \                     |                    /  ^
//!             v                    v                   v   |
//!          apply:   load row -> decide (lifecycle) -> commit|
//!                                   | conflict: again  |    |
//!                                   +------------------+    |
//!                                                      v    |
//!                               spawn one task per effect   |
//!                                                      |    |
//!                                        provider call +----+
//! ```
//!
//! Main types:
//! - [`Engine`]: one node. Its requests are [`CreateRequest`], [`RunRequest`] and [`QueueRequest`].
//! - [`Parts`]: the store, provider, artifact collector, clock, ids and [`NodeLiveness`] an engine works with.
//! - [`ArtifactCollector`]: stores the artifacts of executions that have ended.
//! - [`Cleaner`]: scheduled and requested cleanup of stuck sandboxes, reported as a [`CleanupReport`].
//! - [`Observer`] and [`CleanupObserver`]: hooks for metrics, tracing and the audit log.
//!
//! Background loops, one task each: deadlines (`timer.rs`), heartbeats and adoption (`nodes.rs`), reconciliation
//! (`reconcile.rs`), retention (`retention.rs`), the warm pool (`pool.rs`) and the admission queue (`queue.rs`).
//!
//! Start reading at [`Engine`], then `apply.rs`.

mod admit_error;
mod agent_run;
mod apply;
mod change_notifier;
mod cleanup;
mod clock;
mod concurrency_limits;
mod config;
mod consistency;
mod create;
mod effect_tasks;
mod engine;
mod execution_files;
mod host_capacity;
mod ids;
mod log_message;
mod node_liveness;
mod nodes;
mod observer;
mod perform;
mod pool;
mod prefetch;
mod queue;
mod reconcile;
mod retention;
mod row_cache;
mod schedule;
mod shutdown;
mod stale;
mod timer;

pub use admit_error::{AdmitError, QueueWaitEnded};
pub use agent_run::AgentRun;
pub use apply::ApplyError;
pub use change_notifier::{ChangeListener, WaitError, WaitOutcome};
pub use cleanup::{
    Cleaner, CleanupConfig, CleanupError, CleanupLayer, CleanupMode, CleanupObserver, CleanupReason,
    CleanupReport, EndedSandbox, FailedSandbox, FoundSandbox, KeepReason, KeptSandbox,
};
pub use clock::{AnchorError, Clock, HostClock};
pub use config::Config;
pub use consistency::StatusMismatch;
pub use create::{CreateRequest, FirstExecution, RunError, RunRequest};
pub use engine::{Engine, EngineStartError, Parts, StopProgress, UsageError};
pub use execution_files::{ArtifactCollector, DiscardArtifacts, file_path};
pub use ids::{Ids, RandomIds};
pub use node_liveness::{HostLiveness, HostLivenessError, Liveness, NodeLiveness};
pub use observer::Observer;
pub use pool::PoolPlan;
pub use queue::QueueRequest;
pub use reconcile::{ReconcileError, ReconcileMode, ReconcileReport};
pub use schedule::{BadSchedule, Schedule};
pub use shutdown::OnExit;
pub use stale::StaleData;
