//! Output logs and inspection with one defect at a time.

use std::future;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{ExecutionId, ResourceUsage, SandboxId, Timestamp};
use pinfold_provider::{
    Inspect, InstanceError, InstanceId, LockOutcome, LockedOutput, OutputEntry, OutputLogs, OutputReader,
    OutputStream, OutputWatch, ProbeReport, ProcessInfo, ReadPosition, StoredOutput,
};

use crate::broken::Broken;
use crate::caught::Defect;

pub(crate) struct BrokenOutput {
    pub(crate) defect: Defect,
    pub(crate) inner: Arc<dyn OutputLogs>,
}

struct BrokenReader {
    defect: Defect,
    inner: Box<dyn OutputReader>,
}

struct NeverWakes;

/// Neither a lock nor a removal.
struct Unlocked;

impl BrokenOutput {
    pub(crate) fn remove(&self, sandbox: SandboxId) {
        if let Ok(LockOutcome::Locked(mut locked)) = self.inner.lock(sandbox) {
            locked.remove().expect("the fake can remove output");
        }
    }
}

impl OutputLogs for BrokenOutput {
    fn reader(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        after: ReadPosition,
    ) -> Box<dyn OutputReader> {
        let after = if self.defect == Defect::RereadsOutput { ReadPosition::default() } else { after };
        let inner = self.inner.reader(sandbox, execution, after);
        Box::new(BrokenReader { defect: self.defect, inner })
    }

    fn watch(&self, sandbox: SandboxId) -> Box<dyn OutputWatch> {
        match self.defect {
            Defect::NeverWakes => Box::new(NeverWakes),
            _ => self.inner.watch(sandbox),
        }
    }

    fn sandboxes(&self) -> io::Result<Vec<SandboxId>> {
        self.inner.sandboxes()
    }

    fn stored(&self, sandbox: SandboxId) -> io::Result<Option<StoredOutput>> {
        self.inner.stored(sandbox)
    }

    fn last_written(&self, sandbox: SandboxId, executions: &[ExecutionId]) -> io::Result<Option<Timestamp>> {
        match self.defect {
            Defect::NeverWrote => Ok(None),
            _ => self.inner.last_written(sandbox, executions),
        }
    }

    fn lock(&self, sandbox: SandboxId) -> io::Result<LockOutcome> {
        let locked = self.inner.lock(sandbox)?;
        let unlocks = match locked {
            LockOutcome::Busy => self.defect == Defect::LocksAgain,
            LockOutcome::Locked(_) => self.defect == Defect::RemovesNoOutput,
            LockOutcome::Nothing => false,
        };
        Ok(if unlocks { LockOutcome::Locked(Box::new(Unlocked)) } else { locked })
    }
}

impl OutputReader for BrokenReader {
    fn next(&mut self) -> io::Result<Option<OutputEntry>> {
        let mut entry = self.inner.next()?;
        if let Some(OutputEntry::Chunk(chunk)) = &mut entry {
            match self.defect {
                Defect::MixesStreams => chunk.stream = OutputStream::Stdout,
                Defect::NumbersChunksFromZero => chunk.seq -= 1,
                _ => {}
            }
        }
        Ok(entry)
    }
}

#[async_trait]
impl OutputWatch for NeverWakes {
    fn mark_seen(&mut self) {}

    async fn changed(&mut self) {
        future::pending().await
    }
}

impl LockedOutput for Unlocked {
    fn remove(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Inspect for Broken {
    async fn examine(&self, instance: InstanceId) -> Vec<ProbeReport> {
        let mut reports = self.inner.inspect().examine(instance).await;
        match self.defect {
            Defect::ExaminesNothing => reports.clear(),
            Defect::PassesEveryProbe => {
                for report in &mut reports {
                    (report.passed, report.fault) = (true, None);
                }
            }
            _ => {}
        }
        reports
    }

    async fn total_usage(&self, instance: InstanceId) -> Option<ResourceUsage> {
        let used = self.inner.inspect().total_usage(instance).await;
        match self.defect {
            Defect::ReportsUsageAnywhere => Some(used.unwrap_or_default()),
            _ => used,
        }
    }

    async fn processes(&self, instance: InstanceId) -> Result<Vec<ProcessInfo>, InstanceError> {
        let listed = self.inner.inspect().processes(instance).await;
        match self.defect {
            Defect::ListsNoProcesses => listed.map(|_| Vec::new()),
            Defect::ListsProcessesAnywhere => Ok(listed.unwrap_or_default()),
            _ => listed,
        }
    }
}
