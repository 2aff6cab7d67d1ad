//! Lock and pid file before, during and after the life of a keeper.

use std::io::Write;
use std::process::{Command, Stdio};

use pinfold_lifecycle::{Generation, SandboxId};
use pinfold_provider::InstanceId;

use super::*;
use crate::paths::{DataPaths, make_directory};

struct Fixture {
    _data: tempfile::TempDir,
    paths: InstancePaths,
}

fn fixture() -> Fixture {
    let data = tempfile::tempdir().unwrap();
    let instance = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
    let paths = DataPaths::on_disk(data.path()).unwrap().of(instance);
    make_directory(&paths.control, 0o700).unwrap();
    Fixture { _data: data, paths }
}

fn own_pid_entry() -> (String, KeeperStatus) {
    let pid = i32::try_from(std::process::id()).unwrap();
    let since = start_time(pid).unwrap().unwrap();
    (format!("{pid} {since}"), KeeperStatus::Alive(pid, since))
}

#[test]
fn a_directory_without_pid_file_has_no_keeper() {
    let fixture = fixture();

    assert_eq!(keeper_status(&fixture.paths).unwrap(), KeeperStatus::Absent);
}

#[test]
fn a_keeper_without_a_pid_is_starting_as_long_as_its_lock_is_held() {
    let fixture = fixture();
    let launcher = lock_for_keeper(&fixture.paths).unwrap();
    let held = launcher.try_clone().unwrap();
    let mut child = Command::new("sleep").arg("100").stdin(Stdio::from(held)).spawn().unwrap();

    drop(launcher);
    let while_held = keeper_status(&fixture.paths).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();

    assert_eq!(
        (while_held, keeper_status(&fixture.paths).unwrap()),
        (KeeperStatus::Starting, KeeperStatus::Absent)
    );
}

#[test]
fn the_pid_file_names_the_keeper_until_that_process_exits() {
    let fixture = fixture();
    let (entry, known) = own_pid_entry();
    let mut held = lock_for_keeper(&fixture.paths).unwrap();

    held.write_all(entry.as_bytes()).unwrap();
    let by_pid = keeper_status(&fixture.paths).unwrap();
    std::fs::write(fixture.paths.pid_file(), entry.replace(' ', " 1")).unwrap();

    // The lock is still held by this test, which is not the keeper.
    assert_eq!((by_pid, keeper_status(&fixture.paths).unwrap()), (known, KeeperStatus::Absent));
}

#[test]
fn locking_for_a_new_keeper_clears_the_earlier_pid() {
    let fixture = fixture();
    std::fs::write(fixture.paths.pid_file(), "1 1").unwrap();

    let _held = lock_for_keeper(&fixture.paths).unwrap();

    assert_eq!(keeper_status(&fixture.paths).unwrap(), KeeperStatus::Starting);
}

#[test]
fn the_pid_file_cannot_be_locked_twice() {
    let fixture = fixture();
    let _held = lock_for_keeper(&fixture.paths).unwrap();

    let second = lock_for_keeper(&fixture.paths);

    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn no_keeper_is_spawned_into_a_removed_control_directory() {
    let fixture = fixture();
    let lock = block_spawning(&fixture.paths).unwrap();
    assert!(lock.is_some());
    let paths = fixture.paths.clone();
    // It may open the file before or after the removal; it never gets the lock in time.
    let late = std::thread::spawn(move || lock_for_keeper(&paths));

    std::fs::remove_dir_all(&fixture.paths.control).unwrap();
    drop(lock);

    assert_eq!(late.join().unwrap().unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn spawning_cannot_be_blocked_while_a_keeper_lives() {
    let fixture = fixture();
    std::fs::write(fixture.paths.pid_file(), own_pid_entry().0).unwrap();

    assert!(block_spawning(&fixture.paths).is_err());
}

#[test]
fn an_instance_that_does_not_exist_needs_no_lock() {
    let fixture = fixture();
    std::fs::remove_dir(&fixture.paths.control).unwrap();

    assert!(block_spawning(&fixture.paths).unwrap().is_none());
}

#[tokio::test]
async fn launches_take_turns() {
    let fixture = fixture();
    let first = LaunchLock::acquire(&fixture.paths).await.unwrap();
    let mut second = std::pin::pin!(LaunchLock::acquire(&fixture.paths));

    let early = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
    drop(first);

    assert!(early.is_err(), "two launches at once");
    second.await.unwrap();
}
