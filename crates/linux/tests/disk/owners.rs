//! Who is charged for what a sandbox takes of the kernel: the sandbox, and nobody else.

use std::process::{Command, Stdio};

use pinfold_lifecycle::Limits;

use crate::stage::{Stage, is_root, skip, until};

/// Each `tail -f` of a local file holds one inotify instance, or says that it could not get one.
const HOLD: &str = "touch /dev/shm/file;
    for i in $(seq 150); do tail -f /dev/shm/file >/dev/null 2>>/tmp/said & done; sleep 100";

#[tokio::test]
async fn inotify_instances_run_out_for_one_sandbox_and_for_nobody_else() {
    const TEST: &str = "inotify_instances_run_out_for_one_sandbox_and_for_nobody_else";
    if !is_root() {
        return skip(TEST, "without root all sandboxes share the caller's one id");
    }
    let stage = Stage::new();
    let (greedy, neighbour) = (stage.start(Limits::default()).await, stage.start(Limits::default()).await);

    stage.begin(greedy, HOLD).await;
    // Each writes its line in pieces, so that two may share one: it is said as often as it is read, not as lines.
    let refused = "for i in $(seq 600); do
            n=$(grep -o 'inotify cannot be used' /tmp/said | wc -l); test $n -ge 22 && break; sleep 0.05;
        done; test $n -ge 22 -a $n -lt 40";
    assert_eq!(stage.code(greedy, refused).await, Some(0));

    let can =
        "f=$(mktemp -p /dev/shm); said=$(timeout 0.3 tail -f $f 2>&1 >/dev/null); rm $f; test -z \"$said\"";
    assert_eq!(stage.code(neighbour, can).await, Some(0));
    let host = Command::new("sh").args(["-c", can]).stdin(Stdio::null()).status().unwrap();
    assert!(host.success());
}

#[tokio::test]
async fn the_namespaces_belong_to_the_sandbox_and_not_to_root() {
    const TEST: &str = "the_namespaces_belong_to_the_sandbox_and_not_to_root";
    if !is_root() {
        return skip(TEST, "without root there is only the caller");
    }
    let stage = Stage::new();
    let body = stage.start(Limits::default()).await;

    // Nobody inside is anybody outside, and the owner of all there is, is inside.
    let owned = "test \"$(stat -c %u:%g / /etc /etc/passwd /workspace /root | sort -u)\" = 0:0";
    assert_eq!(stage.code(body, owned).await, Some(0));
    let kept = "grep -q '^ *0 *[123][0-9]* *65536$' /proc/self/uid_map";
    assert_eq!(stage.code(body, kept).await, Some(0));
    until("its ids are noted", || std::fs::read_dir(stage.data.path().join("ids")).unwrap().count() == 1)
        .await;
}
