//! Kernel resources of a sandbox are charged to the sandbox alone.

use std::process::{Command, Stdio};

use pinfold_lifecycle::Limits;
use pinfold_test_support::{skip, until_async};

use crate::fixture::{Fixture, is_root};

/// Each `tail -f` of a local file holds one inotify instance, or reports that it got none.
const HOLD: &str = "touch /dev/shm/file;
    for i in $(seq 150); do tail -f /dev/shm/file >/dev/null 2>>/tmp/said & done; sleep 100";

#[tokio::test]
async fn inotify_instances_run_out_for_one_sandbox_only() {
    const TEST: &str = "inotify_instances_run_out_for_one_sandbox_only";
    if !is_root() {
        return skip(TEST, "without root all sandboxes share the caller's one id");
    }
    let fixture = Fixture::new();
    let (greedy, neighbour) =
        (fixture.start(Limits::default()).await, fixture.start(Limits::default()).await);

    fixture.begin(greedy, HOLD).await;
    // Lines may be interleaved, so count occurrences, not lines.
    let refused = "for i in $(seq 600); do
            n=$(grep -o 'inotify cannot be used' /tmp/said | wc -l); test $n -ge 22 && break; sleep 0.05;
        done; test $n -ge 22 -a $n -lt 40";
    assert_eq!(fixture.code(greedy, refused).await, Some(0));

    let can =
        "f=$(mktemp -p /dev/shm); said=$(timeout 0.3 tail -f $f 2>&1 >/dev/null); rm $f; test -z \"$said\"";
    assert_eq!(fixture.code(neighbour, can).await, Some(0));
    let host = Command::new("sh").args(["-c", can]).stdin(Stdio::null()).status().unwrap();
    assert!(host.success());
}

#[tokio::test]
async fn the_namespaces_belong_to_the_sandbox_and_not_to_root() {
    const TEST: &str = "the_namespaces_belong_to_the_sandbox_and_not_to_root";
    if !is_root() {
        return skip(TEST, "without root there is only the caller");
    }
    let fixture = Fixture::new();
    let instance = fixture.start(Limits::default()).await;

    // No uid inside exists outside, and the owner of the namespaces is a uid inside.
    let owned = "test \"$(stat -c %u:%g / /etc /etc/passwd /workspace /root | sort -u)\" = 0:0";
    assert_eq!(fixture.code(instance, owned).await, Some(0));
    let kept = "grep -q '^ *0 *[123][0-9]* *65536$' /proc/self/uid_map";
    assert_eq!(fixture.code(instance, kept).await, Some(0));
    until_async("its id range is recorded", async || {
        std::fs::read_dir(fixture.data.path().join("ids")).unwrap().count() == 1
    })
    .await;
}
