//! What a sandbox and its executions may become next, and what must be done to get them there.
//! Pure: no IO, no clock, no log. Time arrives as a value, and what must be done leaves as a value.
//! Start reading at [`step`] (facts, which cannot be refused) and [`ask`] (wishes, which can).

mod admission;
mod adoption;
mod cause;
mod cleanup;
mod due;
mod duty;
mod event;
mod evidence;
mod execution;
mod executions;
mod guard;
mod id;
mod incarnation;
pub mod invariants;
mod judge;
mod lease;
mod luggage;
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
mod room;
mod sandbox;
mod spec;
mod status;
mod time;
mod turn;
mod used;

pub use admission::{AdmissionLimits, Demand, Scarcity, Totals, admit, admit_to_pool};
pub use cause::Cause;
pub use cleanup::{Activity, CleanupRules, Stuck, Subject, is_told_by_a_look, stuck};
pub use duty::{Effect, EffectKind, Fence, PendingEffect};
pub use event::{Event, step};
pub use evidence::{BodySeen, Evidence, ExecutionSeen, ProbeFailure, Probed, Seen, StopOutcome};
pub use execution::{Execution, ExecutionKind, ExecutionLimits, ExecutionState, Outcome, OutcomeKind};
pub use guard::{Guard, Guards};
pub use id::{ExecutionId, IdError, NodeId, PlaceId, SandboxId, TokenId};
pub use lease::{Check, CheckKind, Generation, Health, Lease, Live, StartStep, StopFailure, Verdict};
pub use luggage::{FileContent, FileToPut, Luggage};
pub use policy::Policy;
pub use pool::{Extension, Shape, create_pooled};
pub use pressure::{Idle, Level, Resource, Threshold, relieve};
pub use queue::{Claimant, Held, MOST_OVERTAKINGS, Taken, Turnout, could_ever_fit, turnout};
pub use quota::{LabelQuotas, Quota, QuotaKey, QuotaRules};
pub use receipt::{Attestation, Finding, Receipt, ReceiptCheck};
pub use record::{Fact, Record};
pub use recovery::{Attempt, AttemptEnd, Recovery};
pub use request::{Refusal, Request, request};
pub use room::{Cleared, HostRoom, NoRoom, Reserve, Short};
pub use sandbox::{Life, Sandbox};
pub use spec::{Asker, Command, Limits, Spec};
pub use status::{State, Status, final_state, status};
pub use time::Timestamp;
pub use turn::{Context, Transition, create, lease_orphan, quarantine_unreadable};
pub use used::Used;

#[cfg(test)]
mod tests;
