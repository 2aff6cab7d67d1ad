//! Logs moved to the object store: every reader reads the same entries as before.

use std::fs;

use pinfold_lifecycle::{ExecutionId, Generation, Request, Timestamp};
use pinfold_logs::{Cursor, GapReason, MoveOutcome, ReadError};
use pinfold_store::Retention;

use crate::fixture::{Fixture, ID, SANDBOX, all, entries, text, without_positions, written};

/// Runs concurrent executions, one of which fills several segments. Returns cursors taken on the way.
async fn run_executions(fixture: &mut Fixture) -> Vec<Cursor> {
    let mut cursors = vec![Cursor::default()];
    for execution in [7, 8] {
        fixture.start(execution).await;
    }
    for round in 0..10 {
        fixture.write(8, format!("eight {round}\n"));
        cursors.push(live_cursor(fixture).await);
        fixture.write(7, &format!("seven {round} 🦀").as_bytes()[..10]);
    }
    // A record between an incomplete character and the end of its execution.
    fixture.driver.advance_ms(1);
    fixture.start(9).await;
    fixture.finish(7).await;
    cursors.push(live_cursor(fixture).await);
    for round in 0..45 {
        fixture.write(8, format!("{round:>50000}\n"));
    }
    cursors.push(live_cursor(fixture).await);
    fixture.finish(8).await;
    fixture.end().await;
    cursors
}

/// The cursor of a reader that has read the first entries.
async fn live_cursor(fixture: &Fixture) -> Cursor {
    fixture.logs.read(ID, &Cursor::default(), entries(12)).await.unwrap().next
}

#[tokio::test]
async fn every_cursor_reads_the_same_before_and_after_the_move() {
    let mut fixture = Fixture::ready().await;
    let mut cursors = run_executions(&mut fixture).await;
    let whole = fixture.read_all().await;
    // Every small entry, and every thirtieth large one.
    let (small, large) = whole.split_at(40);
    cursors.extend(small.iter().chain(large.iter().step_by(30)).map(|entry| entry.seq.clone()));
    let (some, mut before) = (|| entries(30), Vec::new());
    for cursor in &cursors {
        before.push(fixture.logs.read(ID, cursor, some()).await.unwrap().entries);
    }
    let activity = fixture.logs.last_activity(ID).await.unwrap();

    let moved = fixture.logs.move_one(ID).await.unwrap();

    assert_eq!(moved, MoveOutcome::Moved { entries: whole.len() as u64 });
    assert!(!fixture.outputs().exists());
    let objects = fixture.directory.join("objects/logs").join(ID.to_string());
    assert!(fs::read_dir(objects).unwrap().count() > 3, "several segments and their manifest");
    for (cursor, before) in cursors.iter().zip(before) {
        assert_eq!(fixture.logs.read(ID, cursor, some()).await.unwrap().entries, before);
    }
    assert_eq!(fixture.read_all().await, whole);
    assert_eq!(fixture.logs.last_activity(ID).await.unwrap(), activity);
    assert!(fixture.logs.read(ID, &Cursor::default(), all()).await.unwrap().finished);
}

#[tokio::test]
async fn reader_that_saw_another_order_misses_and_repeats_nothing() {
    let mut fixture = Fixture::ready().await;
    for execution in [7, 8] {
        fixture.start(execution).await;
    }
    fixture.write(8, "b1");
    // The other execution's output has an earlier time, but is written after the first read.
    let seen = fixture.read_all().await;
    fixture.driver.now = Timestamp(fixture.driver.now.0 - 5);
    fixture.write(7, "a1");
    fixture.finish(7).await;
    fixture.end().await;
    let canonical = fixture.read_all().await;
    let before = fixture.read_after(&seen.last().unwrap().seq).await;

    fixture.logs.move_one(ID).await.unwrap();

    let after = fixture.read_after(&seen.last().unwrap().seq).await;
    assert_ne!(without_positions(&[seen.clone(), before.clone()].concat()), without_positions(&canonical));
    assert_eq!(after, before);
    assert_eq!(written(&after, 7), "a1");
    assert_eq!(written(&after, 8), "");
}

