//! Write-through cache of rows this engine has written, which saves the read before the next decision. It does
//! not see other processes' writes: a commit on an outdated row conflicts, and a decision without a commit is
//! always made on a row read from the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{Command, ExecutionId, ExecutionLimits, SandboxId};
use pinfold_store::{NewExecution, Seq, StoredSandbox, Version};

#[derive(Default)]
pub(crate) struct RowCache {
    rows: Mutex<Rows>,
}

struct Rows {
    /// Changes up to here were processed by the timer loop; rows written before may be outdated.
    seen: Seq,
    written: BTreeMap<SandboxId, StoredSandbox>,
    /// Commands never change once written.
    commands: BTreeMap<ExecutionId, (Version, Arc<Command>)>,
}

impl Default for Rows {
    fn default() -> Self {
        Self { seen: Seq(i64::MIN), written: BTreeMap::new(), commands: BTreeMap::new() }
    }
}

impl RowCache {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Versions and history positions come from one sequence, so they can be compared.
    pub(crate) fn insert(&self, stored: StoredSandbox, commands: Vec<NewExecution>) {
        let mut rows = self.lock();
        let (id, version) = (stored.sandbox.id, stored.version);
        rows.commands.extend(commands.into_iter().map(|new| (new.id, (version, new.command))));
        let is_newer = rows.written.get(&id).is_none_or(|entry| entry.version < stored.version);
        if stored.version.0 > rows.seen.0 && is_newer {
            if stored.sandbox.is_to_be_forgotten() {
                rows.written.remove(&id);
            } else {
                rows.written.insert(id, stored);
            }
        }
    }

    pub(crate) fn get(&self, id: SandboxId) -> Option<StoredSandbox> {
        self.lock().written.get(&id).cloned()
    }

    /// The command of an execution, and its limits.
    pub(crate) fn command(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
    ) -> Option<(Arc<Command>, ExecutionLimits)> {
        let rows = self.lock();
        let (_, command) = rows.commands.get(&execution)?;
        let all = &rows.written.get(&sandbox)?.sandbox.executions;
        let limits = all.iter().find(|entry| entry.id == execution)?.limits;
        Some((command.clone(), limits))
    }

    /// Removes a row that no longer equals the stored one.
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
