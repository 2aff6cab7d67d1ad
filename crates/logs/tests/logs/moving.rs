//! The log of what is gone, in the object store: nobody who reads it can tell.

use std::fs;

use pinfold_lifecycle::{ExecutionId, Generation, Request, Timestamp};
use pinfold_logs::{Cursor, GapReason, MoveOutcome, ReadError};
use pinfold_store::Retention;

use crate::fixture::{Fixture, ID, SANDBOX, all, entries, text, without_cursors, written};

/// Some executions side by side, and one that fills several segments.
async fn play(fixture: &mut Fixture) -> Vec<Cursor> {
    let mut cursors = vec![Cursor::default()];
    for execution in [7, 8] {
        fixture.start(execution).await;
    }
    for turn in 0..10 {
        fixture.write(8, format!("eight {turn}\n"));
        cursors.push(live_cursor(fixture).await);
        fixture.write(7, &format!("seven {turn} 🦀").as_bytes()[..10]);
    }
    // Between half a character and the end that tells that it stays half.
    fixture.world.advance_ms(1);
    fixture.start(9).await;
    fixture.finish(7).await;
    cursors.push(live_cursor(fixture).await);
    for turn in 0..45 {
        fixture.write(8, format!("{turn:>50000}\n"));
    }
    cursors.push(live_cursor(fixture).await);
    fixture.finish(8).await;
    fixture.end().await;
    cursors
}

/// Of a reader that comes now for a part of what is there.
async fn live_cursor(fixture: &Fixture) -> Cursor {
    fixture.logs.read(ID, &Cursor::default(), entries(12)).await.unwrap().next
}

#[tokio::test]
async fn from_every_place_the_same_is_read_before_and_after_the_move() {
    let mut fixture = Fixture::ready().await;
    let mut cursors = play(&mut fixture).await;
    let whole = fixture.read_all().await;
    // All of the many small entries, and some of those that fill segments.
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
async fn a_reader_that_saw_another_order_misses_nothing_and_sees_nothing_twice() {
    let mut fixture = Fixture::ready().await;
    for execution in [7, 8] {
        fixture.start(execution).await;
    }
    fixture.write(8, "b1");
    // The other has written before that, but it is seen after.
    let seen = fixture.read_all().await;
    fixture.world.now = Timestamp(fixture.world.now.0 - 5);
    fixture.write(7, "a1");
    fixture.finish(7).await;
    fixture.end().await;
    let canonical = fixture.read_all().await;
    let before = fixture.read_after(&seen.last().unwrap().seq).await;

    fixture.logs.move_one(ID).await.unwrap();

    let after = fixture.read_after(&seen.last().unwrap().seq).await;
    assert_ne!(without_cursors(&[seen.clone(), before.clone()].concat()), without_cursors(&canonical));
    assert_eq!(after, before);
    assert_eq!(written(&after, 7), "a1");
    assert_eq!(written(&after, 8), "");
}

#[tokio::test]
async fn what_an_execution_wrote_unheard_of_is_moved_to_its_place() {
    let mut fixture = Fixture::ready().await;
    fixture.request(7).await;
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
async fn only_what_is_proven_gone_is_moved() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "alive");

    assert_eq!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::NotGone);
    let (cause, forced) = (pinfold_lifecycle::Cause::StoppedByUser, false);
    fixture.world.request(SANDBOX, Request::Stop { cause, forced }).await;
    assert_eq!(fixture.logs.move_all().await.unwrap().moved, []);
    fixture.world.stop_succeeds(SANDBOX).await;

    assert_eq!(fixture.logs.move_all().await.unwrap().moved, [ID]);
    assert_eq!(fixture.logs.move_all().await.unwrap().moved, []);
    assert_eq!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::Nothing);
    assert_eq!(written(&fixture.read_all().await, 7), "alive");
}

#[tokio::test]
async fn a_log_needs_neither_record_nor_history_once_it_is_moved() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "kept");
    fixture.finish(7).await;
    fixture.end().await;
    let whole = fixture.read_all().await;
    let later = fixture.world.now.after_ms(1);
    let records = Retention { records_before: later, history_before: Timestamp(0), now: later };
    fixture.world.store.prune(records, 10).await.unwrap();
    assert!(fixture.world.store.load(ID).await.unwrap().is_none());

    assert!(matches!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::Moved { .. }));
    fixture.world.store.prune(Retention { history_before: later, ..records }, 10).await.unwrap();

    assert_eq!(fixture.read_all().await, whole);
    assert_eq!(fixture.read_after(&whole[3].seq).await, whole[4..]);
}

#[tokio::test]
async fn what_is_recorded_after_the_move_is_read_after_it_and_moved_too() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "x");
    fixture.finish(7).await;
    fixture.end().await;
    fixture.logs.move_one(ID).await.unwrap();
    let whole = fixture.read_all().await;

    // A launch that slept through it all makes its directory, and a body of it is found.
    fs::create_dir(fixture.outputs()).unwrap();
    fixture.world.request(SANDBOX, Request::LeaseStray { generation: Generation(2) }).await;
    fixture.world.stop_succeeds(SANDBOX).await;
    let later = fixture.read_all().await;
    let moved = fixture.logs.move_one(ID).await.unwrap();

    assert_eq!(without_cursors(&later[..whole.len()]), without_cursors(&whole));
    assert!(text(&later[whole.len()]).starts_with("orphaned sandbox"));
    assert_eq!(moved, MoveOutcome::Moved { entries: (later.len() - whole.len()) as u64 });
    assert_eq!(fixture.read_all().await, later);
}

#[tokio::test]
async fn a_damaged_segment_is_told() {
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
async fn output_that_lies_nowhere_is_told_as_a_gap() {
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