#[tokio::test]
async fn output_of_an_execution_without_a_start_record_is_moved_in_order() {
    let mut fixture = Fixture::ready().await;
    fixture.request_execution(7).await;
    fixture.write(7, "early");
    fixture.end().await;
    let whole = fixture.read_all().await;

    fixture.logs.move_one(ID).await.unwrap();

    assert_eq!(written(&whole, 7), "early");
    for (index, entry) in whole.iter().enumerate() {
        assert_eq!(fixture.read_after(&entry.seq).await, whole[index + 1..]);
    }
}

#[tokio::test]
async fn log_is_moved_only_when_the_instance_is_proven_gone() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "alive");

    assert_eq!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::NotGone);
    let (cause, grace_ms) = (pinfold_lifecycle::Cause::StoppedByUser, None);
    fixture.driver.request(SANDBOX, Request::Stop { cause, grace_ms }).await;
    assert_eq!(fixture.logs.move_all().await.unwrap().moved, []);
    fixture.driver.stop_succeeds(SANDBOX).await;

    assert_eq!(fixture.logs.move_all().await.unwrap().moved, [ID]);
    assert_eq!(fixture.logs.move_all().await.unwrap().moved, []);
    assert_eq!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::Nothing);
    assert_eq!(written(&fixture.read_all().await, 7), "alive");
}

#[tokio::test]
async fn moved_log_is_readable_without_record_and_history() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "kept");
    fixture.finish(7).await;
    fixture.end().await;
    let whole = fixture.read_all().await;
    let later = fixture.driver.now.after_ms(1);
    let records = Retention { records_before: later, history_before: Timestamp(0), now: later };
    fixture.driver.store.prune(records, 10).await.unwrap();
    assert!(fixture.driver.store.load(ID).await.unwrap().is_none());

    assert!(matches!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::Moved { .. }));
    fixture.driver.store.prune(Retention { history_before: later, ..records }, 10).await.unwrap();

    assert_eq!(fixture.read_all().await, whole);
    assert_eq!(fixture.read_after(&whole[3].seq).await, whole[4..]);
}

#[tokio::test]
async fn records_after_a_move_are_read_and_moved_too() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "x");
    fixture.finish(7).await;
    fixture.end().await;
    fixture.logs.move_one(ID).await.unwrap();
    let whole = fixture.read_all().await;

    // A delayed launch creates its output directory, and its instance is found as an orphan.
    fs::create_dir(fixture.outputs()).unwrap();
    fixture.driver.request(SANDBOX, Request::LeaseStray { generation: Generation(2) }).await;
    fixture.driver.stop_succeeds(SANDBOX).await;
    let later = fixture.read_all().await;
    let moved = fixture.logs.move_one(ID).await.unwrap();

    assert_eq!(without_positions(&later[..whole.len()]), without_positions(&whole));
    assert!(text(&later[whole.len()]).starts_with("orphaned sandbox"));
    assert_eq!(moved, MoveOutcome::Moved { entries: (later.len() - whole.len()) as u64 });
    assert_eq!(fixture.read_all().await, later);
}

#[tokio::test]
async fn damaged_segment_is_an_error() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "x");
    fixture.finish(7).await;
    fixture.end().await;
    fixture.logs.move_one(ID).await.unwrap();
    let segment = fixture.directory.join("objects/logs").join(ID.to_string()).join("000000.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replace("\"x\"", "\"y\"")).unwrap();

    let read = fixture.logs.read(ID, &Cursor::default(), all()).await;

    assert!(matches!(read, Err(ReadError::Archive(_))), "{read:?}");
}

#[tokio::test]
async fn missing_output_is_a_gap() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "x");
    fixture.finish(7).await;
    fs::remove_dir_all(fixture.outputs()).unwrap();

    let whole = fixture.read_all().await;

    let gap = whole.iter().find(|entry| entry.gap().is_some()).unwrap();
    assert_eq!((gap.gap().unwrap().reason, gap.execution), (GapReason::NotKept, Some(ExecutionId(7))));
    assert!(text(whole.last().unwrap()).contains("exited"));
}
