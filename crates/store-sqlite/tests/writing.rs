//! On which thread a request is written: on the caller's thread if it is alone, else on the writer thread. No async task
//! blocks on a lock of another process.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pinfold_lifecycle::{NodeId, Timestamp};
use pinfold_store::{Node, Store};
use pinfold_store_sqlite::{LockTimeout, SqliteStore, StorePaths};
use rusqlite::Connection;

fn node(number: u128) -> Node {
    Node { id: NodeId(number), host: "here".into(), boot_id: "this".into(), pid: 1, start_ticks: 1 }
}

fn wal_bytes(directory: &Path) -> u64 {
    fs::metadata(directory.join("pinfold.db-wal")).unwrap().len()
}

/// The writer thread retries until the lock is free; the caller's thread runs other tasks meanwhile.
#[tokio::test]
async fn write_that_waits_for_another_process_blocks_no_other_task() {
    let directory = tempfile::tempdir().unwrap();
    let store =
        SqliteStore::open_with(&StorePaths::in_one_directory(directory.path()), LockTimeout(60_000)).unwrap();
    let other = Connection::open(directory.path().join("pinfold.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (go_on, received) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let was_in_time = received.recv_timeout(Duration::from_secs(10)).is_ok();
        other.execute_batch("COMMIT").unwrap();
        was_in_time
    });

    let mut write = std::pin::pin!(store.heartbeat(node(1), Timestamp(1)));
    tokio::select! {
        biased;
        written = &mut write => panic!("written while another process holds the lock: {written:?}"),
        () = tokio::time::sleep(Duration::from_millis(20)) => {}
    }
    // Fails if this thread was blocked until the other one timed out.
    let _ = go_on.send(());

    write.await.unwrap();
    assert!(other.join().unwrap(), "this thread was blocked until the lock was released");
    assert_eq!(store.nodes().await.unwrap().len(), 1);
}

#[tokio::test]
async fn write_without_contention_completes_on_the_callers_thread() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();

    let mut write = std::pin::pin!(store.heartbeat(node(1), Timestamp(1)));
    let answered = std::future::poll_fn(|context| std::task::Poll::Ready(write.as_mut().poll(context))).await;

    assert!(answered.is_ready(), "it waits for another thread");
}

/// The WAL is extended ahead of need, because a sync that also extends the file costs more.
#[tokio::test]
async fn wal_of_a_busy_writer_stops_growing_at_its_fixed_length() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while wal_bytes(directory.path()) < 16 << 20 {
        store.heartbeat(node(1), Timestamp(1)).await.unwrap();
        assert!(tokio::time::Instant::now() < deadline, "the WAL has {} bytes", wal_bytes(directory.path()));
    }

    let grown = wal_bytes(directory.path());
    for number in 0..1_000 {
        store.heartbeat(node(number), Timestamp(1)).await.unwrap();
    }

    // SQLite may have truncated it since.
    assert!(wal_bytes(directory.path()) <= grown, "{} after {grown}", wal_bytes(directory.path()));
    assert_eq!(store.nodes().await.unwrap().len(), 1_000);
    assert_eq!(store.inconsistencies().unwrap(), Vec::<String>::new());
}
