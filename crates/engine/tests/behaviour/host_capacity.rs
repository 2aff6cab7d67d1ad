//! Host capacity: a shortage is refused with the numbers, stale data is removed first, and live sandboxes are
//! never touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_engine::{AdmitError, CleanupMode, Config, CreateRequest, Engine, StaleData};
use pinfold_lifecycle::{HostReserve, HostShortage, Policy, StaleDataCleanup, State, Timestamp};
use pinfold_provider::fake::FakeWorld;
use pinfold_provider::{Capacity, DiscoverError};
use pinfold_store::{IdempotencyKey, Store};

use crate::fixture::{Fixture, SECOND};

const KEEP: HostReserve = HostReserve { disk_mb: 100, memory_mb: 10, processes: 5 };

fn left(disk_mb: u64) -> Capacity {
    Capacity {
        disk_mb_left: Some(disk_mb),
        memory_mb_left: Some(1_000),
        processes_left: Some(1_000),
        disk_unusable: None,
        ..Capacity::default()
    }
}

fn key(key: &str) -> IdempotencyKey {
    IdempotencyKey { key: key.into(), request: "r".into(), expires_at: Timestamp(i64::MAX) }
}

async fn keeping(fixture: &Fixture) -> Engine {
    fixture.start_engine_with(Config { keep: KEEP, ..Config::default() }).await
}

/// A create request after the last measurement has expired.
async fn refusal(fixture: &Fixture, engine: &Engine) -> HostShortage {
    fixture.pass_ms(2 * SECOND).await;
    match engine.create(CreateRequest::default()).await {
        Err(AdmitError::NoRoom(no_room)) => no_room,
        other => panic!("{other:?}"),
    }
}

/// Stale data whose removal frees this much disk space.
struct FakeStaleData {
    world: Arc<FakeWorld>,
    frees_mb: u64,
    requested: AtomicU64,
}

#[async_trait]
impl StaleData for FakeStaleData {
    async fn clear_stale(&self, how: CleanupMode) -> StaleDataCleanup {
        assert_eq!(how, CleanupMode::Act);
        self.requested.fetch_add(1, Ordering::Relaxed);
        self.world.set_capacity(Ok(left(50 + self.frees_mb)));
        StaleDataCleanup { cleaned: 3, skipped: 1, bytes: 9 }
    }
}

fn set_stale_data(fixture: &Fixture, engine: &Engine, frees_mb: u64) -> Arc<FakeStaleData> {
    let old =
        Arc::new(FakeStaleData { world: fixture.world.clone(), frees_mb, requested: AtomicU64::default() });
    engine.set_stale_data(old.clone());
    old
}

#[tokio::test(start_paused = true)]
async fn low_disk_refuses_creates_with_numbers_and_ends_no_sandbox() {
    let fixture = Fixture::new();
    let engine = keeping(&fixture).await;
    let old = set_stale_data(&fixture, &engine, 0);
    let living = fixture.ready(&engine, Policy::default()).await;
    fixture.world.set_capacity(Ok(left(50)));

    let reported = refusal(&fixture, &engine).await;

    let cleared = StaleDataCleanup { cleaned: 3, skipped: 1, bytes: 9 };
    assert_eq!(reported, HostShortage::LowDisk { available_mb: 50, needed_mb: 100, cleared });
    assert_eq!(fixture.state(living).await, State::Ready);
    for _ in 0..3 {
        refusal(&fixture, &engine).await;
    }
    assert_eq!(old.requested.load(Ordering::Relaxed), 1, "cleared once");
    fixture.world.set_capacity(Ok(left(100)));
    fixture.pass_ms(2 * SECOND).await;
    assert!(engine.create(CreateRequest::default()).await.is_ok(), "creates succeed again");
}

#[tokio::test(start_paused = true)]
async fn stale_data_is_removed_and_the_request_is_admitted() {
    let fixture = Fixture::new();
    let engine = keeping(&fixture).await;
    let old = set_stale_data(&fixture, &engine, 60);
    fixture.world.set_capacity(Ok(left(50)));

    let admitted = engine.create(CreateRequest::default()).await;

    assert!(admitted.is_ok(), "{admitted:?}");
    assert_eq!(old.requested.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn unmeasurable_capacity_refuses_creates() {
    let fixture = Fixture::new();
    let engine = keeping(&fixture).await;
    let (what, why) = ("the disk".to_owned(), "no answer".to_owned());
    let failed = Err(DiscoverError::ObserveFailed { what, why });
    let nothing = Ok(Capacity { disk_mb_left: None, ..left(0) });

    for capacity in [failed, nothing] {
        fixture.world.set_capacity(capacity);
        let reported = refusal(&fixture, &engine).await;
        assert!(matches!(reported, HostShortage::Unmeasurable { .. }), "{reported}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unusable_filesystem_ends_no_sandbox() {
    let fixture = Fixture::new();
    let engine = keeping(&fixture).await;
    let old = set_stale_data(&fixture, &engine, 60);
    let living = fixture.ready(&engine, Policy::default()).await;
    fixture
        .world
        .set_capacity(Ok(Capacity { disk_unusable: Some("it is mounted read-only".into()), ..left(500) }));

    let reported = refusal(&fixture, &engine).await;

    assert_eq!(reported, HostShortage::Unusable { why: "it is mounted read-only".into() });
    assert_eq!(old.requested.load(Ordering::Relaxed), 0, "nothing is cleared on an unusable disk");
    assert_eq!(fixture.state(living).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn memory_and_process_reserves_of_the_host_hold_too() {
    let fixture = Fixture::new();
    let engine = keeping(&fixture).await;

    fixture.world.set_capacity(Ok(Capacity { memory_mb_left: Some(9), ..left(500) }));
    assert_eq!(refusal(&fixture, &engine).await, HostShortage::LowMemory { available_mb: 9, needed_mb: 10 });
    fixture.world.set_capacity(Ok(Capacity { processes_left: Some(4), ..left(500) }));
    assert_eq!(refusal(&fixture, &engine).await, HostShortage::LowProcesses { available: 4, needed: 5 });
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_gets_its_sandbox_although_there_is_no_room() {
    let fixture = Fixture::new();
    fixture.world.set_capacity(Ok(left(1_000)));
    let engine = keeping(&fixture).await;
    let ask = || CreateRequest { key: Some(key("same")), ..CreateRequest::default() };
    let given = engine.create(ask()).await.unwrap();
    fixture.world.set_capacity(Ok(left(50)));
    fixture.pass_ms(2 * SECOND).await;

    let again = engine.create(ask()).await;
    let other = engine.create(CreateRequest { key: Some(key("other")), ..CreateRequest::default() }).await;

    assert_eq!(again.unwrap(), given);
    assert!(matches!(other, Err(AdmitError::NoRoom(HostShortage::LowDisk { .. }))), "{other:?}");
    assert_eq!(fixture.store.totals().await.unwrap().created, 1);
}
