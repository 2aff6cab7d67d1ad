//! The output that the fake keeps: chunks by sandbox and execution. It outlives instances, until it is removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};

use async_trait::async_trait;
use pinfold_lifecycle::{ExecutionId, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

use super::FaultPlan;
use super::shared::Locked;
use super::shell::{Stream, Written};
use super::world::FakeWorld;
use crate::{
    LockOutcome, LockedOutput, OutputChunk, OutputEntry, OutputGap, OutputLogs, OutputReader, OutputStream,
    OutputWatch, ReadPosition, StoredOutput,
};

/// Kept bytes per execution. Older chunks are dropped.
const KEPT_BYTES: u64 = 8 << 20;

/// The output of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct SandboxOutput {
    logs: BTreeMap<ExecutionId, ExecutionLog>,
    /// Chunks written, for those that wait for more.
    writes: u64,
    last_changed: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
struct ExecutionLog {
    chunks: VecDeque<Chunk>,
    kept_bytes: u64,
    dropped_chunks: u64,
    dropped_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Chunk {
    at: Timestamp,
    stream: Stream,
    bytes: Vec<u8>,
}

impl SandboxOutput {
    /// Begins the log of an execution, or continues that of an earlier instance.
    pub(crate) fn begin(&mut self, execution: ExecutionId, now: Timestamp) {
        self.logs.entry(execution).or_default();
        self.last_changed = now;
    }

    pub(crate) fn append(&mut self, execution: ExecutionId, written: Written) {
        let Written { at, stream, bytes } = written;
        self.writes += 1;
        self.last_changed = at;
        let log = self.logs.entry(execution).or_default();
        log.kept_bytes += bytes.len() as u64;
        log.chunks.push_back(Chunk { at, stream, bytes });
        while log.kept_bytes > KEPT_BYTES
            && let Some(oldest) = log.chunks.pop_front()
        {
            let bytes = oldest.bytes.len() as u64;
            log.kept_bytes -= bytes;
            log.dropped_bytes += bytes;
            log.dropped_chunks += 1;
        }
    }
}

impl ExecutionLog {
    /// The entry after a position, which moves behind it.
    fn next(&self, position: &mut ReadPosition) -> Option<OutputEntry> {
        if position.seq < self.dropped_chunks {
            let bytes = self.dropped_bytes.saturating_sub(position.bytes);
            let gap = OutputGap { from_seq: position.seq + 1, to_seq: self.dropped_chunks, bytes };
            *position = ReadPosition { seq: self.dropped_chunks, bytes: self.dropped_bytes };
            return Some(OutputEntry::Gap(gap));
        }
        let index = usize::try_from(position.seq - self.dropped_chunks).ok()?;
        let Chunk { at, stream, bytes } = self.chunks.get(index)?;
        let stream = match stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
        };
        position.seq += 1;
        position.bytes += bytes.len() as u64;
        Some(OutputEntry::Chunk(OutputChunk { seq: position.seq, at_ms: at.0, stream, bytes: bytes.clone() }))
    }
}

/// The output of a fake host. Its processes run only when a call reads the host, so a watch polls.
#[derive(Clone)]
pub(crate) struct FakeOutput {
    pub(crate) world: Arc<FakeWorld>,
    pub(crate) faults: Arc<dyn FaultPlan>,
}

impl FakeOutput {
    fn contents(&self) -> Locked<'_> {
        self.world.lock_at(self.faults.now())
    }
}

impl OutputLogs for FakeOutput {
    fn reader(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        after: ReadPosition,
    ) -> Box<dyn OutputReader> {
        Box::new(Reader { output: self.clone(), sandbox, execution, position: after })
    }

    fn watch(&self, sandbox: SandboxId) -> Box<dyn OutputWatch> {
        Box::new(Watch { output: self.clone(), sandbox, seen: 0 })
    }

    fn sandboxes(&self) -> io::Result<Vec<SandboxId>> {
        Ok(self.contents().output.keys().copied().collect())
    }

    fn stored(&self, sandbox: SandboxId) -> io::Result<Option<StoredOutput>> {
        Ok(self.contents().output.get(&sandbox).map(|kept| StoredOutput {
            bytes: kept.logs.values().map(|log| log.kept_bytes).sum(),
            last_changed: kept.last_changed,
        }))
    }

    fn last_written(&self, sandbox: SandboxId, executions: &[ExecutionId]) -> io::Result<Option<Timestamp>> {
        let contents = self.contents();
        let Some(kept) = contents.output.get(&sandbox) else { return Ok(None) };
        let logs = executions.iter().filter_map(|execution| kept.logs.get(execution));
        Ok(logs.filter_map(|log| log.chunks.back()).map(|chunk| chunk.at).max())
    }

    /// Excludes those that use the same [`FakeWorld`], not other processes.
    fn lock(&self, sandbox: SandboxId) -> io::Result<LockOutcome> {
        if !self.contents().output.contains_key(&sandbox) {
            return Ok(LockOutcome::Nothing);
        }
        if !locked_outputs(&self.world).insert(sandbox) {
            return Ok(LockOutcome::Busy);
        }
        Ok(LockOutcome::Locked(Box::new(Lock { output: self.clone(), sandbox })))
    }
}

struct Reader {
    output: FakeOutput,
    sandbox: SandboxId,
    execution: ExecutionId,
    position: ReadPosition,
}

impl OutputReader for Reader {
    fn next(&mut self) -> io::Result<Option<OutputEntry>> {
        let contents = self.output.contents();
        let log = contents.output.get(&self.sandbox).and_then(|kept| kept.logs.get(&self.execution));
        Ok(log.and_then(|log| log.next(&mut self.position)))
    }
}

struct Watch {
    output: FakeOutput,
    sandbox: SandboxId,
    /// Chunks seen.
    seen: u64,
}

impl Watch {
    fn writes(&self) -> u64 {
        self.output.contents().output.get(&self.sandbox).map_or(0, |kept| kept.writes)
    }
}

#[async_trait]
impl OutputWatch for Watch {
    fn mark_seen(&mut self) {
        self.seen = self.writes();
    }

    async fn changed(&mut self) {
        while self.writes() == self.seen {
            self.output.faults.sleep_ms(self.output.faults.poll_ms()).await;
        }
    }
}

struct Lock {
    output: FakeOutput,
    sandbox: SandboxId,
}

impl LockedOutput for Lock {
    fn remove(&mut self) -> io::Result<()> {
        self.output.contents().output.remove(&self.sandbox);
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        locked_outputs(&self.output.world).remove(&self.sandbox);
    }
}

fn locked_outputs(world: &FakeWorld) -> MutexGuard<'_, BTreeSet<SandboxId>> {
    world.locked_outputs.lock().unwrap_or_else(PoisonError::into_inner)
}
