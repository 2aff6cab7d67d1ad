//! The log of what is gone, in the object store: nobody who reads it can tell.

use std::fs;

use pinfold_lifecycle::{ExecutionId, Generation, Request, Timestamp};
use pinfold_logs::{Cursor, GapReason, MoveOutcome, ReadError};
use pinfold_store::Retention;

use crate::stage::{ID, SANDBOX, Stage, all, entries, text, told, written};

/// Some executions side by side, and one that fills several segments.
async fn play(stage: &mut Stage) -> Vec<Cursor> {
    let mut cursors = vec![Cursor::default()];
    for execution in [7, 8] {
        stage.start(execution).await;
    }
    for turn in 0..10 {
        stage.write(8, format!("eight {turn}\n"));
        cursors.push(live_cursor(stage).await);
        stage.write(7, &format!("seven {turn} 🦀").as_bytes()[..10]);
    }
    // Between half a character and the end that tells that it stays half.
    stage.world.advance_ms(1);
    stage.start(9).await;
    stage.finish(7).await;
    cursors.push(live_cursor(stage).await);
    for turn in 0..45 {
        stage.write(8, format!("{turn:>50000}\n"));
    }
    cursors.push(live_cursor(stage).await);
    stage.finish(8).await;
    stage.end().await;
    cursors
}

/// Of a reader that comes now for a part of what is there.
async fn live_cursor(stage: &Stage) -> Cursor {
    stage.logs.read(ID, &Cursor::default(), entries(12)).await.unwrap().next
}

#[tokio::test]
async fn from_every_place_the_same_is_read_before_and_after_the_move() {
    let mut stage = Stage::ready().await;
    let mut cursors = play(&mut stage).await;
    let whole = stage.read_all().await;
    // All of the many small entries, and some of those that fill segments.
    let (small, large) = whole.split_at(40);
    cursors.extend(small.iter().chain(large.iter().step_by(30)).map(|entry| entry.seq.clone()));
    let (some, mut before) = (|| entries(30), Vec::new());
    for cursor in &cursors {
        before.push(stage.logs.read(ID, cursor, some()).await.unwrap().entries);
    }
    let activity = stage.logs.last_activity(ID).await.unwrap();

    let moved = stage.logs.move_one(ID).await.unwrap();

    assert_eq!(moved, MoveOutcome::Moved { entries: whole.len() as u64 });
    assert!(!stage.outputs().exists());
    let objects = stage.directory.join("objects/logs").join(ID.to_string());
    assert!(fs::read_dir(objects).unwrap().count() > 3, "several segments and their manifest");
    for (cursor, before) in cursors.iter().zip(before) {
        assert_eq!(stage.logs.read(ID, cursor, some()).await.unwrap().entries, before);
    }
    assert_eq!(stage.read_all().await, whole);
    assert_eq!(stage.logs.last_activity(ID).await.unwrap(), activity);
    assert!(stage.logs.read(ID, &Cursor::default(), all()).await.unwrap().finished);
}

#[tokio::test]
async fn a_reader_that_saw_another_order_misses_nothing_and_sees_nothing_twice() {
    let mut stage = Stage::ready().await;
    for execution in [7, 8] {
        stage.start(execution).await;
    }
    stage.write(8, "b1");
    // The other has written before that, but it is seen after.
    let seen = stage.read_all().await;
    stage.world.now = Timestamp(stage.world.now.0 - 5);
    stage.write(7, "a1");
    stage.finish(7).await;
    stage.end().await;
    let canonical = stage.read_all().await;
    let before = stage.read_after(&seen.last().unwrap().seq).await;

    stage.logs.move_one(ID).await.unwrap();

    let after = stage.read_after(&seen.last().unwrap().seq).await;
    assert_ne!(told(&[seen.clone(), before.clone()].concat()), told(&canonical));
    assert_eq!(after, before);
    assert_eq!(written(&after, 7), "a1");
    assert_eq!(written(&after, 8), "");
}

#[tokio::test]
async fn what_an_execution_wrote_unheard_of_is_moved_to_its_place() {
    let mut stage = Stage::ready().await;
    stage.ask(7).await;
    stage.write(7, "early");
    stage.end().await;
    let whole = stage.read_all().await;

    stage.logs.move_one(ID).await.unwrap();

    assert_eq!(written(&whole, 7), "early");
    for (index, entry) in whole.iter().enumerate() {
        assert_eq!(stage.read_after(&entry.seq).await, whole[index + 1..]);
    }
}

