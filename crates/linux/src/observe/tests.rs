//! Observations of instances whose keeper does not answer.

use std::os::unix::net::UnixListener;
use std::sync::Arc;

use pinfold_keeper_wire::Ended;
use pinfold_lifecycle::Generation;

use super::*;
use crate::paths::make_directory;
use crate::{LinuxConfig, SpawnerProgram};

fn provider(data: &Path) -> LinuxProvider {
    LinuxProvider::open(LinuxConfig {
        data: data.to_owned(),
        store_id: 1,
        spawner: SpawnerProgram { program: "/nonexistent".into(), arguments: Vec::new() },
        clock: Arc::new(|| Timestamp(0)),
    })
    .unwrap()
}

/// On a busy machine an answer may take longer than the timeout. That must not end an instance.
#[tokio::test(start_paused = true)]
async fn a_keeper_that_does_not_answer_in_time_is_not_reported_broken() {
    let data = tempfile::tempdir().unwrap();
    let provider = provider(data.path());
    let instance = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
    let paths = provider.data_paths.of(instance);
    make_directory(&paths.control, 0o700).unwrap();
    let silent = UnixListener::bind(paths.socket()).unwrap();

    let evidence = provider.observe_sandbox(instance.sandbox).await;
    assert!(matches!(evidence, Evidence::Unknown { .. }), "{evidence:?}");

    drop(silent);
    let Evidence::Present(instances) = provider.observe_sandbox(instance.sandbox).await else {
        panic!("its directory is there")
    };
    assert!(!instances[0].whole, "nothing listens on its socket");
    std::fs::remove_dir_all(&paths.control).unwrap();
}

#[test]
fn survived_limits_are_reported_as_a_warning() {
    let detail = |memory_limit, process_limit| {
        let survived = LimitHits { memory_limit, process_limit };
        outcome(&Ended { by: EndedBy::Itself, code: Some(0), signal: None, limit_hits: survived }).detail
    };

    assert_eq!(detail(0, 0), None);
    assert_eq!(detail(3, 0).unwrap(), "warning: the sandbox ran into its memory limit 3 times");
    assert_eq!(
        detail(1, 2).unwrap(),
        "warning: the sandbox ran into its memory limit once, the sandbox ran into its process limit 2 times"
    );
}
