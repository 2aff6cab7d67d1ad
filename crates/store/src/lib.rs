//! The store: durable rows and the transactions on them, as traits, with their row types and errors.
//!
//! [`Store`] holds sandboxes, executions, effects, history and nodes; it is what the engine uses. Beside it stand
//! [`Queue`], [`TokenStore`], [`AuditLog`], [`JobSchedule`], [`MetricStore`] and [`AlertStore`]. One database implements
//! all of them ([`Stores`]; `pinfold-store-sqlite` is one). The conformance suite in `conformance.rs` tests any implementation.
//!
//! ```text
//!            load                       commit (Change at version v)
//!   engine <------ Row at version v ------------------------------->  one transaction:
//!     ^                                                               check version and generation,
//!     |            Conflict: load again                               state, executions, effects,
//!     +-------------------------------------------------------------  history, quotas, totals
//!     |            Ok(new version): durable on disk
//!     +-------------------------------------------------------------
//! ```
//!
//! # Ordering
//!
//! Versions of rows ([`Version`]) and numbers of history records ([`Seq`]) come from one counter and grow in the order
//! in which transactions commit. A reader that has seen all changes up to a number and reads on after it misses nothing.

mod alerts;
mod audit_log;
mod change;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "layer")]
mod layer;
mod metrics;
mod node;
mod queue;
mod rows;
mod schedule;
mod store;
mod stores;
mod tokens;

pub use alerts::{
    AlertChange, AlertRecord, AlertRow, AlertStore, Delivery, DeliveryClaim, DeliveryResult, DeliveryState,
    NewAlertRecord, NewDelivery,
};
pub use audit_log::{AuditLog, AuditRecord};
pub use change::{AdmissionTerms, Change, Created, IdempotencyKey, NewExecution, NewSandbox, PoolClaim};
pub use error::{ClaimError, CommitError, CreateError, EnqueueError, FillError, OpenError, StoreError};
#[cfg(feature = "layer")]
pub use layer::{CallKind, StoreCall, StoreLayer};
pub use metrics::{
    CountBatch, CounterValues, Gauge, MINUTE_MS, MetricPoint, MetricStore, QUARTER_HOUR_MS, floor_to_step,
};
pub use node::{Node, RegisteredNode};
pub use queue::{NewQueueEntry, Queue, QueueOutcome, QueuePosition, QueueRow};
pub use rows::{
    Changes, DueSandbox, HistoryRow, Pruned, Retention, Row, SandboxFilter, Seq, StoredExecution,
    StoredSandbox, UnreadableRow, Version,
};
pub use schedule::{
    ClaimRun, ItemFailure, JobRun, JobSchedule, MAX_IDS_PER_RUN, RUNS_KEPT, RunClaim, RunEnd, RunHolder,
    RunId, RunOutcome, RunReport, ScheduledJob, UnscheduledRun,
};
pub use store::Store;
pub use stores::Stores;
pub use tokens::{Role, Token, TokenStore};
