//! Concurrent readers, while several executions and the control plane write to the log and it is moved.

use std::path::Path;
use std::time::Duration;

use pinfold_lifecycle::{ExecutionId, SandboxId};
use pinfold_logs::{Cursor, LogEntry, PageLimit, Source};
use pinfold_store::Seq;

use crate::fixture::{Fixture, ID, written};

const EXECUTIONS: u128 = 5;
const LINES: usize = 200;

/// Reads page by page from the text form of the last cursor, and sometimes reopens everything in between.
async fn read_to_the_end(directory: &Path, mut random: fastrand::Rng) -> Vec<LogEntry> {
    let (mut seen, mut cursor) = (Vec::new(), Cursor::default().to_string());
    let mut fixture = Fixture::over(directory);
    loop {
        if random.u8(..20) == 0 {
            fixture = Fixture::over(directory);
        }
        let limit = PageLimit { entries: random.usize(1..40), bytes: random.usize(1..2_000) };
        let page = fixture.logs.read(ID, &cursor.parse().unwrap(), limit).await.unwrap();
        cursor = page.next.to_string();
        seen.extend(page.entries);
        if page.finished {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(random.u64(..3))).await;
    }
}

async fn follow_to_the_end(directory: &Path, mut random: fastrand::Rng) -> Vec<LogEntry> {
    let fixture = Fixture::over(directory);
    let limit = PageLimit { entries: random.usize(1..100), bytes: 10_000 };
    let mut follow = fixture.logs.follow(ID, Cursor::default(), limit);
    let mut seen = Vec::new();
    loop {
        // Some calls are cancelled half-way.
        let timeout = Duration::from_micros(random.u64(1..20_000));
        let Ok(page) = tokio::time::timeout(timeout, follow.next(Duration::from_secs(60))).await else {
            continue;
        };
        let page = page.unwrap();
        seen.extend(page.entries);
        if page.finished {
            return seen;
        }
    }
}

async fn write_everything(mut fixture: Fixture, mut random: fastrand::Rng) {
    let mut left: Vec<(u128, usize)> = Vec::new();
    let mut next = 1;
    while next <= EXECUTIONS || !left.is_empty() {
        if next <= EXECUTIONS && (left.is_empty() || random.u8(..50) == 0) {
            fixture.start(next).await;
            left.push((next, 0));
            next += 1;
        }
        let index = random.usize(..left.len());
        let (execution, line) = left[index];
        if line == LINES {
            fixture.finish(execution).await;
            left.swap_remove(index);
        } else {
            fixture.write(execution, format!("{execution} says {line}\n"));
            left[index].1 += 1;
        }
        if random.u8(..10) == 0 {
            tokio::time::sleep(Duration::from_micros(random.u64(..2_000))).await;
        }
    }
    fixture.end().await;
    fixture.logs.move_one(ID).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reader_sees_each_entry_once_in_the_order_of_its_source() {
    let own = tempfile::tempdir().unwrap();
    let directory = own.path();
    let fixture = Fixture::ready_in(directory).await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let random = |n: u64| fastrand::Rng::with_seed(seed.wrapping_add(n));

    let ((), first, second, third, fourth) = tokio::join!(
        write_everything(fixture, random(0)),
        read_to_the_end(directory, random(1)),
        read_to_the_end(directory, random(2)),
        follow_to_the_end(directory, random(3)),
        follow_to_the_end(directory, random(4)),
    );

    let fixture = Fixture::over(directory);
    let records = fixture.driver.store.history(Some(SandboxId(1)), Seq(0), 10_000).await.unwrap();
    for seen in [first, second, third, fourth, fixture.read_all().await] {
        for execution in 1..=EXECUTIONS {
            let lines: String = (0..LINES).map(|line| format!("{execution} says {line}\n")).collect();
            assert_eq!(written(&seen, execution), lines);
            assert_between_its_records(&seen, execution);
        }
        let recorded: Vec<_> =
            seen.iter().filter(|it| it.source == Source::Control).map(|it| it.at).collect();
        assert_eq!(recorded, records.iter().map(|row| row.record.at).collect::<Vec<_>>());
    }
}

/// Checks that the output comes after the start record and before the end record.
fn assert_between_its_records(seen: &[LogEntry], execution: u128) {
    let id = ExecutionId(execution);
    let position_of = |words: &str| {
        let line = format!("{id} {words}");
        seen.iter().position(|entry| entry.text().is_some_and(|text| text.starts_with(&line))).unwrap()
    };
    let (started, ended) = (position_of("started"), position_of("exited"));
    for (index, entry) in seen.iter().enumerate() {
        if entry.source == Source::Stdout && entry.execution == Some(id) {
            assert!(started < index && index < ended);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_read_during_a_move_is_complete() {
    for _ in 0..20 {
        let own = tempfile::tempdir().unwrap();
        let mut fixture = Fixture::ready_in(own.path()).await;
        for execution in 1..=8 {
            fixture.start(execution).await;
            fixture.write(execution, "text");
        }
        fixture.end().await;
        let whole = fixture.read_all().await;
        let reader = Fixture::over(own.path());
        let reading = tokio::spawn(async move {
            let mut pages = Vec::new();
            while reader.outputs().exists() {
                pages.push(reader.read_all().await);
            }
            pages
        });

        fixture.logs.move_one(ID).await.unwrap();

        assert!(reading.await.unwrap().into_iter().all(|page| page == whole));
    }
}
