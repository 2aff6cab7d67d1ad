//! Stores that cannot be opened or written: a newer schema, a damaged file, a directory that is read-only, full or without
//! locks. Each gives an error that says what to do, and no data is lost.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use pinfold_lifecycle::{AdmissionLimits, SandboxId};
use pinfold_store::conformance::fixture::{NODE, NOON, StoreFixture};
use pinfold_store::{CreateError, OpenError, SandboxFilter, Store, StoreError};
use pinfold_store_sqlite::SqliteStore;
use pinfold_test_support::skip;

const FILE: &str = "pinfold.db";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(work)
}

fn fixture(store: SqliteStore) -> StoreFixture {
    StoreFixture {
        store: Arc::new(store),
        now: NOON,
        node: NODE,
        policy: pinfold_lifecycle::Policy::default(),
    }
}

/// A directory with a closed store of 50 sandboxes.
fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let fixture = fixture(SqliteStore::open(directory.path()).unwrap());
    block_on(async {
        for id in 1..=50 {
            fixture.create_ready(id).await;
        }
    });
    directory
}

fn count(directory: &Path) -> usize {
    let store = SqliteStore::open(directory).unwrap();
    assert_eq!(store.inconsistencies().unwrap(), [] as [String; 0]);
    block_on(store.list(SandboxFilter::All, None, 1_000)).unwrap().len()
}

