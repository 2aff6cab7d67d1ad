//! Limits of bytes and files, in each kind of storage that can hold one.

use pinfold_lifecycle::{Cause, Limits, Probed};
use pinfold_linux::{DEFAULT_DISK_MB, DEFAULT_INODES, StorageKind};
use pinfold_provider::Provider;

use crate::stage::{Stage, limited_kinds};

const SMALL: Limits = Limits {
    disk_mb: Some(32),
    inodes: Some(2_000),
    memory_mb: None,
    cpu_millis: None,
    cpu_time_ms: None,
    network_requests: None,
    processes: None,
    open_files: None,
    output_mb: None,
    operations: None,
};

#[tokio::test]
async fn writing_past_the_limit_fails_inside_and_is_the_cause() {
    for kind in limited_kinds() {
        let stage = Stage::with(kind);
        let body = stage.start(SMALL).await;

        let outcome = stage.sh(body, "head -c 64M /dev/zero > /workspace/big").await;

        assert_eq!(outcome.cause, Cause::DiskLimit, "{kind:?}");
        assert_eq!(outcome.exit_code, Some(1), "{kind:?}");
        // Most of what was allowed did fit, and nothing beyond it.
        let fits = "s=$(stat -c %s /workspace/big); test $s -gt 25000000 -a $s -le 33554432";
        assert_eq!(stage.code(body, fits).await, Some(0), "{kind:?}");
    }
}

#[tokio::test]
async fn every_place_that_can_be_written_to_is_bounded() {
    for kind in limited_kinds() {
        let stage = Stage::with(kind);
        let body = stage.start(SMALL).await;

        for place in ["/tmp", "/var/tmp", "/root", "/home", "/etc", "/dev/shm"] {
            let script = format!("head -c 80M /dev/zero > {place}/big; code=$?; rm {place}/big; exit $code");
            assert_ne!(stage.code(body, &script).await, Some(0), "{kind:?} {place}");
        }
        for place in ["/sys", "/proc", "/usr", "/dev"] {
            assert_ne!(
                stage.code(body, &format!("mkdir {place}/d && head -c 1M /dev/zero > {place}/d/big")).await,
                Some(0)
            );
        }
    }
}

#[tokio::test]
async fn making_files_past_the_limit_fails_inside_and_is_the_cause() {
    for kind in limited_kinds() {
        let stage = Stage::with(kind);
        let body = stage.start(SMALL).await;

        let outcome = stage.sh(body, "for i in $(seq 3000); do : > /workspace/$i || exit 9; done").await;

        assert_eq!(
            (outcome.cause, outcome.exit_code.is_some_and(|code| code != 0)),
            (Cause::DiskLimit, true),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn who_tidies_up_after_a_full_disk_and_fails_still_failed_for_it() {
    let stage = Stage::new();
    let body = stage.start(SMALL).await;

    let outcome = stage.sh(body, "head -c 64M /dev/zero > big; sleep 0.5; rm big; exit 3").await;

    assert_eq!((outcome.cause, outcome.exit_code), (Cause::DiskLimit, Some(3)));
}

#[tokio::test]
async fn who_succeeds_on_a_full_disk_has_succeeded_and_a_later_failure_is_its_own() {
    let stage = Stage::new();
    let body = stage.start(SMALL).await;

    let succeeded = stage.sh(body, "head -c 64M /dev/zero > big; true").await;
    assert_eq!(stage.code(body, "rm big").await, Some(0));
    let failed = stage.sh(body, "exit 3").await;

    assert_eq!(succeeded.cause, Cause::Completed);
    assert_eq!(failed.cause, Cause::ExitNonzero);
}

#[tokio::test]
async fn a_sandbox_whose_disk_is_full_passes_its_probe_and_finds_nothing_of_it() {
    // Again and again: what a filesystem has set aside while it wrote is free when that is on its disk.
    let bytes = "for i in 1 2 3 4; do head -c 64M /dev/zero > big$i; sync big$i; done; exit 9";
    let fill = [bytes, "for i in $(seq 3000); do : > $i || exit 9; done"];
    for (kind, fill) in limited_kinds().into_iter().flat_map(|kind| fill.map(|fill| (kind, fill))) {
        let stage = Stage::with(kind);
        let body = stage.start(SMALL).await;
        assert_eq!(stage.sh(body, fill).await.cause, Cause::DiskLimit, "{kind:?} {fill}");
        let no_room = "head -c 1 /dev/zero > small; code=$?; rm -f small; exit $code";
        assert_ne!(stage.code(body, no_room).await, Some(0), "{kind:?} {fill}");

        let probed = stage.provider.probe(body).await;

        assert_eq!(probed, Probed::Passed, "{kind:?} {fill}");
        assert_eq!(stage.code(body, "ls -A | grep pinfold-probe").await, Some(1), "{kind:?} {fill}");
    }
}

#[tokio::test]
async fn a_sandbox_that_asked_for_nothing_has_a_limit() {
    let stage = Stage::new();
    let body = stage.start(Limits::default()).await;

    let bytes = format!("test $(df -k --output=size / | tail -n 1) -le {}", DEFAULT_DISK_MB * 1_024);
    // A filesystem in a file has some more than it was made for, in whole groups.
    let most_files = DEFAULT_INODES + DEFAULT_INODES / 50;
    let files = format!("test $(df --output=itotal / | tail -n 1) -le {most_files}");

    assert_eq!(stage.code(body, &bytes).await, Some(0));
    assert_eq!(stage.code(body, &files).await, Some(0));
}

#[tokio::test]
async fn usage_and_receipt_say_how_much_was_written() {
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let stage = Stage::with(kind);
        let body = stage.start(SMALL).await;
        assert_eq!(stage.code(body, "head -c 8M /dev/zero > big && sync").await, Some(0));

        let used = stage.provider.usage(body).await.unwrap().disk_bytes.unwrap();
        let freed = stage.stop(body).await.freed_bytes;

        assert!(used >= 8 << 20, "{kind:?}: {used}");
        assert!(freed >= 8 << 20, "{kind:?}: {freed}");
        if kind != StorageKind::Directory {
            assert!(used < 12 << 20 && freed < 12 << 20, "{kind:?}: {used} {freed}");
        }
    }
}

#[tokio::test]
async fn capacity_says_what_the_host_has_left() {
    let stage = Stage::new();

    let left = stage.provider.capacity().await.unwrap();

    assert!(left.memory_mb_left.unwrap() > 0 && left.disk_mb_left.unwrap() > 0);
    assert!(left.processes_left.unwrap() > 0);
    assert_eq!(left.ids_left.is_some(), crate::stage::is_root());
}
