//! Waiting for room: first come, first served, across engines, and for nobody longer than it asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateAsk, Engine, NotAdmitted, QueueAsk};
use pinfold_lifecycle::{AdmissionLimits, Demand, PlaceId, Policy, SandboxId, Scarcity};
use pinfold_store::{CreateError, Fault, NewPlace, PlaceEnd, Queue, Store};
use tokio::task::JoinHandle;

use crate::stage::{MINUTE, SECOND, Stage};

fn places(sandboxes: u64) -> Config {
    Config {
        admission: AdmissionLimits { sandboxes: Some(sandboxes), ..AdmissionLimits::default() },
        ..Config::default()
    }
}

fn queued(stage: &Stage, place: u128, for_ms: u64) -> CreateAsk {
    let until = pinfold_engine::Clock::now(&stage.clock).after_ms(for_ms);
    CreateAsk { queue: Some(QueueAsk { id: PlaceId(place), until }), ..CreateAsk::default() }
}

type Waiting = JoinHandle<Result<SandboxId, AdmitError>>;

/// Somebody waits from now on.
async fn waits(stage: &Stage, engine: &Arc<Engine>, place: u128, for_ms: u64) -> Waiting {
    let (engine, ask) = (engine.clone(), queued(stage, place, for_ms));
    let waiting = tokio::spawn(async move { engine.create(ask).await });
    while stage.store.place(PlaceId(place)).await.unwrap().is_none() {
        assert!(!waiting.is_finished(), "it did not have to wait");
        stage.pass_ms(1).await;
    }
    waiting
}

async fn end_of(stage: &Stage, place: u128) -> Option<PlaceEnd> {
    stage.store.place(PlaceId(place)).await.unwrap().unwrap().end.map(|(_, end)| end)
}

async fn positions(engine: &Engine) -> Vec<u128> {
    engine.line().await.unwrap().iter().map(|one| one.place.new.id.0).collect()
}

