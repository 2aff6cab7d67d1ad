//! Looks at bodies that no keeper speaks for.

use std::os::unix::net::UnixListener;
use std::sync::Arc;

use pinfold_keeper::wire::Ended;
use pinfold_lifecycle::Generation;

use super::*;
use crate::places::make;
use crate::{LinuxConfig, NurseryProgram};

fn provider(data: &Path) -> LinuxProvider {
    LinuxProvider::open(LinuxConfig {
        data: data.to_owned(),
        instance: 1,
        nursery: NurseryProgram { program: "/nonexistent".into(), arguments: Vec::new() },
        clock: Arc::new(|| Timestamp(0)),
    })
    .unwrap()
}

/// On a busy machine an answer may take longer than a look waits for it. Nobody may end a body for that.
#[tokio::test(start_paused = true)]
async fn a_keeper_that_does_not_answer_in_time_is_not_called_broken() {
    let data = tempfile::tempdir().unwrap();
    let provider = provider(data.path());
    let body = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
    let places = provider.grounds.of(body);
    make(&places.control, 0o700).unwrap();
    let silent = UnixListener::bind(places.socket()).unwrap();

    let evidence = provider.look_at(body.sandbox).await;
    assert!(matches!(evidence, Evidence::Unknown { .. }), "{evidence:?}");

    drop(silent);
    let Evidence::Present(bodies) = provider.look_at(body.sandbox).await else {
        panic!("its directory is there")
    };
    assert!(!bodies[0].whole, "nobody listens any more, and nobody ever will");
    std::fs::remove_dir_all(&places.control).unwrap();
}

#[test]
fn limits_that_were_survived_are_told_as_a_warning() {
    let told = |memory_limit, process_limit| {
        let survived = Survived { memory_limit, process_limit };
        outcome(&Ended { by: EndedBy::Itself, code: Some(0), signal: None, survived }).detail
    };

    assert_eq!(told(0, 0), None);
    assert_eq!(told(3, 0).unwrap(), "warning: the sandbox ran into its memory limit 3 times");
    assert_eq!(
        told(1, 2).unwrap(),
        "warning: the sandbox ran into its memory limit once, the sandbox ran into its process limit 2 times"
    );
}
