//! Who writes on whose thread: alone on one's own, together on the store's, and nobody's runtime waits for a lock.

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

fn log_of(directory: &Path) -> u64 {
    fs::metadata(directory.join("pinfold.db-wal")).unwrap().len()
}

/// Has to be tried again and again until the lock is free; the thread that asked has other things to do.
#[tokio::test]
async fn who_waits_for_another_process_keeps_no_task_waiting() {
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
    // Nobody listens any more if this thread was kept waiting.
    let _ = go_on.send(());

    write.await.unwrap();
    assert!(other.join().unwrap(), "the lock had to be given up first");
    assert_eq!(store.nodes().await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_comes_alone_is_answered_without_another_thread() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();

    let mut write = std::pin::pin!(store.heartbeat(node(1), Timestamp(1)));
    let answered = std::future::poll_fn(|context| std::task::Poll::Ready(write.as_mut().poll(context))).await;

    assert!(answered.is_ready(), "nothing had to be waited for");
}

/// A sync of what was there before is cheaper than one that also makes the file longer.
#[tokio::test]
async fn the_log_of_who_writes_much_does_not_grow_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while log_of(directory.path()) < 16 << 20 {
        store.heartbeat(node(1), Timestamp(1)).await.unwrap();
        assert!(tokio::time::Instant::now() < deadline, "the log is {} bytes", log_of(directory.path()));
    }

    let grown = log_of(directory.path());
    for number in 0..1_000 {
        store.heartbeat(node(number), Timestamp(1)).await.unwrap();
    }

    // It may have been cut back to its usual length since.
    assert!(log_of(directory.path()) <= grown, "{} after {grown}", log_of(directory.path()));
    assert_eq!(store.nodes().await.unwrap().len(), 1_000);
    assert_eq!(store.inconsistencies().unwrap(), Vec::<String>::new());
}
