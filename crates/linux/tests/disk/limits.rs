//! Limits on bytes and inodes, in each kind of storage that enforces them.

use pinfold_lifecycle::{Cause, Limits, ProbeResult};
use pinfold_linux::{DEFAULT_DISK_MB, DEFAULT_INODES, StorageKind};
use pinfold_provider::Provider;

use crate::fixture::{Fixture, limited_kinds};

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
async fn exceeding_the_disk_limit_fails_inside_and_is_the_cause() {
    for kind in limited_kinds() {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(SMALL).await;

        let outcome = fixture.sh(instance, "head -c 64M /dev/zero > /workspace/big").await;

        assert_eq!(outcome.cause, Cause::DiskLimit, "{kind:?}");
        assert_eq!(outcome.exit_code, Some(1), "{kind:?}");
        // Most of the allowed size fits, and nothing beyond it.
        let fits = "s=$(stat -c %s /workspace/big); test $s -gt 25000000 -a $s -le 33554432";
        assert_eq!(fixture.code(instance, fits).await, Some(0), "{kind:?}");
    }
}

#[tokio::test]
async fn every_writable_directory_is_limited() {
    for kind in limited_kinds() {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(SMALL).await;

        for place in ["/tmp", "/var/tmp", "/root", "/home", "/etc", "/dev/shm"] {
            let script = format!("head -c 80M /dev/zero > {place}/big; code=$?; rm {place}/big; exit $code");
            assert_ne!(fixture.code(instance, &script).await, Some(0), "{kind:?} {place}");
        }
        for place in ["/sys", "/proc", "/usr", "/dev"] {
            assert_ne!(
                fixture
                    .code(instance, &format!("mkdir {place}/d && head -c 1M /dev/zero > {place}/d/big"))
                    .await,
                Some(0)
            );
        }
    }
}

#[tokio::test]
async fn exceeding_the_inode_limit_fails_inside_and_is_the_cause() {
    for kind in limited_kinds() {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(SMALL).await;

        let outcome =
            fixture.sh(instance, "for i in $(seq 3000); do : > /workspace/$i || exit 9; done").await;

        assert_eq!(
            (outcome.cause, outcome.exit_code.is_some_and(|code| code != 0)),
            (Cause::DiskLimit, true),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn a_failure_after_cleaning_up_a_full_disk_is_still_caused_by_it() {
    let fixture = Fixture::new();
    let instance = fixture.start(SMALL).await;

    let outcome = fixture.sh(instance, "head -c 64M /dev/zero > big; sleep 0.5; rm big; exit 3").await;

    assert_eq!((outcome.cause, outcome.exit_code), (Cause::DiskLimit, Some(3)));
}

#[tokio::test]
async fn success_on_a_full_disk_is_success_and_a_later_failure_has_its_own_cause() {
    let fixture = Fixture::new();
    let instance = fixture.start(SMALL).await;

    let succeeded = fixture.sh(instance, "head -c 64M /dev/zero > big; true").await;
    assert_eq!(fixture.code(instance, "rm big").await, Some(0));
    let failed = fixture.sh(instance, "exit 3").await;

    assert_eq!(succeeded.cause, Cause::Completed);
    assert_eq!(failed.cause, Cause::ExitNonzero);
}

#[tokio::test]
async fn failure_on_a_disk_that_was_full_before_is_caused_by_it_only_if_a_write_failed() {
    for kind in limited_kinds() {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(SMALL).await;
        let fill = "for i in 1 2 3 4; do head -c 64M /dev/zero > big$i; sync big$i; done; true";
        fixture.sh(instance, fill).await;

        let unrelated = fixture.sh(instance, "exit 3").await;
        let failed_write = fixture.sh(instance, "head -c 1M /dev/zero > more").await;

        assert_eq!((unrelated.cause, unrelated.exit_code), (Cause::ExitNonzero, Some(3)), "{kind:?}");
        assert_eq!(failed_write.cause, Cause::DiskLimit, "{kind:?}");
    }
}

#[tokio::test]
async fn a_sandbox_with_a_full_disk_passes_its_probe_which_leaves_no_file() {
    // Repeated: space that a file system reserves while writing becomes free once the data is on disk.
    let bytes = "for i in 1 2 3 4; do head -c 64M /dev/zero > big$i; sync big$i; done; exit 9";
    let fill = [bytes, "for i in $(seq 3000); do : > $i || exit 9; done"];
    for (kind, fill) in limited_kinds().into_iter().flat_map(|kind| fill.map(|fill| (kind, fill))) {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(SMALL).await;
        assert_eq!(fixture.sh(instance, fill).await.cause, Cause::DiskLimit, "{kind:?} {fill}");
        let no_room = "head -c 1 /dev/zero > small; code=$?; rm -f small; exit $code";
        assert_ne!(fixture.code(instance, no_room).await, Some(0), "{kind:?} {fill}");

        let probed = fixture.provider.probe(instance).await;

        assert_eq!(probed, ProbeResult::Passed, "{kind:?} {fill}");
        assert_eq!(fixture.code(instance, "ls -A | grep pinfold-probe").await, Some(1), "{kind:?} {fill}");
    }
}

#[tokio::test]
async fn a_sandbox_without_disk_limit_gets_the_default_limit() {
    let fixture = Fixture::new();
    let instance = fixture.start(Limits::default()).await;

    let bytes = format!("test $(df -k --output=size / | tail -n 1) -le {}", DEFAULT_DISK_MB * 1_024);
    // An ext4 image has slightly more inodes than requested, in whole block groups.
    let most_files = DEFAULT_INODES + DEFAULT_INODES / 50;
    let files = format!("test $(df --output=itotal / | tail -n 1) -le {most_files}");

    assert_eq!(fixture.code(instance, &bytes).await, Some(0));
    assert_eq!(fixture.code(instance, &files).await, Some(0));
}

#[tokio::test]
async fn usage_and_receipt_report_bytes_written() {
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let fixture = Fixture::with(kind);
        let instance = fixture.start(SMALL).await;
        assert_eq!(fixture.code(instance, "head -c 8M /dev/zero > big && sync").await, Some(0));

        let used = fixture.provider.usage(instance).await.unwrap().disk_bytes.unwrap();
        let freed = fixture.stop(instance).await.freed_bytes;

        assert!(used >= 8 << 20, "{kind:?}: {used}");
        assert!(freed >= 8 << 20, "{kind:?}: {freed}");
        if kind != StorageKind::Directory {
            assert!(used < 12 << 20 && freed < 12 << 20, "{kind:?}: {used} {freed}");
        }
    }
}

#[tokio::test]
async fn capacity_reports_what_the_host_has_left() {
    let fixture = Fixture::new();

    let left = fixture.provider.capacity().await.unwrap();

    assert!(left.memory_mb_left.unwrap() > 0 && left.disk_mb_left.unwrap() > 0);
    assert!(left.processes_left.unwrap() > 0);
}
