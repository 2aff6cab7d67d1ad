//! Stores that become unusable while they are open: removed, replaced or damaged files, a filesystem that turns read-only
//! or is full, and a process that hangs with the lock. Each is reported, and no write is lost silently.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use pinfold_lifecycle::{AdmissionLimits, Policy};
use pinfold_store::conformance::fixture::{NODE, NOON, StoreFixture};
use pinfold_store::{CreateError, OpenError, StoreError};
use pinfold_store_sqlite::{LockTimeout, SqliteStore, StorePaths};
use pinfold_test_support::{skip, until};

const FILES: [&str; 3] = ["pinfold.db", "pinfold.db-wal", "pinfold.db-shm"];

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(work)
}

fn fixture(store: SqliteStore) -> StoreFixture {
    StoreFixture { store: Arc::new(store), now: NOON, node: NODE, policy: Policy::default() }
}

fn open(data: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open_with(&StorePaths::of_data_directory(data), LockTimeout::default())
}

fn create(fixture: &StoreFixture, id: u128) -> Result<(), StoreError> {
    match block_on(fixture.store.create(fixture.new_sandbox(id), AdmissionLimits::default())) {
        Ok(_) => Ok(()),
        Err(CreateError::Store(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

fn assert_unwritable(fixture: &StoreFixture, id: u128, named: &str) {
    match create(fixture, id) {
        Err(StoreError::Unwritable { why }) => assert!(why.contains(named), "{why}"),
        other => panic!("{named}: {other:?}"),
    }
    let problem = fixture.store.problem().unwrap();
    assert!(problem.contains(named), "{problem}");
}

#[test]
fn write_is_refused_after_a_file_was_removed_or_replaced() {
    for name in FILES {
        for is_replaced in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let fixture = fixture(SqliteStore::open(directory.path()).unwrap());
            create(&fixture, 1).unwrap();
            let path = directory.path().join(name);
            let content = fs::read(&path).unwrap();

            fs::remove_file(&path).unwrap();
            if is_replaced {
                // Under another name first: the inode of the removed file must not be used again.
                fs::write(directory.path().join("copy"), content).unwrap();
                fs::rename(directory.path().join("copy"), &path).unwrap();
            }

            assert_unwritable(&fixture, 2, name);
        }
    }
}

#[test]
fn damaged_page_is_found_in_the_background() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILES[0]);
    let filled = fixture(SqliteStore::open(directory.path()).unwrap());
    for id in 1..=200 {
        create(&filled, id).unwrap();
    }
    drop(filled);
    let mut bytes = fs::read(&path).unwrap();
    let page = bytes.len() / 4096 / 2 * 4096;
    bytes[page..page + 4096].fill(0x5a);
    fs::write(&path, bytes).unwrap();

    let fixture = fixture(SqliteStore::open(directory.path()).unwrap());

    until("the damage is found", || fixture.store.problem().is_some());
    assert_unwritable(&fixture, 300, "is damaged");
}

#[test]
fn lost_store_of_a_data_directory_is_not_begun_anew_silently() {
    for lose in [
        |data: &Path| fs::remove_dir_all(data.join("store")).unwrap(),
        |data: &Path| fs::remove_file(data.join("store/pinfold.db")).unwrap(),
    ] {
        let data = tempfile::tempdir().unwrap();
        drop(open(data.path()).unwrap());
        lose(data.path());

        let refusal = open(data.path()).map(drop).unwrap_err();

        assert!(matches!(refusal, OpenError::Gone { .. }), "{refusal:?}");
        assert!(
            refusal.to_string().contains(&data.path().join("store.id").display().to_string()),
            "{refusal}"
        );
        fs::remove_file(data.path().join("store.id")).unwrap();
        open(data.path()).map(drop).unwrap();
    }
}

#[test]
fn another_store_in_the_place_of_the_known_one_is_refused() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop((open(data.path()).unwrap(), open(other.path()).unwrap()));
    fs::copy(other.path().join("store/pinfold.db"), data.path().join("store/pinfold.db")).unwrap();

    let refusal = open(data.path()).map(drop).unwrap_err();

    assert!(matches!(refusal, OpenError::Other { .. }), "{refusal:?}");
}

const CHILD: &str = "PINFOLD_CONDITION_CHILD";

