//! Rows as this engine has just written them, so that the next decision need not read them. What others do is not
//! seen here: a decision on an old row is refused by the commit, and one that leads to no commit is made on a row
//! that was read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::SandboxId;
use pinfold_store::{Seq, Stored};

#[derive(Default)]
pub(crate) struct Known {
    rows: Mutex<Rows>,
}

struct Rows {
    /// What was written up to here has been seen to by the timer, and may have been changed by others since.
    seen: Seq,
    written: BTreeMap<SandboxId, Stored>,
}

impl Default for Rows {
    fn default() -> Self {
        Self { seen: Seq(i64::MIN), written: BTreeMap::new() }
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A version and a place in the history are numbers of the same row of numbers, so the larger is the later.
    pub(crate) fn wrote(&self, stored: Stored) {
        let mut rows = self.lock();
        let id = stored.sandbox.id;
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

    /// It is not as it was written any more.
    pub(crate) fn forget(&self, id: SandboxId) {
        self.lock().written.remove(&id);
    }

    pub(crate) fn forget_up_to(&self, seen: Seq) {
        let mut rows = self.lock();
        rows.seen = seen;
        rows.written.retain(|_, stored| stored.version.0 > seen.0);
    }
}