fn refusal(directory: &Path) -> OpenError {
    match SqliteStore::open(directory) {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

fn version(directory: &Path) -> i64 {
    let file = rusqlite::Connection::open(directory.join(FILE)).unwrap();
    file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn tamper(directory: &Path, sql: &str) {
    rusqlite::Connection::open(directory.join(FILE)).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn newer_schema_is_refused_and_left_unchanged() {
    let directory = filled();
    let own = version(directory.path());
    tamper(directory.path(), "PRAGMA user_version = 99");
    let before = fs::read(directory.path().join(FILE)).unwrap();

    let error = refusal(directory.path());

    assert!(matches!(error, OpenError::NewerSchema { found: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("use the newer program"));
    assert_eq!(fs::read(directory.path().join(FILE)).unwrap(), before);
    tamper(directory.path(), &format!("PRAGMA user_version = {own}"));
    assert_eq!(count(directory.path()), 50);
}

#[test]
fn write_fails_after_another_program_migrated_the_schema() {
    let directory = filled();
    let fixture = fixture(SqliteStore::open(directory.path()).unwrap());
    let own = version(directory.path());
    tamper(directory.path(), "PRAGMA user_version = 99");

    let answer = block_on(fixture.store.create(fixture.new_sandbox(99), AdmissionLimits::default()));

    assert!(matches!(answer, Err(CreateError::Store(StoreError::Failed { .. }))));
    tamper(directory.path(), &format!("PRAGMA user_version = {own}"));
    assert_eq!(count(directory.path()), 50);
}

#[test]
fn migration_with_another_checksum_is_refused() {
    let directory = filled();
    tamper(directory.path(), "UPDATE schema_migrations SET checksum = 'another'");

    let error = refusal(directory.path());

    assert!(matches!(error, OpenError::ForeignMigration { version: 1, .. }), "{error:?}");
}

#[test]
fn damaged_file_is_refused_and_left_unchanged() {
    let whole = fs::read(filled().path().join(FILE)).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    let odd = whole[..whole.len() - 100].to_vec();
    let header = whole[..100].to_vec();
    let garbage = vec![0xa5; 8192];

    for damaged in [half, odd, header, garbage, vec![]] {
        let directory = filled();
        let file = directory.path().join(FILE);
        fs::write(&file, &damaged).unwrap();

        let error = refusal(directory.path());

        assert!(matches!(error, OpenError::Damaged { .. }), "{} bytes: {error:?}", damaged.len());
        assert!(error.to_string().contains("restore it from a backup"));
        assert_eq!(fs::read(&file).unwrap(), damaged);
    }
}

#[test]
fn truncated_file_with_a_wal_is_refused() {
    let directory = filled();
    let fixture = fixture(SqliteStore::open(directory.path()).unwrap());
    block_on(fixture.create_ready(51));
    // A copy of a store in use: the newest rows are only in the WAL.
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE, "pinfold.db-wal", "pinfold.lock"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    let file = copy.path().join(FILE);
    let length = fs::metadata(&file).unwrap().len();
    fs::File::options().write(true).open(&file).unwrap().set_len(length / 2).unwrap();

    let error = refusal(copy.path());

    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
}

#[test]
fn new_store_is_created_after_the_old_file_was_moved_away() {
    let directory = filled();
    let before = SqliteStore::open(directory.path()).unwrap().store_id();
    fs::rename(directory.path().join(FILE), directory.path().join("old.db")).unwrap();

    let after = SqliteStore::open(directory.path()).unwrap().store_id();

    assert_ne!(before, after);
    assert_eq!(count(directory.path()), 0);
}

#[test]
fn concurrent_opens_create_one_store() {
    let directory = tempfile::tempdir().unwrap();

    let ids: Vec<u128> = std::thread::scope(|scope| {
        let open = || SqliteStore::open(directory.path()).unwrap().store_id();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    assert!(ids.iter().all(|id| *id == ids[0]));
}

const CHILD: &str = "PINFOLD_WRONG_USE_DIRECTORY";
const FILLER: &str = "PINFOLD_WRONG_USE_FILLER";

/// Not a test by itself: other tests start it on unusable directories and read its output.
#[test]
fn helper_process_opens_a_store_and_prints_the_result() {
    let Some(directory) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    match SqliteStore::open(&directory) {
        Err(error) => println!("\nunopened: {}\n", format!("{error:?}").split(' ').next().unwrap()),
        Ok(store) => match std::env::var_os(FILLER) {
            None => println!("\nopened\n"),
            Some(filler) => {
                fill(&fixture(store), Path::new(&filler));
                println!("\nfilled\n");
            }
        },
    }
}

/// Writes until the disk is full, frees space, and writes again.
fn fill(fixture: &StoreFixture, filler: &Path) {
    block_on(async {
        let mut written = 0;
        let refused = loop {
            let new = fixture.new_sandbox(written + 1);
            match fixture.store.create(new, AdmissionLimits::default()).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, CreateError::Store(StoreError::DiskFull { .. })), "{refused:?}");
        for id in 1..=written {
            assert!(fixture.store.load(SandboxId(id)).await.unwrap().is_some());
        }
        fs::remove_file(filler).unwrap();
        fixture.create(written + 1).await;
        assert_eq!(fixture.store.totals().await.unwrap().created, u64::try_from(written).unwrap() + 1);
        assert!(written > 0);
    });
}

/// The output of a shell script in its own mount namespace that starts the helper process as `$CHILD`. None: mount
/// namespaces are not available, and the test is reported as skipped.
fn in_own_mounts(script: &str, test: &str) -> Option<String> {
    let unshare = |command: &mut Command| -> Output {
        let user = fs::metadata("/proc/self").map(|entry| std::os::unix::fs::MetadataExt::uid(&entry));
        command.arg(if user.is_ok_and(|user| user == 0) { "-m" } else { "-Urm" });
        command.stdin(Stdio::null()).args(["sh", "-ec"]).arg(script).output().unwrap()
    };
    let child = format!(
        "{} helper_process_opens_a_store_and_prints_the_result --exact --nocapture",
        std::env::current_exe().unwrap().display()
    );
    let output = unshare(Command::new("unshare").env("CHILD", child));
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output_text.contains("running 1 test") {
        return Some(output_text);
    }
    skip(test, &format!("no mount namespace: {}", String::from_utf8_lossy(&output.stderr).trim()));
    None
}

#[test]
fn read_only_directory_is_refused() {
    let (full, empty) = (filled(), tempfile::tempdir().unwrap());

    for directory in [full.path(), empty.path()] {
        let path = directory.display();
        let script =
            format!("mount --bind {path} {path}; mount -o remount,bind,ro {path}; {CHILD}={path} $CHILD");
        let Some(output_text) = in_own_mounts(&script, "read_only_directory_is_refused") else {
            return;
        };

        assert!(output_text.contains("unopened: ReadOnly"), "{output_text}");
    }
    assert_eq!(count(full.path()), 50);
}

#[test]
fn open_on_a_full_disk_is_refused() {
    let directory = filled();
    let path = directory.path().display();
    let script = format!(
        "mkdir {path}/small; mount -t tmpfs -o size=64k small {path}/small; {CHILD}={path}/small $CHILD;
         umount {path}/small; mount -t tmpfs -o size=1m small {path}/small;
         cp {path}/pinfold.* {path}/small; cat /dev/zero > {path}/small/filler || true;
         {CHILD}={path}/small $CHILD"
    );

    let Some(output_text) = in_own_mounts(&script, "open_on_a_full_disk_is_refused") else {
        return;
    };

    assert_eq!(output_text.matches("unopened: DiskFull").count(), 2, "{output_text}");
}

#[test]
fn full_disk_refuses_writes_until_space_is_freed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let script = format!(
        "mount -t tmpfs -o size=4m small {path}; head -c 2000000 /dev/zero > {path}/filler;
         {CHILD}={path} {FILLER}={path}/filler $CHILD"
    );

    let Some(output_text) = in_own_mounts(&script, "full_disk_refuses_writes_until_space_is_freed") else {
        return;
    };

    assert!(output_text.contains("filled"), "{output_text}");
}

#[test]
fn file_system_without_locks_is_refused() {
    let strace = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    if !strace.is_ok_and(|status| status.success()) {
        return skip("file_system_without_locks_is_refused", "strace is not installed");
    }
    let directory = filled();

    // One file system has no locks; the other grants every lock.
    for fault in ["error=ENOLCK", "retval=0"] {
        let output = Command::new("strace")
            .args([
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                "trace=fcntl",
                "-e",
                &format!("inject=fcntl:{fault}"),
            ])
            .arg(std::env::current_exe().unwrap())
            .args(["helper_process_opens_a_store_and_prints_the_result", "--exact", "--nocapture"])
            .env(CHILD, directory.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let output_text = String::from_utf8_lossy(&output.stdout);

        assert!(output_text.contains("unopened: NoLocks"), "{fault}: {output:?}");
    }
    assert_eq!(count(directory.path()), 50);
}
