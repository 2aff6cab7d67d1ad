//! Removal of files at the end of a sandbox, whatever they are.

use std::time::Duration;

use pinfold_lifecycle::Limits;
use pinfold_linux::StorageKind;
use pinfold_test_support::skip;
use rustix::process::{Signal, pidfd_send_signal};

use crate::fixture::{Fixture, is_root, limited_kinds};

const HOSTILE: &str = "cd /workspace && mkdir -p shut/shut && touch shut/shut/file && mkfifo shut/fifo &&
    ln -s / shut/root && ln -s .. shut/up && ln -s shut shut/loop &&
    i=0; while [ $i -lt 300 ]; do mkdir d && cd d && i=$((i+1)); done; touch last; cd /workspace;
    touch -- '-rf' \"$(printf 'a\\nb')\"; chmod 000 shut/shut shut d . ; exit 0";

#[tokio::test]
async fn hostile_trees_are_removed_from_every_storage() {
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
        assert_eq!(fixture.code(instance, HOSTILE).await, Some(0), "{kind:?}");

        fixture.stop(instance).await;

        assert_eq!(std::fs::read_dir(fixture.storage_directory()).unwrap().count(), 0, "{kind:?}");
    }
}

#[tokio::test]
async fn freed_memory_is_reported_by_a_delayed_keeper() {
    let fixture = Fixture::with(StorageKind::Memory);
    let instance = fixture.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
    assert_eq!(fixture.code(instance, "head -c 8M /dev/zero > kept").await, Some(0));
    let keeper = fixture.keeper(instance);

    pidfd_send_signal(&keeper, Signal::STOP).unwrap();
    let in_a_while = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let _keeper_may_be_gone = pidfd_send_signal(&keeper, Signal::CONT);
    };
    let (receipt, ()) = tokio::join!(fixture.stop(instance), in_a_while);

    assert!(receipt.freed_bytes >= 8 << 20, "{receipt:?}");
}

#[tokio::test]
async fn a_large_disk_is_an_image_removed_with_its_loop_device() {
    const TEST: &str = "a_large_disk_is_an_image_removed_with_its_loop_device";
    if !is_root() {
        return skip(TEST, "needs root");
    }
    let fixture = Fixture::new();
    let limits = Limits { disk_mb: Some(20_000), memory_mb: Some(256), ..Limits::default() };
    let instances = [fixture.start(limits).await, fixture.start(limits).await];
    assert_eq!(fixture.devices(), 2);
    let templates = std::fs::read_dir(fixture.data.path().join("templates")).unwrap().count();
    assert_eq!(templates, 1, "both use the same template");
    // More than its memory limit.
    assert_eq!(fixture.code(instances[0], "head -c 400M /dev/zero > big").await, Some(0));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*fixture.data.path().to_string_lossy()), "nothing is mounted on the host");

    for instance in instances {
        fixture.stop(instance).await;
    }

    assert_eq!(fixture.devices(), 0);
    assert_eq!(std::fs::read_dir(fixture.storage_directory()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_loop_device_opened_by_another_process_is_waited_for() {
    const TEST: &str = "a_loop_device_opened_by_another_process_is_waited_for";
    if !is_root() {
        return skip(TEST, "needs root");
    }
    let fixture = Fixture::with(StorageKind::Image);
    let instance = fixture.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
    let opened = std::fs::File::open(fixture.device_paths().pop().unwrap()).unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(opened);
    });

    fixture.stop(instance).await;

    assert_eq!(fixture.devices(), 0);
    holder.join().unwrap();
}

#[tokio::test]
async fn a_stop_by_another_provider_removes_all_storage() {
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
        let other = fixture.another_provider(crate::fixture::spawner());
        assert_eq!(fixture.code(instance, "head -c 1M /dev/zero > big").await, Some(0));

        // By another provider that knows only the instance name.
        let outcome = pinfold_provider::Provider::stop(&other, instance, 0).await;

        assert!(matches!(outcome, pinfold_lifecycle::StopOutcome::Gone(_)), "{kind:?}: {outcome:?}");
        assert_eq!(fixture.devices(), 0);
        fixture.stop(instance).await;
    }
}