/// Not a test by itself: takes the write lock of a store and keeps it until its standard input ends.
#[test]
fn helper_process_holds_the_write_lock() {
    let Some(directory) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    if std::env::var_os(STEPS).is_some() {
        return;
    }
    let rows = rusqlite::Connection::open(directory.join(FILES[0])).unwrap();
    rows.execute_batch("BEGIN IMMEDIATE").unwrap();
    println!("\nlocked\n");
    std::io::stdin().lines().for_each(drop);
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn process_that_was_stopped_with_the_lock_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = fixture(SqliteStore::open(directory.path()).unwrap());
    let mut holder = Command::new(std::env::current_exe().unwrap());
    holder.args(["helper_process_holds_the_write_lock", "--exact", "--nocapture"]);
    holder.env(CHILD, directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = Killed(holder.spawn().unwrap());
    let lines = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "locked"));
    let pid = rustix::process::Pid::from_child(&holder.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let named = format!("process {}", holder.0.id());

    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| create(&fixture, 1));

        until("the holder is named while the write waits", || {
            !waiting.is_finished() && fixture.store.problem().is_some_and(|why| why.contains(&named))
        });

        match waiting.join().unwrap() {
            Err(error @ StoreError::Busy { .. }) => {
                assert!(error.to_string().contains(&named), "{error}");
                assert!(error.to_string().contains("stopped by a signal"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    });
    assert!(fixture.store.problem().unwrap().contains(&named), "also between two writes");
    drop(holder);
    create(&fixture, 2).unwrap();
    assert_eq!(fixture.store.problem(), None);
}

const STEPS: &str = "PINFOLD_CONDITION_STEPS";

/// Not a test by itself: runs on a small filesystem or one that turns read-only, as told by standard input: `create N` and
/// `end N` change a sandbox, `open` opens the store, and `problem` prints what is wrong. Every step prints its result.
#[test]
fn helper_process_runs_steps_on_a_store() {
    let Some(data) = std::env::var_os(CHILD).map(PathBuf::from).filter(|_| std::env::var_os(STEPS).is_some())
    else {
        return;
    };
    let mut current = None;
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (step, id) =
            line.split_once(' ').map_or((line.as_str(), 0), |(step, id)| (step, id.parse().unwrap()));
        let result = match (step, &current) {
            ("open", _) => {
                current = None;
                open(&data).map(|store| current = Some(fixture(store))).map_err(|error| error.to_string())
            }
            ("create", Some(fixture)) => create(fixture, id).map_err(|error| error.to_string()),
            ("end", Some(fixture)) => {
                block_on(fixture.end(id));
                Ok(())
            }
            ("problem", Some(fixture)) => fixture.store.problem().map_or(Ok(()), Err),
            _ => panic!("{line}"),
        };
        println!("\n{line}: {}", result.err().unwrap_or_else(|| "ok".into()));
    }
}

/// Runs a shell script in its own mount namespace, in which `$CHILD` is the helper. None: reported as skipped.
fn in_own_mounts(script: &str, test: &str) -> Option<String> {
    let child = format!(
        "{} helper_process_runs_steps_on_a_store --exact --nocapture",
        std::env::current_exe().unwrap().display()
    );
    let mut unshare = Command::new("unshare");
    unshare.arg(if rustix::process::getuid().is_root() { "-m" } else { "-Urm" });
    let output =
        unshare.args(["sh", "-ec", script]).env("CHILD", child).stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if printed.contains("running 1 test") {
        return Some(printed);
    }
    skip(test, &format!("no mount namespace: {}", String::from_utf8_lossy(&output.stderr).trim()));
    None
}

#[test]
fn store_on_a_filesystem_that_turns_read_only_is_unwritable() {
    const TEST: &str = "store_on_a_filesystem_that_turns_read_only_is_unwritable";
    if !rustix::process::getuid().is_root() {
        return skip(TEST, "only root can mount a disk image");
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().display();
    // `abort` makes ext4 behave as after an error of its disk.
    let script = format!(
        "cd {path}; truncate -s 32M image; mkfs.ext4 -q -F image; mkdir disk; mount -o loop image disk; mkfifo steps
         {STEPS}=1 {CHILD}={path}/disk/data $CHILD < steps > printed & exec 3> steps
         printf 'open\\ncreate 1\\n' >&3
         for i in $(seq 500); do grep -q '^create 1: ok' printed && break; sleep 0.02; done
         mount -o remount,abort disk
         printf 'create 2\\ncreate 3\\nproblem\\n' >&3; exec 3>&-; wait; cat printed; umount disk"
    );

    let Some(printed) = in_own_mounts(&script, TEST) else { return };

    let of = |step: &str| printed.lines().find_map(|line| line.strip_prefix(step)).unwrap_or_default();
    assert_eq!(of("create 1: "), "ok", "{printed}");
    assert!(of("create 2: ").contains("the disk failed during a commit"), "{printed}");
    let said = of("create 3: ");
    assert!(
        said.contains("the store cannot be written") && said.contains("has become read-only"),
        "{printed}"
    );
    assert_eq!(of("problem: "), said, "{printed}");
}

#[test]
fn store_on_a_full_disk_can_be_opened_and_a_sandbox_be_ended() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().display();
    let script = format!(
        "mount -t tmpfs -o size=48m small {path}
         printf 'open\\ncreate 1\\ncreate 2\\n' | {STEPS}=1 {CHILD}={path}/data $CHILD
         cat /dev/zero > {path}/filler || true
         printf 'open\\nend 1\\ncreate 3\\nend 2\\nproblem\\n' | {STEPS}=1 {CHILD}={path}/data $CHILD
         rm {path}/filler
         printf 'open\\ncreate 4\\nproblem\\n' | {STEPS}=1 {CHILD}={path}/data $CHILD"
    );

    let Some(printed) = in_own_mounts(&script, "store_on_a_full_disk_can_be_opened_and_a_sandbox_be_ended")
    else {
        return;
    };

    let results = |step: &str| -> Vec<&str> {
        printed.lines().filter_map(|line| line.strip_prefix(step)?.strip_prefix(": ")).collect()
    };
    assert_eq!(results("open"), ["ok", "ok", "ok"], "{printed}");
    assert_eq!((results("end 1"), results("end 2")), (vec!["ok"], vec!["ok"]), "{printed}");
    assert!(results("create 3")[0].contains("is full"), "{printed}");
    assert!(results("problem")[0].contains("is full"), "{printed}");
    assert_eq!((results("create 4"), results("problem")[1]), (vec!["ok"], "ok"), "{printed}");
}
