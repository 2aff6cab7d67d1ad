//! The host's programs inside a sandbox: through an overlay, or where the kernel allows no further one, as they are.

use std::process::Command;

use crate::sandbox::Sandbox;
use pinfold_linux::doctor::{Enforcement, diagnose};

/// Set in the second run, whose `/usr` is on an overlay of an overlay.
const STACKED: &str = "PINFOLD_TEST_STACKED";
const TEST: &str =
    "shared_programs::programs_of_a_host_on_stacked_overlays_are_bind_mounts_and_doctor_reports_it";
/// In a new mount namespace: two overlays over `/usr`, the most that the kernel allows.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs none "$1"
mkdir "$1/empty" "$1/none" "$1/lower" "$1/upper"
mount -t overlay none -o "lowerdir=$1/empty:/usr" "$1/lower"
mount -t overlay none -o "lowerdir=$1/none:$1/lower" "$1/upper"
mount --bind "$1/upper" /usr
exec "$2" --exact "$3"
"#;

fn own_inodes() -> Enforcement {
    let found = diagnose(&std::env::temp_dir());
    found.into_iter().find(|one| one.ability == "own inodes of shared directories").unwrap().enforcement
}

#[tokio::test]
async fn programs_of_the_host_are_seen_through_an_overlay_of_the_sandbox() {
    let sandbox = Sandbox::plain().await;

    let mounts = sandbox.says("grep ' /usr ' /proc/self/mountinfo").await;

    assert!(mounts.contains(" - overlay ") && mounts.contains("/empty:"), "{mounts}");
    assert_eq!(own_inodes(), Enforcement::Enforced);
}

#[tokio::test]
async fn programs_of_a_host_on_stacked_overlays_are_bind_mounts_and_doctor_reports_it() {
    if !rustix::process::getuid().is_root() {
        return pinfold_test_support::skip(TEST, "only root can mount overlays over /usr");
    }
    if std::env::var_os(STACKED).is_none() {
        let directory = tempfile::tempdir().unwrap();
        let mut again = Command::new("unshare");
        again.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(directory.path());
        again.arg(std::env::current_exe().unwrap()).arg(TEST).env(STACKED, "1");
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let sandbox = Sandbox::plain().await;

    let mounts = sandbox.says("grep ' /usr ' /proc/self/mountinfo").await;

    assert!(mounts.contains(" ro,") && mounts.contains("/none:"), "{mounts}");
    assert_eq!(own_inodes(), Enforcement::Missing);
}
