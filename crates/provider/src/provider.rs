//! What a provider must be able to do.

use async_trait::async_trait;
use pinfold_lifecycle::{
    Cause, Command, Evidence, ExecutionId, ExecutionLimits, Outcome, Probed, SandboxId, Spec,
};
use pinfold_lifecycle::{StopOutcome, Timestamp};

use crate::{
    Capacity, Discovered, Fed, Feed, FeedError, InstanceId, ResizeError, SignalError, StartPermit,
    TerminalSize, Usage,
};

/// A place where sandboxes live. Starting what already runs and stopping what is already gone both succeed:
/// any call may be repeated after a crash, and any call may be dropped half-way.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Everything that carries our mark, wanted or not, half-made and half-removed bodies too. All of it, or an
    /// error.
    async fn discover(&self) -> Result<Discovered, DiscoverError>;

    /// Makes a body, in the order that [`StartPermit`] describes.
    async fn start(&self, start: Start<'_>) -> Result<(), StartError>;

    /// Looks at every kind of thing the sandbox may own, in every generation. Wakes nothing up.
    async fn observe(&self, sandbox: SandboxId) -> Evidence;

    /// Runs a real command, a real file round trip and a control ping.
    async fn probe(&self, body: InstanceId) -> Probed;

    /// Asks the keeper for a sign of life.
    async fn ping(&self, body: InstanceId) -> Probed;

    /// Starts a process. The same execution is started at most once in a body, and never after it was killed or was
    /// refused by it.
    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError>;

    /// Waits until the execution's process has ended. May be asked again after the end.
    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError>;

    /// Ends an execution's processes, and sees to it that it is never started again in this body.
    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed;

    /// Sends a signal to the group of processes that the execution's first one leads.
    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError>;

    /// Gives bytes to an execution that was started with an input, and says how many it has accepted in all: those
    /// that it has no room for are to be fed again.
    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError>;

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError>;

    /// Ends this body and those of earlier generations, never a later one, and looks at what is left.
    /// Legal in every state, by the lease alone, from any process on the host.
    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome;

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError>;

    async fn capacity(&self) -> Result<Capacity, DiscoverError>;

    /// Moves the moment at which the body ends itself even if nobody asks it to.
    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError>;
}

/// All that is needed to make a body.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    pub body: InstanceId,
    pub spec: &'a Spec,
    /// When the body must end itself.
    pub ends_at: Timestamp,
    /// The body belongs to the process that asks for it, and ends itself when that is gone.
    pub ends_with_caller: bool,
    pub permit: &'a dyn StartPermit,
}

/// All that is needed to start a process.
#[derive(Debug, Clone, Copy)]
pub struct Exec<'a> {
    pub execution: ExecutionId,
    pub command: &'a Command,
    pub limits: ExecutionLimits,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    #[error("could not look at {what}: {why}")]
    LookFailed { what: String, why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("the launch is no longer wanted")]
    NoLongerWanted,
    #[error("could not make the body: {why}")]
    Failed { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// No process was made, for certain.
    #[error("the command was refused: {why}")]
    Refused { cause: Cause, why: String },
    /// It may run or not.
    #[error("it is not clear whether the command runs: {why}")]
    Unclear { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    #[error("the body does not know this execution")]
    NoSuchExecution,
    #[error("the body cannot be asked: {why}")]
    Unreachable { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Killed {
    /// No process of it is left, and none will be made.
    Gone,
    Unknown {
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskBodyError {
    #[error("there is no such body")]
    NoSuchBody,
    #[error("the body cannot be asked: {why}")]
    Unreachable { why: String },
}
