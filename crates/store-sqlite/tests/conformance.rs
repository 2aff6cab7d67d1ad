//! Runs the conformance suite on both executors: with threads on a file, and inline in memory.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use pinfold_lifecycle::SandboxId;
use pinfold_store::conformance::{RowPart, TestedStore};
use pinfold_store::{AlertStore, AuditLog, JobSchedule, MetricStore, Store, TokenStore};
use pinfold_store_sqlite::{InlineStore, SqliteStore};

/// SQL that makes one part of a sandbox unreadable: broken text, or a variant that only a newer program knows.
fn damage_sql(sandbox: SandboxId, part: RowPart) -> String {
    match part {
        RowPart::State => {
            format!(
                "UPDATE sandboxes SET state = replace(state, '\"lease\"', '\"least\"') WHERE id = '{sandbox}'"
            )
        }
        RowPart::Spec => {
            format!("UPDATE specs SET spec = substr(spec, 1, 20) WHERE sandbox_id = '{sandbox}'")
        }
        RowPart::Policy => format!("UPDATE specs SET policy = '{{}}' WHERE sandbox_id = '{sandbox}'"),
        RowPart::Executions => format!(
            "UPDATE executions SET state = replace(state, 'starting', 'teleporting') WHERE sandbox_id = '{sandbox}'"
        ),
    }
}

struct OnFile {
    directory: tempfile::TempDir,
    store: Arc<SqliteStore>,
}

impl TestedStore for OnFile {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn tokens(&self) -> Arc<dyn TokenStore> {
        self.store.clone()
    }

    fn audit_log(&self) -> Arc<dyn AuditLog> {
        self.store.clone()
    }

    fn job_schedule(&self) -> Arc<dyn JobSchedule> {
        self.store.clone()
    }

    fn metrics(&self) -> Arc<dyn MetricStore> {
        self.store.clone()
    }

    fn alerts(&self) -> Arc<dyn AlertStore> {
        self.store.clone()
    }

    fn make_unreadable(&self, sandbox: SandboxId, part: RowPart) {
        let connection = rusqlite::Connection::open(self.directory.path().join("pinfold.db")).unwrap();
        assert_eq!(connection.execute(&damage_sql(sandbox, part), []), Ok(1));
    }
}

struct Inline(Arc<InlineStore>);

impl TestedStore for Inline {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn tokens(&self) -> Arc<dyn TokenStore> {
        self.0.clone()
    }

    fn audit_log(&self) -> Arc<dyn AuditLog> {
        self.0.clone()
    }

    fn job_schedule(&self) -> Arc<dyn JobSchedule> {
        self.0.clone()
    }

    fn metrics(&self) -> Arc<dyn MetricStore> {
        self.0.clone()
    }

    fn alerts(&self) -> Arc<dyn AlertStore> {
        self.0.clone()
    }

    fn make_unreadable(&self, sandbox: SandboxId, part: RowPart) {
        self.0.execute_raw_sql(&damage_sql(sandbox, part)).unwrap();
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
