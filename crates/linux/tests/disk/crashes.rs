//! The maker of bodies killed at each step on the way: what it had made is found by its mark and removed.

use std::path::PathBuf;

use pinfold_lifecycle::Limits;
use pinfold_linux::NurseryProgram;
use pinfold_provider::Provider;

use crate::stage::{Stage, is_root, nursery, skip};

/// A nursery that is killed when it makes this call for the n-th time.
fn killed_at(call: &str, time: u32) -> NurseryProgram {
    let plain = nursery();
    let inject = format!("inject={call}:signal=KILL:when={time}");
    let trace = format!("trace={call}");
    let arguments = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let mut arguments: Vec<_> = arguments.iter().map(Into::into).collect();
    arguments.push(plain.program.into());
    NurseryProgram { program: PathBuf::from("/usr/bin/strace"), arguments }
}

#[tokio::test]
async fn a_nursery_killed_at_any_step_leaves_nothing_that_a_stop_does_not_find() {
    const TEST: &str = "a_nursery_killed_at_any_step_leaves_nothing_that_a_stop_does_not_find";
    if !is_root() || !killed_at("", 1).program.exists() {
        return skip(TEST, "needs root and strace");
    }
    // A device is attached by an ioctl, then mounted, then handed on through a clone.
    let steps = [("ioctl", 1), ("ioctl", 2), ("fsopen", 1), ("fsconfig", 3), ("fsmount", 1), ("mkdirat", 1)];
    let later = [("open_tree", 2), ("clone3", 1), ("mount_setattr", 1), ("mount_setattr", 5)];
    for (call, time) in steps.into_iter().chain(later) {
        let mut stage = Stage::born_by(killed_at(call, time));
        let broken = std::sync::Arc::clone(&stage.provider);
        let (body, started) = stage.try_start(Limits { disk_mb: Some(20_000), ..Limits::default() }).await;
        assert!(started.is_err(), "{call} {time} was never reached");
        drop(broken);
        stage.provider = std::sync::Arc::new(stage.another_provider(nursery()));

        let found = stage.provider.discover().await.unwrap();
        assert_eq!(found.found.iter().map(|found| found.body).collect::<Vec<_>>(), [body], "{call} {time}");
        stage.stop(body).await;

        assert_eq!(stage.devices(), 0, "{call} {time}");
        assert_eq!(std::fs::read_dir(stage.places()).unwrap().count(), 0, "{call} {time}");
    }
}
