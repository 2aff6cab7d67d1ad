//! The embedded store keeps the promises of every store: with its threads on a file, and inline in memory.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use pinfold_lifecycle::SandboxId;
use pinfold_store::conformance::{Part, Subject};
use pinfold_store::{Alerts, Audit, Chores, InlineStore, Measures, SqliteStore, Store, Tokens};

/// What makes one part of a sandbox unreadable: broken text, and a variant that a newer program may know.
fn spoiling(sandbox: SandboxId, part: Part) -> String {
    match part {
        Part::State => {
            format!(
                "UPDATE sandboxes SET state = replace(state, '\"lease\"', '\"least\"') WHERE id = '{sandbox}'"
            )
        }
        Part::Spec => format!("UPDATE specs SET spec = substr(spec, 1, 20) WHERE sandbox_id = '{sandbox}'"),
        Part::Policy => format!("UPDATE specs SET policy = '{{}}' WHERE sandbox_id = '{sandbox}'"),
        Part::Executions => format!(
            "UPDATE executions SET state = replace(state, 'starting', 'teleporting') WHERE sandbox_id = '{sandbox}'"
        ),
    }
}

struct OnFile {
    directory: tempfile::TempDir,
    store: Arc<SqliteStore>,
}

impl Subject for OnFile {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn tokens(&self) -> Arc<dyn Tokens> {
        self.store.clone()
    }

    fn audit(&self) -> Arc<dyn Audit> {
        self.store.clone()
    }

    fn chores(&self) -> Arc<dyn Chores> {
        self.store.clone()
    }

    fn measures(&self) -> Arc<dyn Measures> {
        self.store.clone()
    }

    fn alerts(&self) -> Arc<dyn Alerts> {
        self.store.clone()
    }

    fn spoil(&self, sandbox: SandboxId, part: Part) {
        let connection = rusqlite::Connection::open(self.directory.path().join("pinfold.db")).unwrap();
        assert_eq!(connection.execute(&spoiling(sandbox, part), []), Ok(1));
    }

    fn disagreements(&self) -> Vec<String> {
        self.store.disagreements().unwrap()
    }
}

struct Inline(Arc<InlineStore>);

impl Subject for Inline {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn tokens(&self) -> Arc<dyn Tokens> {
        self.0.clone()
    }

    fn audit(&self) -> Arc<dyn Audit> {
        self.0.clone()
    }

    fn chores(&self) -> Arc<dyn Chores> {
        self.0.clone()
    }

    fn measures(&self) -> Arc<dyn Measures> {
        self.0.clone()
    }

    fn alerts(&self) -> Arc<dyn Alerts> {
        self.0.clone()
    }

    fn spoil(&self, sandbox: SandboxId, part: Part) {
        self.0.tamper(&spoiling(sandbox, part)).unwrap();
    }

    fn disagreements(&self) -> Vec<String> {
        self.0.disagreements().unwrap()
    }
}

mod sqlite_with_threads_on_a_file {
    use super::*;

    fn make() -> OnFile {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
        OnFile { directory, store }
    }

    pinfold_store::conformance!(make);
}

mod sqlite_inline_in_memory {
    use super::*;

    fn make() -> Inline {
        Inline(Arc::new(InlineStore::in_memory(7).unwrap()))
    }

    pinfold_store::conformance!(make);
}
