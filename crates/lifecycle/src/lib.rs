//! The lifecycle of sandboxes and their executions, as pure functions.
//!
//! This crate decides what a sandbox becomes next and which physical work must follow. It does no IO, reads no clock and
//! writes no log: time arrives as a value in [`Context`], and work leaves as a list of [`Effect`]s. The engine loads a
//! row, calls one function of this crate, commits the [`Transition`] in one transaction, and then runs the effects.
//!
//! ```text
//!             Request (can be refused)     Event (a fact, cannot be refused)
//!                       │                        ▲
//!                       ▼                        │ result, with the effect's fence
//!   Sandbox row ──► request() / step()           │
//!        ▲              │                        │
//!        │ commit       ▼                        │
//!        └───────── Transition ──── effects ──► provider
//!                   (sandbox, finished executions, history records, effects)
//! ```
//!
//! # Main types
//!
//! - [`Sandbox`]: the stored row. [`Life`] says whether the sandbox is still wanted; [`Lease`] says which instance may
//!   exist physically; [`Execution`]s are the commands that have not ended. The two diagrams of states stand beside
//!   [`Lease`] and [`ExecutionState`].
//! - [`Request`] and [`request()`]: what users, operators and engines want. A request can be refused with a [`Refusal`];
//!   repeating one is safe.
//! - [`Event`] and [`step`]: results of effects, and the passing of time. An unexpected event is recorded and changes
//!   nothing.
//! - [`PendingEffect`] and [`Fence`]: work under way. A result counts only if it carries the fence that the state awaits,
//!   so results that arrive late change nothing.
//! - [`Evidence`] and [`Receipt`]: what an observation found, and what a stop proved. Only evidence of absence frees a
//!   lease.
//! - [`admit`], [`decide_admissions`], [`QuotaRules`], [`HostHeadroom`]: whether one more sandbox may be created.
//! - [`status`]: the state that users see. It is derived from the row and the time, never stored.
//! - [`invariants`]: the rules that hold of every row and every transition. The model checker, the simulator and the
//!   tests check them.
//!
//! # Crashes
//!
//! The state that waits for an effect contains its [`PendingEffect`]. After a crash [`Sandbox::effects`] lists the
//! unfinished effects again, and another node takes them over with [`Request::Adopt`]. Every effect may run twice.

mod admission;
mod adoption;
mod cause;
mod checks;
mod cleanup;
mod deadlines;
mod effect;
mod event;
mod evidence;
mod execution;
mod execution_files;
mod executions;
mod files;
mod guard;
mod host_headroom;
mod id;
mod instance;
pub mod invariants;
mod lease;
mod policy;
mod pool;
mod pressure;
pub mod profile;
mod queue;
mod quota;
mod receipt;
mod record;
mod recovery;
mod request;
mod resource_usage;
mod sandbox;
mod spec;
mod status;
mod time;
mod transition;

pub use admission::{AdmissionLimits, AdmissionRefusal, Demand, Totals, admit, admit_to_pool};
pub use cause::Cause;
pub use cleanup::{Activity, CleanupCandidate, CleanupRules, Stuck, needs_observation, stuck};
pub use effect::{Effect, EffectKind, Fence, PendingEffect};
pub use event::{Event, step};
pub use evidence::{
    Evidence, ExecutionObservation, InstanceObservation, ProbeFailure, ProbeResult, ProcessObservation,
    StopOutcome,
};
pub use execution::{Execution, ExecutionKind, ExecutionLimits, ExecutionState, Outcome, OutcomeKind};
pub use execution_files::{ExecutionFiles, FileContent, FileTransfers, InputFile};
pub use guard::{Guard, Guards};
pub use host_headroom::{HostHeadroom, HostReserve, HostResource, HostShortage, StaleDataCleanup};
pub use id::{ExecutionId, IdError, NodeId, QueueId, SandboxId, TokenId};
pub use lease::{Check, CheckKind, Generation, Health, Lease, Live, StartStep, StopFailure, Verdict};
pub use policy::Policy;
pub use pool::{Extension, Shape, create_pooled};
pub use pressure::{IdleSandbox, Resource, ResourceLevel, Threshold, select_evictions};
pub use queue::{
    AdmissionDecision, AllocatedResources, MAX_OVERTAKES, QueuedRequest, WaitReason, could_ever_fit,
    decide_admissions,
};
pub use quota::{LabelQuotas, Quota, QuotaKey, QuotaRules};
pub use receipt::{Attestation, Finding, Receipt, ReceiptCheck};
pub use record::{Fact, Record};
pub use recovery::{Attempt, AttemptEnd, Recovery};
pub use request::{Refusal, Request, request};
pub use resource_usage::ResourceUsage;
pub use sandbox::{Life, Sandbox};
pub use spec::{Command, Limits, Requester, Spec};
pub use status::{State, Status, final_state, status};
pub use time::Timestamp;
pub use transition::{Context, Transition, create, lease_orphan, quarantine_unreadable};

#[cfg(test)]
mod tests;
