//! Threads of writes: a single write runs on the caller's thread, concurrent ones in batches on the store's, and no async
//! task waits for a lock.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pinfold_lifecycle::{NodeId, Timestamp};
use pinfold_store::{Node, Store};
use pinfold_store_sqlite::{LockTimeout, SqliteStore};
use rusqlite::Connection;

fn node(number: u128) -> Node {
    Node { id: NodeId(number), host: "here".into(), boot_id: "this".into(), pid: 1, start_ticks: 1 }
}

fn wal_length(directory: &Path) -> u64 {
    fs::metadata(directory.join("pinfold.db-wal")).unwrap().len()
}

/// The write is retried until the lock is free; meanwhile the caller's thread runs other tasks.
#[tokio::test]
async fn a_write_that_waits_for_another_process_blocks_no_task() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_with(directory.path(), LockTimeout(60_000)).unwrap();
    let other = Connection::open(directory.path().join("pinfold.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (go_on, told) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let was_told = told.recv_timeout(Duration::from_secs(10)).is_ok();
        other.execute_batch("COMMIT").unwrap();
        was_told
    });

    let mut write = std::pin::pin!(store.heartbeat(node(1), Timestamp(1)));
    tokio::select! {
        biased;
        written = &mut write => panic!("somebody else has the lock: {written:?}"),
        () = tokio::time::sleep(Duration::from_millis(20)) => {}
    }
    // The receiver is gone if this thread was blocked.
    let _ = go_on.send(());

    write.await.unwrap();
    assert!(other.join().unwrap(), "the lock had to be given up first");
    assert_eq!(store.nodes().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_single_write_runs_on_the_callers_thread() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();

    let mut write = std::pin::pin!(store.heartbeat(node(1), Timestamp(1)));
    let answered = std::future::poll_fn(|context| std::task::Poll::Ready(write.as_mut().poll(context))).await;

    assert!(answered.is_ready(), "nothing had to be waited for");
}

/// A sync without a change of the file length is cheaper.
#[tokio::test]
async fn the_wal_file_does_not_grow_beyond_its_preallocated_length() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while wal_length(directory.path()) < 16 << 20 {
        store.heartbeat(node(1), Timestamp(1)).await.unwrap();
        assert!(tokio::time::Instant::now() < deadline, "the log is {} bytes", wal_length(directory.path()));
    }

    let grown = wal_length(directory.path());
    for number in 0..1_000 {
        store.heartbeat(node(number), Timestamp(1)).await.unwrap();
    }

    // It may have been truncated to its usual length since.
    assert!(wal_length(directory.path()) <= grown, "{} after {grown}", wal_length(directory.path()));
    assert_eq!(store.nodes().await.unwrap().len(), 1_000);
    assert_eq!(store.inconsistencies().unwrap(), Vec::<String>::new());
}
