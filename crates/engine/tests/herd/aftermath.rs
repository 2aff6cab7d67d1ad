//! What must be true when all of the herd are dead, and after one engine has taken over.

use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_engine::Engine;
use pinfold_lifecycle::{Cause, Life, NodeId, Timestamp, invariants};
use pinfold_provider::fake::FakeWorld;
use pinfold_store::{Filter, Row, SqliteStore, Store, Stored};

use crate::member::{Wind, begin};
use crate::parent::Told;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn check(directory: &Path, told: &Told) {
    println!(
        "{} deaths, {} sandboxes, {} executions, {} proven gone",
        told.deaths,
        told.sandboxes.len(),
        told.executions.len(),
        told.gone.len()
    );
    assert!(
        told.sandboxes.len() > 20 && told.executions.len() > 100,
        "the herd hardly did anything: {told:?}"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        nothing_acknowledged_is_lost(directory, told).await;
        let (engine, store) = begin(directory, Wind::Calm).await;
        everything_is_adopted(&engine, &store).await;
        everything_can_be_ended(&engine, &store, told).await;
        engine.shutdown(pinfold_engine::OnExit::Stop, 0).await.unwrap();
    });
    let world = FakeWorld::on_file(directory.join("world.json"));
    assert_eq!(world.everything(Timestamp(0)), [], "something physical is left");
}

async fn nothing_acknowledged_is_lost(directory: &Path, told: &Told) {
    let store = SqliteStore::open(&directory.join("store")).unwrap();
    assert_eq!(store.disagreements().unwrap(), [] as [String; 0]);
    for id in &told.sandboxes {
        assert!(store.load(*id).await.unwrap().is_some(), "{id} was acknowledged and is lost");
    }
    for id in &told.executions {
        assert!(store.execution(*id).await.unwrap().is_some(), "{id} was acknowledged and is lost");
    }
    for id in &told.gone {
        let row = store.load(*id).await.unwrap();
        assert!(matches!(&row, Some(Row::Readable(row)) if stays_gone(row)), "{id} came back: {row:?}");
    }
    for stored in rows(&store, Filter::All).await {
        assert_eq!(invariants::broken(&stored.sandbox, &stored.policy), None);
    }
    let there = FakeWorld::on_file(directory.join("world.json")).everything(Timestamp(0));
    for physical in there.iter().filter(|physical| physical.alive) {
        let Some(Row::Readable(row)) = store.load(physical.body.sandbox).await.unwrap() else {
            panic!("a body without a record: {physical:?}")
        };
        let leased =
            row.sandbox.lease.may_have_a_body() && row.sandbox.generation() == physical.body.generation;
        assert!(leased, "a body without a lease: {physical:?} {row:?}");
        let bodies = there.iter().filter(|other| other.alive && other.body.sandbox == physical.body.sandbox);
        assert_eq!(bodies.count(), 1, "two bodies: {physical:?}");
    }
}

/// A launch that is overtaken by the end of its sandbox puts up its mark, sees that it is not wanted, and takes it down.
/// Who dies in between leaves it, and whoever finds it leases it, to clear it away.
fn stays_gone(row: &Stored) -> bool {
    let sandbox = &row.sandbox;
    let clears_a_mark = sandbox.strays > 0 && matches!(sandbox.life, Life::Ended { .. });
    sandbox.is_settled() || clears_a_mark
}

async fn everything_is_adopted(engine: &Engine, store: &SqliteStore) {
    until("every dead node is forgotten", async || {
        let others: Vec<NodeId> = store.nodes().await.unwrap().into_iter().map(|seen| seen.node.id).collect();
        others == [engine.node()]
    })
    .await;
    for stored in rows(store, Filter::Present).await {
        assert_eq!(stored.sandbox.owner, engine.node());
    }
}

async fn everything_can_be_ended(engine: &Engine, store: &SqliteStore, told: &Told) {
    for stored in rows(store, Filter::Present).await {
        engine.stop(stored.sandbox.id, Cause::StoppedByUser, true, 0).await.unwrap();
    }
    until("nothing is present", async || rows(store, Filter::Present).await.is_empty()).await;
    let totals = store.totals().await.unwrap();
    assert_eq!(totals.created, totals.destroyed);
    assert_eq!(store.disagreements().unwrap(), [] as [String; 0]);
    for id in &told.executions {
        let stored = store.execution(*id).await.unwrap().unwrap();
        assert!(stored.execution.outcome().is_some(), "{id} has no outcome");
    }
}

async fn rows(store: &SqliteStore, filter: Filter) -> Vec<Stored> {
    let rows = store.list(filter, None, 1_000_000).await.unwrap().into_iter();
    rows.map(|row| match row {
        Row::Readable(stored) => *stored,
        Row::Unreadable(row) => panic!("{row:?}"),
    })
    .collect()
}

#[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
async fn until(what: &str, met: impl AsyncFn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !met().await {
        assert!(Instant::now() < end, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