#[tokio::test(start_paused = true)]
async fn who_came_first_is_let_in_first_whichever_engine_was_asked() {
    let stage = Stage::new();
    let one = Arc::new(stage.begin_with(places(1)).await);
    let other = Arc::new(stage.begin_with(places(1)).await);
    let there = stage.ready(&one, Policy::default()).await;
    let first = waits(&stage, &other, 1, MINUTE).await;
    let second = waits(&stage, &one, 2, MINUTE).await;
    assert_eq!(positions(&one).await, [1, 2]);

    stage.stop(&one, there).await;
    let first = first.await.unwrap().unwrap();

    assert_eq!(end_of(&stage, 1).await, Some(PlaceEnd::Admitted(first)));
    assert_eq!((positions(&other).await, second.is_finished()), (vec![2], false));
    stage.stop(&other, first).await;
    let second = second.await.unwrap().unwrap();
    assert_eq!(end_of(&stage, 2).await, Some(PlaceEnd::Admitted(second)));
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_queue_is_refused_while_another_waits_for_the_same_room() {
    let stage = Stage::new();
    let engine = Arc::new(stage.begin_with(places(1)).await);
    let now = pinfold_engine::Clock::now(&stage.clock);
    // Somebody who is slow to take what is there.
    let slow = NewPlace {
        id: PlaceId(1),
        node: engine.node(),
        asked_at: now,
        until: now.after_ms(5 * SECOND),
        demand: Demand::default(),
        quotas: Vec::new(),
        asked_by: None,
        name: None,
    };
    stage.store.join(slow, places(1).admission).await.unwrap();

    let newcomer = engine.create(CreateAsk::default()).await;
    let behind = waits(&stage, &engine, 2, MINUTE).await;

    let kept = Scarcity::Queue { ahead: 1 };
    assert!(matches!(newcomer, Err(AdmitError::Create(CreateError::Scarce(told))) if told == kept));
    assert!(behind.await.unwrap().is_ok());
    assert!(
        (5 * SECOND..6 * SECOND).contains(&stage.now()),
        "until the other's time was up: {}",
        stage.now()
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_it_asked_for_and_is_told_how_it_stood() {
    let stage = Stage::new();
    let engine = Arc::new(stage.begin_with(places(1)).await);
    stage.ready(&engine, Policy::default()).await;
    let first = waits(&stage, &engine, 1, MINUTE).await;
    let began = stage.now();

    let second = waits(&stage, &engine, 2, 5 * SECOND).await.await.unwrap();

    let Err(AdmitError::Waited(NotAdmitted { end, waited_ms, position, why })) = second else {
        panic!("{second:?}");
    };
    assert_eq!((end, position), (PlaceEnd::Expired, Some(2)));
    assert!((5 * SECOND..5 * SECOND + 100).contains(&waited_ms), "{waited_ms}");
    assert!(stage.now() - began < 6 * SECOND);
    let scarcity = Scarcity::Sandboxes { present: 1, limit: 1 };
    assert!(matches!(*why, AdmitError::Create(CreateError::Scarce(told)) if told == scarcity));
    assert_eq!((positions(&engine).await, first.is_finished()), (vec![1], false));
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_leaves_the_queue() {
    let stage = Stage::new();
    let engine = Arc::new(stage.begin_with(places(1)).await);
    let there = stage.ready(&engine, Policy::default()).await;
    let first = waits(&stage, &engine, 1, MINUTE).await;
    let second = waits(&stage, &engine, 2, MINUTE).await;

    first.abort();
    stage.pass_ms(SECOND).await;
    assert_eq!((end_of(&stage, 1).await, positions(&engine).await), (Some(PlaceEnd::Cancelled), vec![2]));
    assert!(engine.leave_queue(PlaceId(2)).await.unwrap());

    let told = second.await.unwrap();
    let is_cancelled = matches!(&told, Err(AdmitError::Waited(not)) if not.end == PlaceEnd::Cancelled);
    assert!(is_cancelled, "{told:?}");
    stage.stop(&engine, there).await;
    assert!(engine.create(CreateAsk::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn those_whose_engine_has_died_are_waited_for_no_longer_than_its_heartbeat() {
    let stage = Stage::new();
    let engine = Arc::new(stage.begin_with(places(1)).await);
    let there = stage.ready(&engine, Policy::default()).await;
    let dying = Arc::new(stage.begin_with(places(1)).await);
    let first = waits(&stage, &dying, 1, 10 * MINUTE).await;
    let second = waits(&stage, &engine, 2, 10 * MINUTE).await;

    // Nobody is left to say that it does not wait any more.
    let node = dying.node();
    stage.census.declare_dead(node);
    stage.store.fail_next_writes(1, pinfold_store::Fault::Busy);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    drop(Arc::into_inner(dying));
    stage.stop(&engine, there).await;
    let began = stage.now();
    let admitted = second.await.unwrap();

    assert!(admitted.is_ok(), "{admitted:?}");
    assert!(stage.now() - began <= 3 * SECOND, "{}", stage.now() - began);
    assert_ne!(end_of(&stage, 1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_could_never_be_met_is_refused_at_once() {
    let stage = Stage::new();
    let engine = stage.begin_with(places(0)).await;

    let refused = engine.create(queued(&stage, 1, MINUTE)).await;

    assert!(matches!(refused, Err(AdmitError::Create(CreateError::Scarce(_)))), "{refused:?}");
    assert_eq!(stage.now(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_gets_through_few_places_and_never_more_are_there_than_may_be() {
    let stage = Arc::new(Stage::new());
    let engines = [Arc::new(stage.begin_with(places(3)).await), Arc::new(stage.begin_with(places(3)).await)];

    let crowd = (0..40_u128).map(|place| {
        let (stage, engine) = (stage.clone(), engines[place as usize % 2].clone());
        tokio::spawn(async move {
            let id = engine.create(queued(&stage, place, 20 * MINUTE)).await.unwrap();
            assert!(stage.store.totals().await.unwrap().present() <= 3);
            stage.pass_ms(SECOND).await;
            stage.stop(&engine, id).await;
        })
    });

    for done in join_all(crowd.collect::<Vec<_>>()).await {
        done.unwrap();
    }
    // Three at a time for a second each, and little is lost between two of them.
    assert!(stage.now() < 20 * SECOND, "{}", stage.now());
    stage.assert_nothing_is_left().await;
    assert!(stage.store.is_queue_empty().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_told_that_its_time_is_up_asks_again_now_and_then_and_not_without_end() {
    let stage = Stage::new();
    let engine = Arc::new(stage.begin_with(places(1)).await);
    stage.ready(&engine, Policy::default()).await;
    let waiting = waits(&stage, &engine, 1, SECOND).await;
    let tried = Arc::new(AtomicUsize::new(0));
    let counted = tried.clone();
    // Bounded, so that one who does not pause is caught and not waited for.
    stage
        .store
        .fail_writes(move || (counted.fetch_add(1, Ordering::Relaxed) < 10_000).then_some(Fault::DiskFull));

    stage.pass_ms(5 * SECOND).await;
    let in_vain = tried.load(Ordering::Relaxed);
    stage.store.fail_writes(|| None);
    let told = waiting.await.unwrap();

    assert!(in_vain < 200, "{in_vain} writes in four seconds");
    let expired = |it: &NotAdmitted| it.end == PlaceEnd::Expired;
    assert!(matches!(&told, Err(AdmitError::Waited(not)) if expired(not)), "{told:?}");
}
