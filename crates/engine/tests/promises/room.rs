//! The host's own room: what is short is refused with the figures, what is stale goes first, and nothing that lives does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_engine::{AdmitError, Config, CreateAsk, Engine, How, StaleData};
use pinfold_lifecycle::{Cleared, NoRoom, Policy, Reserve, State, Timestamp};
use pinfold_provider::fake::FakeWorld;
use pinfold_provider::{Capacity, DiscoverError};
use pinfold_store::{IdempotencyKey, Store};

use crate::stage::{SECOND, Stage};

const KEEP: Reserve = Reserve { disk_mb: 100, memory_mb: 10, processes: 5 };

fn left(disk_mb: u64) -> Capacity {
    Capacity {
        disk_mb_left: Some(disk_mb),
        memory_mb_left: Some(1_000),
        processes_left: Some(1_000),
        ids_left: None,
        disk_unusable: None,
        ..Capacity::default()
    }
}

fn key(key: &str) -> IdempotencyKey {
    IdempotencyKey { key: key.into(), request: "r".into(), expires_at: Timestamp(i64::MAX) }
}

async fn keeping(stage: &Stage) -> Engine {
    stage.begin_with(Config { keep: KEEP, ..Config::default() }).await
}

/// What is asked when the last look is old.
async fn refusal(stage: &Stage, engine: &Engine) -> NoRoom {
    stage.pass_ms(2 * SECOND).await;
    match engine.create(CreateAsk::default()).await {
        Err(AdmitError::NoRoom(no_room)) => no_room,
        other => panic!("{other:?}"),
    }
}

/// Old things that take this much of the disk.
struct Old {
    world: Arc<FakeWorld>,
    frees_mb: u64,
    asked: AtomicU64,
}

#[async_trait]
impl StaleData for Old {
    async fn clear_stale(&self, how: How) -> Cleared {
        assert_eq!(how, How::Act);
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.world.has_left(Ok(left(50 + self.frees_mb)));
        Cleared { cleaned: 3, skipped: 1, bytes: 9 }
    }
}

fn old(stage: &Stage, engine: &Engine, frees_mb: u64) -> Arc<Old> {
    let old = Arc::new(Old { world: stage.world.clone(), frees_mb, asked: AtomicU64::default() });
    engine.knows_stale(old.clone());
    old
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_short_is_refused_with_the_figures_and_ends_nothing() {
    let stage = Stage::new();
    let engine = keeping(&stage).await;
    let old = old(&stage, &engine, 0);
    let living = stage.ready(&engine, Policy::default()).await;
    stage.world.has_left(Ok(left(50)));

    let told = refusal(&stage, &engine).await;

    let cleared = Cleared { cleaned: 3, skipped: 1, bytes: 9 };
    assert_eq!(told, NoRoom::LowDisk { available_mb: 50, needed_mb: 100, cleared });
    assert_eq!(stage.state(living).await, State::Ready);
    for _ in 0..3 {
        refusal(&stage, &engine).await;
    }
    assert_eq!(old.asked.load(Ordering::Relaxed), 1, "not again and again");
    stage.world.has_left(Ok(left(100)));
    stage.pass_ms(2 * SECOND).await;
    assert!(engine.create(CreateAsk::default()).await.is_ok(), "it resumes by itself");
}

#[tokio::test(start_paused = true)]
async fn stale_data_goes_and_whoever_asked_is_let_in() {
    let stage = Stage::new();
    let engine = keeping(&stage).await;
    let old = old(&stage, &engine, 60);
    stage.world.has_left(Ok(left(50)));

    let admitted = engine.create(CreateAsk::default()).await;

    assert!(admitted.is_ok(), "{admitted:?}");
    assert_eq!(old.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_measured_is_refused() {
    let stage = Stage::new();
    let engine = keeping(&stage).await;
    let (what, why) = ("the disk".to_owned(), "no answer".to_owned());
    let failed = Err(DiscoverError::LookFailed { what, why });
    let nothing = Ok(Capacity { disk_mb_left: None, ..left(0) });

    for capacity in [failed, nothing] {
        stage.world.has_left(capacity);
        let told = refusal(&stage, &engine).await;
        assert!(matches!(told, NoRoom::Unmeasurable { .. }), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn even_a_filesystem_that_is_unusable_ends_nothing_by_itself() {
    let stage = Stage::new();
    let engine = keeping(&stage).await;
    let old = old(&stage, &engine, 60);
    let living = stage.ready(&engine, Policy::default()).await;
    stage.world.has_left(Ok(Capacity { disk_unusable: Some("it is mounted read-only".into()), ..left(500) }));

    let told = refusal(&stage, &engine).await;

    assert_eq!(told, NoRoom::Unusable { why: "it is mounted read-only".into() });
    assert_eq!(old.asked.load(Ordering::Relaxed), 0, "there is nothing to gain");
    assert_eq!(stage.state(living).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn memory_and_processes_of_the_host_are_kept_too() {
    let stage = Stage::new();
    let engine = keeping(&stage).await;

    stage.world.has_left(Ok(Capacity { memory_mb_left: Some(9), ..left(500) }));
    assert_eq!(refusal(&stage, &engine).await, NoRoom::LowMemory { available_mb: 9, needed_mb: 10 });
    stage.world.has_left(Ok(Capacity { processes_left: Some(4), ..left(500) }));
    assert_eq!(refusal(&stage, &engine).await, NoRoom::LowProcesses { available: 4, needed: 5 });
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_for_what_it_was_given_gets_it_also_where_there_is_no_room_any_more() {
    let stage = Stage::new();
    stage.world.has_left(Ok(left(1_000)));
    let engine = keeping(&stage).await;
    let ask = || CreateAsk { key: Some(key("same")), ..CreateAsk::default() };
    let given = engine.create(ask()).await.unwrap();
    stage.world.has_left(Ok(left(50)));
    stage.pass_ms(2 * SECOND).await;

    let again = engine.create(ask()).await;
    let other = engine.create(CreateAsk { key: Some(key("other")), ..CreateAsk::default() }).await;

    assert_eq!(again.unwrap(), given);
    assert!(matches!(other, Err(AdmitError::NoRoom(NoRoom::LowDisk { .. }))), "{other:?}");
    assert_eq!(stage.store.totals().await.unwrap().created, 1);
}
