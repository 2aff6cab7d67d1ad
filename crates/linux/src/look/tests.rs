//! Looks at bodies that no keeper speaks for.

use std::os::unix::net::UnixListener;
use std::sync::Arc;

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
    let body = Body { sandbox: SandboxId(1), generation: Generation(1) };
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
