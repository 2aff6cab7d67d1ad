//! What other users and holders of a copy can learn from a store: nothing by its modes, and no environment variable from
//! its bytes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use pinfold_lifecycle::{AdmissionLimits, Command, ExecutionId, Policy, SandboxId, Spec};
use pinfold_store::conformance::fixture::{NODE, NOON, StoreFixture};
use pinfold_store::{Change, CommitError, CreateError, NewExecution, NewSandbox, Row, StoreError};
use pinfold_store_sqlite::{LockTimeout, SqliteStore, StorePaths};

const OF_SANDBOX: &str = "canary-of-the-sandbox-7f3a";
const OF_COMMAND: &str = "canary-of-the-command-91bc";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(work)
}

fn fixture(store: SqliteStore) -> StoreFixture {
    StoreFixture { store: Arc::new(store), now: NOON, node: NODE, policy: Policy::default() }
}

fn env(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("TOKEN".to_owned(), value.to_owned())])
}

fn sandbox_with_env(fixture: &StoreFixture) -> NewSandbox {
    let new = fixture.new_sandbox(1);
    NewSandbox { spec: Arc::new(Spec { env: env(OF_SANDBOX), ..(*new.spec).clone() }), ..new }
}

async fn execution_with_env(fixture: &StoreFixture) -> Change {
    let stored = fixture.load(1).await;
    let change = fixture.execution(&stored.sandbox, 2, stored.version);
    let command = Command { env: env(OF_COMMAND), ..(*change.commands[0].command).clone() };
    Change { commands: vec![NewExecution { id: ExecutionId(2), command: Arc::new(command) }], ..change }
}

/// Creates a sandbox and an execution, each with a canary in its environment.
async fn fill(fixture: &StoreFixture) {
    fixture.store.create(sandbox_with_env(fixture), AdmissionLimits::default()).await.unwrap();
    let change = execution_with_env(fixture).await;
    fixture.store.commit(change).await.unwrap();
}

/// The files below a directory that contain the text.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let content = fs::read(&path).unwrap();
        if content.windows(text.len()).any(|bytes| bytes == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The entries whose mode is not `0600`, and the directory unless it is `0700`.
fn wide(directory: &Path) -> Vec<String> {
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let mut wide = Vec::new();
    if mode(directory) != 0o700 {
        wide.push(format!("{} {:o}", directory.display(), mode(directory)));
    }
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if mode(&path) != 0o600 {
            wide.push(format!("{} {:o}", path.display(), mode(&path)));
        }
    }
    wide
}

#[test]
fn new_store_is_private_under_an_open_umask() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("store");
    rustix::process::umask(rustix::fs::Mode::empty());

    let fixture = fixture(SqliteStore::open(&directory).unwrap());
    block_on(fixture.create(1));

    assert!(directory.join("pinfold.db-wal").exists() && directory.join("pinfold.db-shm").exists());
    assert_eq!(wide(&directory), [] as [String; 0]);
}

#[test]
fn wider_modes_of_an_existing_store_are_tightened_at_open() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("store");
    let store = SqliteStore::open(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(&directory).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o644)).unwrap();
    }

    let second = SqliteStore::open(&directory).unwrap();

    assert_eq!(wide(&directory), [] as [String; 0]);
    drop((store, second));
}

#[test]
fn environment_of_sandbox_and_execution_is_not_in_the_bytes_of_the_store() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("store");
    let open = || fixture(SqliteStore::open(&directory).unwrap());
    block_on(async {
        let fixture = open();
        fill(&fixture).await;
        for canary in [OF_SANDBOX, OF_COMMAND] {
            assert_eq!(files_with(&directory, canary), [] as [String; 0], "while it is open");
        }
    });
    for canary in [OF_SANDBOX, OF_COMMAND] {
        assert_eq!(files_with(&directory, canary), [] as [String; 0], "after it was closed");
    }

    let fixture = open();

    block_on(async {
        assert_eq!(fixture.load(1).await.spec.env, env(OF_SANDBOX));
        let execution = fixture.store.execution(ExecutionId(2)).await.unwrap().unwrap();
        assert_eq!(execution.command.env, env(OF_COMMAND));
        let Some(Row::Readable(_)) = fixture.store.load(SandboxId(1)).await.unwrap() else { panic!() };
    });
}

#[test]
fn key_lies_outside_the_directory_of_the_database_and_is_private() {
    let data = tempfile::tempdir().unwrap();

    drop(
        SqliteStore::open_with(&StorePaths::of_data_directory(data.path()), LockTimeout::default()).unwrap(),
    );

    let key = data.path().join("secrets.key");
    assert_eq!(fs::metadata(&key).unwrap().mode() & 0o7777, 0o600);
    let text = fs::read_to_string(key).unwrap();
    assert_eq!(files_with(&data.path().join("store"), text.trim()), [] as [String; 0]);
}

#[test]
fn lost_key_is_named_and_a_sandbox_can_still_be_stopped() {
    for lose in
        [|key: &Path| fs::remove_file(key).unwrap(), |key: &Path| fs::write(key, "0".repeat(64)).unwrap()]
    {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("secrets.key");
        block_on(fill(&fixture(SqliteStore::open(directory.path()).unwrap())));
        lose(&key);
        let left = fs::read(&key).ok();

        let fixture = fixture(SqliteStore::open(directory.path()).unwrap());

        block_on(async {
            let problem = fixture.store.problem().unwrap();
            assert!(problem.contains(&key.display().to_string()), "{problem}");
            let stored = fixture.store.execution(ExecutionId(2)).await.unwrap().unwrap();
            assert!(stored.unreadable_env.unwrap().contains("secrets.key"));
            let another = NewSandbox { spec: sandbox_with_env(&fixture).spec, ..fixture.new_sandbox(3) };
            let refused = fixture.store.create(another, AdmissionLimits::default()).await;
            assert!(matches!(refused, Err(CreateError::Store(StoreError::KeyLost { .. }))), "{refused:?}");
            let sandbox = fixture.load(1).await;
            let change = fixture.execution(&sandbox.sandbox, 4, sandbox.version);
            let command = sandbox.spec.with_defaults((*change.commands[0].command).clone());
            let command = NewExecution { id: ExecutionId(4), command: Arc::new(command) };
            let refused = fixture.store.commit(Change { commands: vec![command], ..change }).await;
            assert!(matches!(refused, Err(CommitError::Store(StoreError::KeyLost { .. }))), "{refused:?}");
            fixture.end(1).await;
            fixture.create_ready(5).await;
        });
        assert_eq!(fs::read(&key).ok(), left, "a lost key is not replaced");
    }
}
