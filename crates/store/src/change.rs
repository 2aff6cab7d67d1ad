//! What the engine asks to be written.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Command, ExecutionId, PlaceId, Policy, Quota, Spec, Timestamp, Transition,
};

use crate::Version;

/// A sandbox that does not exist yet.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    /// What [`pinfold_lifecycle::create`] or its siblings made.
    pub transition: Transition,
    pub spec: Arc<Spec>,
    pub policy: Arc<Policy>,
    /// Asking again with the same key gives the same sandbox.
    pub key: Option<IdempotencyKey>,
    /// Commands of the executions that were asked for in the same breath.
    pub commands: Vec<NewExecution>,
    pub bid: Bid,
}

/// What is looked at beside the totals before somebody is let in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bid {
    /// Those that it has to keep.
    pub quotas: Vec<Quota>,
    /// Its place in the queue, which it leaves when it is let in. None: it comes after all who wait.
    pub place: Option<PlaceId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: String,
    /// A digest of the request: the same key with another request is refused.
    pub request: String,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    New(Version),
    /// The key was used before, for the same request.
    Known(pinfold_lifecycle::SandboxId),
}

/// A body that waits in the pool becomes the sandbox of whoever asks. All of it is written, or nothing.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What the lifecycle made of [`pinfold_lifecycle::Ask::Claim`].
    pub change: Change,
    /// In the place of those it waited with.
    pub spec: Arc<Spec>,
    pub policy: Arc<Policy>,
    pub key: Option<IdempotencyKey>,
    pub bid: Bid,
    pub limits: AdmissionLimits,
}

/// The next state of a sandbox that was loaded at `version`. A sandbox that is to be forgotten
/// ([`pinfold_lifecycle::Sandbox::is_to_be_forgotten`]) is deleted by this change, its history kept.
#[derive(Debug, Clone)]
pub struct Change {
    pub transition: Transition,
    pub version: Version,
    /// Commands of executions that are new in this transition.
    pub commands: Vec<NewExecution>,
}

#[derive(Debug, Clone)]
pub struct NewExecution {
    pub id: ExecutionId,
    pub command: Arc<Command>,
}
