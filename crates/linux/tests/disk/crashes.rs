//! A spawner killed at each step: what it had created is found by name and removed.

use std::path::PathBuf;

use pinfold_lifecycle::Limits;
use pinfold_linux::SpawnerProgram;
use pinfold_provider::Provider;
use pinfold_test_support::skip;

use crate::fixture::{Fixture, is_root, spawner};

/// A spawner that is killed at the n-th call of this system call.
fn killed_at(call: &str, time: u32) -> SpawnerProgram {
    let plain = spawner();
    let inject = format!("inject={call}:signal=KILL:when={time}");
    let trace = format!("trace={call}");
    let arguments = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let mut arguments: Vec<_> = arguments.iter().map(Into::into).collect();
    arguments.push(plain.program.into());
    SpawnerProgram { program: PathBuf::from("/usr/bin/strace"), arguments }
}

#[tokio::test]
async fn everything_a_killed_spawner_leaves_is_found_and_removed_by_a_stop() {
    const TEST: &str = "everything_a_killed_spawner_leaves_is_found_and_removed_by_a_stop";
    if !is_root() || !killed_at("", 1).program.exists() {
        return skip(TEST, "needs root and strace");
    }
    // A loop device is attached by ioctl, then mounted, then passed on through clone; the last call maps the ids.
    let steps = [("ioctl", 1), ("ioctl", 2), ("fsopen", 1), ("fsconfig", 3), ("fsmount", 1), ("mkdirat", 1)];
    let later = [("open_tree", 2), ("mknodat", 1), ("clone3", 1), ("mount_setattr", 1), ("mount_setattr", 2)];
    for (call, time) in steps.into_iter().chain(later) {
        let mut fixture = Fixture::with_spawner(killed_at(call, time));
        let broken = std::sync::Arc::clone(&fixture.provider);
        let (instance, started) =
            fixture.try_start(Limits { disk_mb: Some(20_000), ..Limits::default() }).await;
        assert!(started.is_err(), "{call} {time} was never reached");
        drop(broken);
        fixture.provider = std::sync::Arc::new(fixture.another_provider(spawner()));

        let found = fixture.provider.discover().await.unwrap();
        assert_eq!(
            found.found.iter().map(|found| found.instance).collect::<Vec<_>>(),
            [instance],
            "{call} {time}"
        );
        fixture.stop(instance).await;

        assert_eq!(fixture.devices(), 0, "{call} {time}");
        assert_eq!(std::fs::read_dir(fixture.storage_directory()).unwrap().count(), 0, "{call} {time}");
    }
}
