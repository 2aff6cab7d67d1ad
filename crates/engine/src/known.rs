//! Rows as this engine has just written them, so that the next decision need not read them. What others do is not
//! seen here: a decision on an old row is refused by the commit, and one that leads to no commit is made on a row
//! that was read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{Command, ExecutionId, ExecutionLimits, SandboxId};
use pinfold_store::{NewExecution, Seq, Stored, Version};

#[derive(Default)]
pub(crate) struct Known {
    rows: Mutex<Rows>,
}

struct Rows {
    /// What was written up to here has been seen to by the timer, and may have been changed by others since.
    seen: Seq,
    written: BTreeMap<SandboxId, Stored>,
    /// These never change once they are written.
    commands: BTreeMap<ExecutionId, (Version, Arc<Command>)>,
}

impl Default for Rows {
    fn default() -> Self {
        Self { seen: Seq(i64::MIN), written: BTreeMap::new(), commands: BTreeMap::new() }
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A version and a place in the history are numbers of the same row of numbers, so the larger is the later.
    pub(crate) fn wrote(&self, stored: Stored, commands: Vec<NewExecution>) {
        let mut rows = self.lock();
        let (id, version) = (stored.sandbox.id, stored.version);
        rows.commands.extend(commands.into_iter().map(|new| (new.id, (version, new.command))));
        let is_newer = rows.written.get(&id).is_none_or(|known| known.version < stored.version);
        if stored.version.0 > rows.seen.0 && is_newer {
            if stored.sandbox.is_to_be_forgotten() {
                rows.written.remove(&id);
            } else {
                rows.written.insert(id, stored);
            }
        }
    }

    pub(crate) fn get(&self, id: SandboxId) -> Option<Stored> {
        self.lock().written.get(&id).cloned()
    }

    /// What is to run, and the limits it has.
    pub(crate) fn command(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
    ) -> Option<(Arc<Command>, ExecutionLimits)> {
        let rows = self.lock();
        let (_, command) = rows.commands.get(&execution)?;
        let all = &rows.written.get(&sandbox)?.sandbox.executions;
        let limits = all.iter().find(|known| known.id == execution)?.limits;
        Some((command.clone(), limits))
    }

    /// It is not as it was written any more.
    pub(crate) fn forget(&self, id: SandboxId) {
        self.lock().written.remove(&id);
    }

    pub(crate) fn forget_up_to(&self, seen: Seq) {
        let mut rows = self.lock();
        rows.seen = seen;
        rows.written.retain(|_, stored| stored.version.0 > seen.0);
        rows.commands.retain(|_, (version, _)| version.0 > seen.0);
    }
}
