//! Output of executions as a provider keeps it. It can be read while the execution runs, after its end, and after the
//! end of its instance, until it is removed.

use std::io;

use async_trait::async_trait;
use pinfold_lifecycle::{ExecutionId, SandboxId, Timestamp};
use pinfold_output_log::LogReader;
pub use pinfold_output_log::{OutputChunk, OutputEntry, OutputGap, OutputStream};

/// The output that a provider keeps on this host. Except for [`OutputWatch::changed`], calls may block on a disk: a
/// caller that cannot wait for it uses a thread for blocking work.
pub trait OutputLogs: Send + Sync + 'static {
    /// Reads the output of an execution after a position. It need not have any yet.
    fn reader(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        after: ReadPosition,
    ) -> Box<dyn OutputReader>;

    /// Waits for output of any execution of the sandbox.
    fn watch(&self, sandbox: SandboxId) -> Box<dyn OutputWatch>;

    /// The sandboxes whose output is kept here, in order.
    fn sandboxes(&self) -> io::Result<Vec<SandboxId>>;

    /// Whether any output of a sandbox is kept here, be it an empty log.
    fn exists(&self, sandbox: SandboxId) -> io::Result<bool> {
        Ok(self.stored(sandbox)?.is_some())
    }

    /// How much output of a sandbox is kept here. None: none, not even an empty log.
    fn stored(&self, sandbox: SandboxId) -> io::Result<Option<StoredOutput>>;

    /// When one of these executions last wrote.
    fn last_written(&self, sandbox: SandboxId, executions: &[ExecutionId]) -> io::Result<Option<Timestamp>>;

    /// Locks the output of a sandbox, so that one process at a time moves or removes it. Readers are not affected.
    fn lock(&self, sandbox: SandboxId) -> io::Result<LockOutcome>;
}

/// Reads one log from a position on.
pub trait OutputReader: Send + Sync {
    /// The next complete chunk, or the gap before it. None: there is no more for now.
    fn next(&mut self) -> io::Result<Option<OutputEntry>>;
}

impl OutputReader for LogReader {
    fn next(&mut self) -> io::Result<Option<OutputEntry>> {
        self.next()
    }
}

/// A subscription to the output of one sandbox. Output between two waits is not lost.
#[async_trait]
pub trait OutputWatch: Send {
    /// Marks all output so far as seen. Call it before each read, so that later output is noticed.
    fn mark_seen(&mut self);

    /// Waits until there may be output that was not seen. It may return without any.
    async fn changed(&mut self);
}

/// The right to move or remove the output of one sandbox, until it is dropped.
pub trait LockedOutput: Send {
    /// Removes the output. The caller knows that no instance of the sandbox lives.
    fn remove(&mut self) -> io::Result<()>;
}

pub enum LockOutcome {
    Locked(Box<dyn LockedOutput>),
    /// Another process has the lock.
    Busy,
    /// No output is kept here.
    Nothing,
}

/// The last chunk that was read, and the number of bytes up to its end. The default is the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadPosition {
    pub seq: u64,
    pub bytes: u64,
}

/// The kept output of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOutput {
    /// Including what the format adds.
    pub bytes: u64,
    pub last_changed: Timestamp,
}
