//! Reading a log: one order, bounded pages, gaps, and hostile output.

use std::time::Duration;

use pinfold_lifecycle::{Generation, SandboxId};
use pinfold_logs::{Cursor, EntryContent, Gap, GapReason, PageLimit, ReadError, Source};
use pinfold_output_log::{OutputStream, RingSize};

use crate::fixture::{Fixture, ID, all, entries, text, without_positions, written};

#[tokio::test]
async fn output_and_control_lines_come_in_one_order_with_their_times() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "out\n");
    fixture.write_to(7, OutputStream::Stderr, "err\n");
    fixture.write(7, "out again\n");
    fixture.finish(7).await;
    fixture.end().await;

    let page = fixture.logs.read(ID, &Cursor::default(), all()).await.unwrap();

    let lines: Vec<_> = page.entries.iter().map(|entry| (entry.source, text(entry))).collect();
    let execution = pinfold_lifecycle::ExecutionId(7);
    let control = |line: &str| (Source::Control, line.replace("exe", &execution.to_string()));
    let expected = [
        control("sandbox created"),
        control("launch of instance 1 began"),
        control("instance 1 launched"),
        control("ready: instance 1 was probed"),
        control("exe queued"),
        control("exe started"),
        (Source::Stdout, "out\n".into()),
        (Source::Stderr, "err\n".into()),
        (Source::Stdout, "out again\n".into()),
        control("exe exited with code 0"),
        control("stopped_by_user: stopping the sandbox"),
        control("stop of instance 1 began (attempt 1)"),
        control("instance 1 is gone"),
        control("sandbox ended: stopped_by_user"),
    ];
    assert_eq!(lines, expected);
    assert!(page.entries.is_sorted_by_key(|entry| entry.at));
    assert!(page.entries[1..].iter().all(|entry| entry.generation == Generation(1)));
    assert_eq!(page.last_activity, Some(fixture.driver.now));
    assert!(page.finished && !page.more);
}

#[tokio::test]
async fn pages_are_bounded_and_every_page_size_reads_the_same_log() {
    let mut fixture = Fixture::ready().await;
    for execution in [7, 8, 9] {
        fixture.start(execution).await;
    }
    for round in 0..20 {
        fixture.write(7 + round % 3, format!("{round}\n"));
    }
    fixture.finish(8).await;
    let whole = fixture.read_all().await;
    assert!(whole.is_sorted_by_key(|entry| entry.at), "output of several executions is sorted by time");

    for size in [1, 2, 3, 7, 100] {
        let (mut cursor, mut collected) = (Cursor::default(), Vec::new());
        loop {
            let page = fixture.logs.read(ID, &cursor, entries(size)).await.unwrap();
            assert!(page.entries.len() <= size);
            // Clients pass cursors as text.
            cursor = page.next.to_string().parse().unwrap();
            collected.extend(page.entries);
            if !page.more {
                break;
            }
        }
        assert_eq!(collected, whole);
    }
    let heavy = PageLimit { entries: 1_000, bytes: 1 };
    assert_eq!(fixture.logs.read(ID, &Cursor::default(), heavy).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn every_entry_is_a_cursor_to_exactly_the_rest() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "a");
    fixture.start(8).await;
    fixture.write(8, "b");
    fixture.write(7, "c");
    fixture.finish(7).await;
    fixture.write(8, "d");
    let whole = fixture.read_all().await;

    for (index, entry) in whole.iter().enumerate() {
        assert_eq!(fixture.read_after(&entry.seq).await, whole[index + 1..]);
    }
}

#[tokio::test]
async fn output_of_an_execution_without_a_start_record_is_read_before_its_end() {
    let mut fixture = Fixture::ready().await;
    fixture.request_execution(7).await;
    fixture.write(7, "early");
    let before = fixture.read_all().await;
    assert_eq!(written(&before, 7), "");
    fixture
        .driver
        .request(
            1,
            pinfold_lifecycle::Request::Stop {
                cause: pinfold_lifecycle::Cause::Cancelled,
                grace_ms: Some(0),
            },
        )
        .await;
    fixture.driver.stop_succeeds(1).await;

    let whole = fixture.read_all().await;

    assert_eq!(written(&whole, 7), "early");
    for (index, entry) in whole.iter().enumerate() {
        assert_eq!(fixture.read_after(&entry.seq).await, whole[index + 1..]);
    }
}

