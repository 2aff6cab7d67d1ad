//! Checks after all workers are dead, and after one engine has taken over.

use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_engine::Engine;
use pinfold_lifecycle::{Cause, Life, NodeId, Timestamp, invariants};
use pinfold_provider::fake::FakeWorld;
use pinfold_store::{Row, SandboxFilter, Store, StoredSandbox};
use pinfold_store_sqlite::SqliteStore;

use crate::parent::Acknowledged;
use crate::worker::{FaultLevel, start_engine};

const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn check(directory: &Path, reported: &Acknowledged) {
    println!(
        "{} kills, {} sandboxes, {} executions, {} proven gone",
        reported.kills,
        reported.sandboxes.len(),
        reported.executions.len(),
        reported.gone.len()
    );
    assert!(
        reported.sandboxes.len() > 20 && reported.executions.len() > 100,
        "the workers did too little: {reported:?}"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        nothing_acknowledged_is_lost(directory, reported).await;
        let (engine, store) = start_engine(directory, FaultLevel::Calm).await;
        everything_is_adopted(&engine, &store).await;
        everything_can_be_ended(&engine, &store, reported).await;
        engine.shutdown(pinfold_engine::OnExit::Stop, 0).await.unwrap();
    });
    let world = FakeWorld::on_file(directory.join("world.json"));
    assert_eq!(world.instances(Timestamp(0)), [], "an instance is left");
}

async fn nothing_acknowledged_is_lost(directory: &Path, reported: &Acknowledged) {
    let store = SqliteStore::open(&directory.join("store")).unwrap();
    assert_eq!(store.inconsistencies().unwrap(), [] as [String; 0]);
    for id in &reported.sandboxes {
        assert!(store.load(*id).await.unwrap().is_some(), "{id} was acknowledged and is lost");
    }
    for id in &reported.executions {
        assert!(store.execution(*id).await.unwrap().is_some(), "{id} was acknowledged and is lost");
    }
    for id in &reported.gone {
        let row = store.load(*id).await.unwrap();
        assert!(matches!(&row, Some(Row::Readable(row)) if stays_gone(row)), "{id} came back: {row:?}");
    }
    for stored in rows(&store, SandboxFilter::All).await {
        assert_eq!(invariants::violated(&stored.sandbox, &stored.policy), None);
    }
    let there = FakeWorld::on_file(directory.join("world.json")).instances(Timestamp(0));
    for physical in there.iter().filter(|physical| physical.alive) {
        let Some(Row::Readable(row)) = store.load(physical.instance.sandbox).await.unwrap() else {
            panic!("an instance without a record: {physical:?}")
        };
        let leased =
            row.sandbox.lease.may_have_instance() && row.sandbox.generation() == physical.instance.generation;
        assert!(leased, "an instance without a lease: {physical:?} {row:?}");
        let instances =
            there.iter().filter(|other| other.alive && other.instance.sandbox == physical.instance.sandbox);
        assert_eq!(instances.count(), 1, "two instances: {physical:?}");
    }
}

/// A launch overtaken by a stop sets its marker, is refused its permit and removes the marker. If it dies in
/// between, reconciliation leases the leftover marker to remove it.
fn stays_gone(row: &StoredSandbox) -> bool {
    let sandbox = &row.sandbox;
    let clears_a_marker = sandbox.strays > 0 && matches!(sandbox.life, Life::Ended { .. });
    sandbox.is_settled() || clears_a_marker
}

async fn everything_is_adopted(engine: &Engine, store: &SqliteStore) {
    until("every dead node is removed", async || {
        let others: Vec<NodeId> = store.nodes().await.unwrap().into_iter().map(|seen| seen.node.id).collect();
        others == [engine.node()]
    })
    .await;
    for stored in rows(store, SandboxFilter::Present).await {
        assert_eq!(stored.sandbox.owner, engine.node());
    }
}

async fn everything_can_be_ended(engine: &Engine, store: &SqliteStore, reported: &Acknowledged) {
    for stored in rows(store, SandboxFilter::Present).await {
        engine.stop(stored.sandbox.id, Cause::StoppedByUser, Some(0), 0).await.unwrap();
    }
    until("nothing is present", async || rows(store, SandboxFilter::Present).await.is_empty()).await;
    let totals = store.totals().await.unwrap();
    assert_eq!(totals.created, totals.destroyed);
    assert_eq!(store.inconsistencies().unwrap(), [] as [String; 0]);
    for id in &reported.executions {
        let stored = store.execution(*id).await.unwrap().unwrap();
        assert!(stored.execution.outcome().is_some(), "{id} has no outcome");
    }
}

async fn rows(store: &SqliteStore, filter: SandboxFilter) -> Vec<StoredSandbox> {
    let rows = store.list(filter, None, 1_000_000).await.unwrap().into_iter();
    rows.map(|row| match row {
        Row::Readable(stored) => *stored,
        Row::Unreadable(row) => panic!("{row:?}"),
    })
    .collect()
}

#[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
async fn until(what: &str, met: impl AsyncFn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !met().await {
        assert!(Instant::now() < end, "timeout waiting until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
