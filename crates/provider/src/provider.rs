//! The provider interface.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    Cause, Command, Evidence, ExecutionId, ExecutionLimits, Outcome, ProbeResult, SandboxId, Spec,
};
use pinfold_lifecycle::{StopOutcome, Timestamp};

use crate::{
    Capacity, Discovered, Files, Inspect, InstanceId, OutputLogs, ResizeError, SignalError, StartPermit,
    StdinError, StdinWrite, TerminalSize, Usage, WriteResult,
};

/// Runs sandboxes on a host. Starting what already runs and stopping what is already gone both succeed: any
/// call may be repeated after a crash, and any call may be dropped half-way.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// The files of its instances.
    fn files(&self) -> &dyn Files;

    /// The output of executions, also of instances that are gone.
    fn output(&self) -> Arc<dyn OutputLogs>;

    /// Processes, probes and usage of its instances.
    fn inspect(&self) -> &dyn Inspect;

    /// Lists every resource that carries our name, wanted or not, incomplete and half-removed instances
    /// included. All of them, or an error.
    async fn discover(&self) -> Result<Discovered, DiscoverError>;

    /// Starts an instance, in the order described at [`StartPermit`].
    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError>;

    /// Observes every kind of resource the sandbox may own, in every generation, without changing any.
    async fn observe(&self, sandbox: SandboxId) -> Evidence;

    /// Runs a command, a file round trip and a control ping.
    async fn probe(&self, instance: InstanceId) -> ProbeResult;

    /// Pings the keeper.
    async fn ping(&self, instance: InstanceId) -> ProbeResult;

    /// Starts a process. An execution is started at most once per instance, and never after it was killed or
    /// refused.
    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError>;

    /// Waits until the execution's process has ended. May be repeated after the end.
    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError>;

    /// Ends an execution's processes, and prevents it from being started in this instance.
    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome;

    /// Sends a signal to the execution's process group.
    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError>;

    /// Writes to an execution's stdin and returns how many bytes it accepted in total. The caller repeats the
    /// rest.
    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        write: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError>;

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError>;

    /// Waits until an instance looks broken from outside, where the provider notices by itself. A hint that saves
    /// time: the engine observes the instance, and its routine checks find what this misses.
    async fn next_suspect(&self) -> Suspect {
        std::future::pending().await
    }

    /// Ends this instance and those of earlier generations, never a later one, and verifies their absence.
    /// Allowed in every state, from any process on the host, with only the lease.
    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome;

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError>;

    async fn capacity(&self) -> Result<Capacity, DiscoverError>;

    /// Moves the time at which the instance ends itself.
    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError>;
}

/// An instance that looks broken, and what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    pub instance: InstanceId,
    pub why: String,
}

/// The parameters of an instance.
#[derive(Clone, Copy)]
pub struct StartRequest<'a> {
    pub instance: InstanceId,
    pub spec: &'a Spec,
    /// When the instance ends itself.
    pub ends_at: Timestamp,
    /// The instance ends when the calling process does.
    pub ends_with_caller: bool,
    pub permit: &'a dyn StartPermit,
}

/// The parameters of an execution.
#[derive(Debug, Clone, Copy)]
pub struct ExecRequest<'a> {
    pub execution: ExecutionId,
    pub command: &'a Command,
    pub limits: ExecutionLimits,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    #[error("could not observe {what}: {why}")]
    ObserveFailed { what: String, why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("the launch is no longer wanted")]
    NoLongerWanted,
    #[error("could not start the instance: {why}")]
    Failed { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// No process was started, for certain.
    #[error("the command was refused: {why}")]
    Refused { cause: Cause, why: String },
    /// The process may or may not run.
    #[error("unknown whether the command runs: {why}")]
    Unclear { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    #[error("no such execution in this instance")]
    NoSuchExecution,
    #[error("the instance cannot be reached: {why}")]
    Unreachable { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KillOutcome {
    /// No process is left, and none will be started.
    Gone,
    Unknown {
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstanceError {
    #[error("no such instance")]
    NoSuchInstance,
    #[error("the instance cannot be reached: {why}")]
    Unreachable { why: String },
}