#[tokio::test]
async fn rotated_output_is_a_gap_with_its_bytes_also_for_a_returning_reader() {
    let mut fixture = Fixture::ready().await;
    fixture.driver.execute(1, 7).await;
    fixture.begin_output(7, RingSize { segments: 2, segment_bytes: 100 });
    fixture.record_start(7).await;
    fixture.write(7, "first");
    let seen = fixture.read_all().await;
    for _ in 0..50 {
        fixture.write(7, [b'x'; 30]);
    }

    let rest = fixture.read_after(&seen.last().unwrap().seq).await;

    let EntryContent::Gap(Gap { reason: GapReason::Rotated, bytes: Some(bytes) }) = rest[0].content else {
        panic!("{rest:?}")
    };
    assert_eq!(bytes + written(&rest, 7).len() as u64, 50 * 30);
    assert!(text(&rest[0]).contains(&format!("{bytes} bytes")));
    let fresh = fixture.read_all().await;
    let gap = fresh.iter().find_map(pinfold_logs::LogEntry::gap).unwrap();
    assert_eq!(gap.bytes, Some(bytes + 5));
}

#[tokio::test]
async fn hostile_output_is_stored_unchanged_and_shown_escaped() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    let hostile = "\x1b]0;owned\x07\x1b[2J";
    fixture.write(7, hostile);
    fixture.write(7, b"\xff\xfe\x1b[31m");
    fixture.write(7, "y".repeat(100_000));
    fixture.finish(7).await;

    let whole = fixture.read_all().await;

    let own: Vec<_> = whole.iter().filter(|entry| entry.source == Source::Stdout).collect();
    assert_eq!(own[0].content, EntryContent::Text(hostile.into()));
    assert_eq!(own[0].escaped(), "\\x1b]0;owned\\x07\\x1b[2J");
    assert_eq!(own[1].content, EntryContent::Bytes(b"\xff\xfe\x1b[31m".to_vec()));
    assert_eq!(own[1].base64().as_deref(), Some("//4bWzMxbQ=="));
    assert_eq!(own[1].escaped(), "\\xff\\xfe\\x1b[31m");
    assert!(own[2..].iter().all(|entry| text(entry).len() <= 16 * 1024));
    assert_eq!(own[2..].iter().map(|entry| text(entry).len()).sum::<usize>(), 100_000);
}

#[tokio::test]
async fn damaged_output_is_a_gap_and_the_rest_is_read() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "good");
    let file = fixture.outputs().join(format!("{}.0.log", pinfold_lifecycle::ExecutionId(7)));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend([0xff; 64]);
    std::fs::write(&file, bytes).unwrap();
    fixture.finish(7).await;

    let whole = fixture.read_all().await;

    assert_eq!(written(&whole, 7), "good");
    assert!(whole.iter().any(|it| it.gap().is_some_and(|gap| gap.reason == GapReason::Unreadable)));
    assert!(text(whole.last().unwrap()).contains("exited"));
    for (index, entry) in whole.iter().enumerate() {
        assert_eq!(
            without_positions(&fixture.read_after(&entry.seq).await),
            without_positions(&whole[index + 1..])
        );
    }
}

#[tokio::test]
async fn unknown_sandbox_has_no_log() {
    let fixture = Fixture::ready().await;

    let read = fixture.logs.read(SandboxId(9), &Cursor::default(), all()).await;

    assert!(matches!(read, Err(ReadError::NoSuchLog { .. })));
    assert!(matches!(fixture.logs.last_activity(SandboxId(9)).await, Err(ReadError::NoSuchLog { .. })));
}

#[tokio::test]
async fn follower_waits_for_entries_until_its_timeout_and_ends_with_the_sandbox() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    let mut follow = fixture.logs.follow(ID, Cursor::default(), all());
    let begun = follow.next(Duration::from_secs(10)).await.unwrap();
    let nothing = follow.next(Duration::from_millis(30)).await.unwrap();
    assert!(nothing.entries.is_empty() && !nothing.finished && nothing.next == begun.next);

    let (came, ()) = tokio::join!(follow.next(Duration::from_secs(10)), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        fixture.write(7, "later");
    });
    let came = came.unwrap();
    fixture.finish(7).await;
    fixture.end().await;
    let mut rest = Vec::new();
    let last = loop {
        let page = follow.next(Duration::from_secs(10)).await.unwrap();
        rest.extend(page.entries.clone());
        if page.finished {
            break page;
        }
        assert!(!page.entries.is_empty(), "nothing came in ten seconds");
    };

    assert_eq!(written(&came.entries, 7), "later");
    assert_eq!(came.last_activity, Some(came.entries[0].at));
    assert!(text(rest.last().unwrap()).starts_with("sandbox ended"));
    assert_eq!(last.next, rest.last().unwrap().seq);
}

#[tokio::test]
async fn last_activity_includes_output_after_the_last_record() {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    let recorded = fixture.logs.last_activity(ID).await.unwrap();
    let file = fixture.outputs().join(format!("{}.0.log", pinfold_lifecycle::ExecutionId(7)));
    let later = std::time::UNIX_EPOCH + Duration::from_millis(1_900_000_000_000);
    std::fs::File::options().append(true).open(file).unwrap().set_modified(later).unwrap();

    let written = fixture.logs.last_activity(ID).await.unwrap();

    assert_eq!(recorded, Some(fixture.driver.now));
    assert_eq!(written.unwrap().0, 1_900_000_000_000);
}
