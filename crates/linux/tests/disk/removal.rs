//! What is left of a sandbox's files after its end: nothing, whatever they were.

use std::time::Duration;

use pinfold_lifecycle::Limits;
use pinfold_linux::StorageKind;
use rustix::process::{Signal, pidfd_send_signal};

use crate::stage::{Stage, is_root, limited_kinds, skip};

const HOSTILE: &str = "cd /workspace && mkdir -p shut/shut && touch shut/shut/file && mkfifo shut/fifo &&
    ln -s / shut/root && ln -s .. shut/up && ln -s shut shut/loop &&
    i=0; while [ $i -lt 300 ]; do mkdir d && cd d && i=$((i+1)); done; touch last; cd /workspace;
    touch -- '-rf' \"$(printf 'a\\nb')\"; chmod 000 shut/shut shut d . ; exit 0";

#[tokio::test]
async fn hostile_trees_are_removed_from_every_storage() {
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let stage = Stage::with(kind);
        let body = stage.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
        assert_eq!(stage.code(body, HOSTILE).await, Some(0), "{kind:?}");

        stage.stop(body).await;

        assert_eq!(std::fs::read_dir(stage.places()).unwrap().count(), 0, "{kind:?}");
    }
}

#[tokio::test]
async fn what_was_in_memory_is_told_also_by_a_keeper_that_has_to_wait_for_its_turn() {
    let stage = Stage::with(StorageKind::Memory);
    let body = stage.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
    assert_eq!(stage.code(body, "head -c 8M /dev/zero > kept").await, Some(0));
    let keeper = stage.keeper(body);

    pidfd_send_signal(&keeper, Signal::STOP).unwrap();
    let in_a_while = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let _it_may_have_been_given_up = pidfd_send_signal(&keeper, Signal::CONT);
    };
    let (receipt, ()) = tokio::join!(stage.stop(body), in_a_while);

    assert!(receipt.freed_bytes >= 8 << 20, "{receipt:?}");
}

#[tokio::test]
async fn a_large_disk_is_a_file_that_goes_with_its_sandbox_and_its_device() {
    const TEST: &str = "a_large_disk_is_a_file_that_goes_with_its_sandbox_and_its_device";
    if !is_root() {
        return skip(TEST, "needs root");
    }
    let stage = Stage::new();
    let limits = Limits { disk_mb: Some(20_000), memory_mb: Some(256), ..Limits::default() };
    let bodies = [stage.start(limits).await, stage.start(limits).await];
    assert_eq!(stage.devices(), 2);
    let templates = std::fs::read_dir(stage.data.path().join("templates")).unwrap().count();
    assert_eq!(templates, 1, "both are made from the same");
    // More than fits into its memory.
    assert_eq!(stage.code(bodies[0], "head -c 400M /dev/zero > big").await, Some(0));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*stage.data.path().to_string_lossy()), "nothing is mounted on the host");

    for body in bodies {
        stage.stop(body).await;
    }

    assert_eq!(stage.devices(), 0);
    assert_eq!(std::fs::read_dir(stage.places()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_device_that_somebody_else_looks_at_is_waited_for() {
    const TEST: &str = "a_device_that_somebody_else_looks_at_is_waited_for";
    if !is_root() {
        return skip(TEST, "needs root");
    }
    let stage = Stage::with(StorageKind::Image);
    let body = stage.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
    let looked_at = std::fs::File::open(stage.device_paths().pop().unwrap()).unwrap();
    let looking = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(looked_at);
    });

    stage.stop(body).await;

    assert_eq!(stage.devices(), 0);
    looking.join().unwrap();
}

#[tokio::test]
async fn a_killed_keeper_takes_its_files_along_and_the_stop_clears_the_rest() {
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let stage = Stage::with(kind);
        let body = stage.start(Limits { disk_mb: Some(32), ..Limits::default() }).await;
        let other = stage.another_provider(crate::stage::nursery());
        assert_eq!(stage.code(body, "head -c 1M /dev/zero > big").await, Some(0));

        // By somebody who knows nothing but the mark.
        let outcome = pinfold_provider::Provider::stop(&other, body, 0).await;

        assert!(matches!(outcome, pinfold_lifecycle::StopOutcome::Gone(_)), "{kind:?}: {outcome:?}");
        assert_eq!(stage.devices(), 0);
        stage.stop(body).await;
    }
}