#[tokio::test]
async fn only_what_is_proven_gone_is_moved() {
    let mut stage = Stage::ready().await;
    stage.start(7).await;
    stage.write(7, "alive");

    assert_eq!(stage.logs.move_one(ID).await.unwrap(), MoveOutcome::NotGone);
    let (cause, forced) = (pinfold_lifecycle::Cause::StoppedByUser, false);
    stage.world.request(SANDBOX, Request::Stop { cause, forced }).await;
    assert_eq!(stage.logs.move_all().await.unwrap().moved, []);
    stage.world.stop_succeeds(SANDBOX).await;

    assert_eq!(stage.logs.move_all().await.unwrap().moved, [ID]);
    assert_eq!(stage.logs.move_all().await.unwrap().moved, []);
    assert_eq!(stage.logs.move_one(ID).await.unwrap(), MoveOutcome::Nothing);
    assert_eq!(written(&stage.read_all().await, 7), "alive");
}

#[tokio::test]
async fn a_log_needs_neither_record_nor_history_once_it_is_moved() {
    let mut stage = Stage::ready().await;
    stage.start(7).await;
    stage.write(7, "kept");
    stage.finish(7).await;
    stage.end().await;
    let whole = stage.read_all().await;
    let later = stage.world.now.after_ms(1);
    let records = Retention { records_before: later, history_before: Timestamp(0), now: later };
    stage.world.store.prune(records, 10).await.unwrap();
    assert!(stage.world.store.load(ID).await.unwrap().is_none());

    assert!(matches!(stage.logs.move_one(ID).await.unwrap(), MoveOutcome::Moved { .. }));
    stage.world.store.prune(Retention { history_before: later, ..records }, 10).await.unwrap();

    assert_eq!(stage.read_all().await, whole);
    assert_eq!(stage.read_after(&whole[3].seq).await, whole[4..]);
}

#[tokio::test]
async fn what_is_recorded_after_the_move_is_read_after_it_and_moved_too() {
    let mut stage = Stage::ready().await;
    stage.start(7).await;
    stage.write(7, "x");
    stage.finish(7).await;
    stage.end().await;
    stage.logs.move_one(ID).await.unwrap();
    let whole = stage.read_all().await;

    // A launch that slept through it all makes its directory, and a body of it is found.
    fs::create_dir(stage.outputs()).unwrap();
    stage.world.request(SANDBOX, Request::LeaseStray { generation: Generation(2) }).await;
    stage.world.stop_succeeds(SANDBOX).await;
    let later = stage.read_all().await;
    let moved = stage.logs.move_one(ID).await.unwrap();

    assert_eq!(told(&later[..whole.len()]), told(&whole));
    assert!(text(&later[whole.len()]).starts_with("orphaned sandbox"));
    assert_eq!(moved, MoveOutcome::Moved { entries: (later.len() - whole.len()) as u64 });
    assert_eq!(stage.read_all().await, later);
}

#[tokio::test]
async fn a_damaged_segment_is_told() {
    let mut stage = Stage::ready().await;
    stage.start(7).await;
    stage.write(7, "x");
    stage.finish(7).await;
    stage.end().await;
    stage.logs.move_one(ID).await.unwrap();
    let segment = stage.directory.join("objects/logs").join(ID.to_string()).join("000000.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replace("\"x\"", "\"y\"")).unwrap();

    let read = stage.logs.read(ID, &Cursor::default(), all()).await;

    assert!(matches!(read, Err(ReadError::Archive(_))), "{read:?}");
}

#[tokio::test]
async fn output_that_lies_nowhere_is_told_as_a_gap() {
    let mut stage = Stage::ready().await;
    stage.start(7).await;
    stage.write(7, "x");
    stage.finish(7).await;
    fs::remove_dir_all(stage.outputs()).unwrap();

    let whole = stage.read_all().await;

    let gap = whole.iter().find(|entry| entry.gap().is_some()).unwrap();
    assert_eq!((gap.gap().unwrap().reason, gap.execution), (GapReason::NotKept, Some(ExecutionId(7))));
    assert!(text(whole.last().unwrap()).contains("exited"));
}
