//! One scheduled turn of cleanup over real sandboxes, older than anything allows: it ends those that are stuck, in
//! whichever way, and none that is at work; and somebody is alerted for what is wrong, and for nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod told;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pinfold_crowd::{Alerts, Ground, Pace, Size, gather};
use pinfold_lifecycle::{Cause, SandboxId};
use pinfold_linux::NurseryProgram;

use told::Told;

/// A crowd is 160 and 10: that is what `cargo xtask bench cleanup` has.
const SIZE: Size = Size { at_work: 28, of_each: 3 };

async fn is_right(ground: Arc<Ground>, told: Told) {
    let crowd = gather(&ground, SIZE).await.unwrap();
    let served = crowd.grow_old(&ground).await.unwrap();
    let before = Alerts::told_by(&served).await.unwrap();
    assert_eq!(before, Alerts::expected_before_the_turn(&crowd), "before the turn");

    let run = ground.first_turn(&served).await.unwrap();
    served.look(&ground).await.unwrap();

    ground.has_ended_exactly_the_stuck(&crowd, &run).await.unwrap();
    let after = Alerts::told_by(&served).await.unwrap();
    assert_eq!(after, Alerts::expected_after_the_turn(&crowd), "after the turn");

    let again = served.client.clean_up(false).await.unwrap();
    served.look(&ground).await.unwrap();

    assert_eq!((again.found, again.kept), (vec![], vec![]));
    let now = Alerts::told_by(&served).await.unwrap();
    assert_eq!(now.fired, after.fired, "after another one that had nothing to do");
    the_log_tells(&told.lines(), &crowd.stuck);
    served.end().await.unwrap();
}

fn the_log_tells(lines: &[String], stuck: &BTreeMap<SandboxId, Cause>) {
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!((count("Sandbox cleanup started"), count("Cleanup completed")), (2, 2), "{lines:#?}");
    assert_eq!(count(&format!("Found {} sandboxes to cleanup", stuck.len())), 1, "{lines:#?}");
    assert_eq!(count("Found 0 sandboxes to cleanup"), 1, "{lines:#?}");
    assert_eq!(count(&format!("cleaned={} ", stuck.len())), 1, "{lines:#?}");
    for id in stuck.keys() {
        assert_eq!(count(&format!("Cleaned up {id}")), 1, "{id}: {lines:#?}");
    }
    assert_eq!((count("Failed to cleanup"), count("Cleanup job failed")), (0, 0), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_scheduled_cleanup_ends_exactly_what_is_stuck_and_alerts_for_exactly_that() {
    let told = Told::begin();
    let nursery = NurseryProgram {
        program: env!("CARGO_BIN_EXE_pinfold-crowd").into(),
        arguments: vec!["__nursery".into()],
    };
    let pace = Pace(Duration::from_millis(50));
    let ground = Arc::new(Ground::begin(tempfile::tempdir().unwrap(), nursery, pace).await.unwrap());

    let tested = tokio::spawn(is_right(ground.clone(), told)).await;

    let ended = ground.end().await;
    if let Err(failed) = tested {
        std::panic::resume_unwind(failed.into_panic());
    }
    ended.unwrap();
}
