//! The writes that the engine requests.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Command, ExecutionId, Policy, QueueId, Quota, Spec, Timestamp, Transition,
};

use crate::Version;

/// A sandbox that does not exist yet.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    /// Made by [`pinfold_lifecycle::create`] or its siblings.
    pub transition: Transition,
    pub spec: Arc<Spec>,
    pub policy: Arc<Policy>,
    /// A repeated request with the same key returns the same sandbox.
    pub key: Option<IdempotencyKey>,
    /// Commands of the executions that were requested together with the sandbox.
    pub commands: Vec<NewExecution>,
    pub admission: AdmissionTerms,
}

/// What admission checks besides the totals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdmissionTerms {
    /// Quotas that the new sandbox must fit into.
    pub quotas: Vec<Quota>,
    /// Its queue entry, which ends when the sandbox is admitted. None: it comes after all that wait.
    pub queue_id: Option<QueueId>,
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
    Existing(pinfold_lifecycle::SandboxId),
}

/// Turns an instance of the pool into a user's sandbox. All of it is written, or nothing.
#[derive(Debug, Clone)]
pub struct PoolClaim {
    /// The lifecycle's transition for [`pinfold_lifecycle::Request::Claim`].
    pub change: Change,
    /// Replaces the spec that the instance had in the pool.
    pub spec: Arc<Spec>,
    /// Replaces the policy that the instance had in the pool.
    pub policy: Arc<Policy>,
    pub key: Option<IdempotencyKey>,
    pub admission: AdmissionTerms,
    pub limits: AdmissionLimits,
}

/// The next state of a sandbox that was loaded at `version`. A sandbox that is to be forgotten
/// ([`pinfold_lifecycle::Sandbox::is_to_be_forgotten`]) is deleted by this change; its history stays.
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
