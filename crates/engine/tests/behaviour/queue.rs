//! The admission queue: first come, first served, across engines, and with a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateRequest, Engine, QueueRequest, QueueWaitEnded};
use pinfold_lifecycle::{AdmissionLimits, AdmissionRefusal, Demand, Policy, QueueId, SandboxId};
use pinfold_store::{CreateError, NewQueueEntry, Queue, QueueOutcome, Store};
use pinfold_store_sqlite::WriteFault;
use tokio::task::JoinHandle;

use crate::fixture::{Fixture, MINUTE, SECOND};

fn slots(sandboxes: u64) -> Config {
    Config {
        admission: AdmissionLimits { sandboxes: Some(sandboxes), ..AdmissionLimits::default() },
        ..Config::default()
    }
}

fn queued(fixture: &Fixture, queue_id: u128, for_ms: u64) -> CreateRequest {
    let queue = QueueRequest::new(QueueId(queue_id), pinfold_engine::Clock::now(&fixture.clock), for_ms);
    CreateRequest { queue: Some(queue), ..CreateRequest::default() }
}

type QueueGuard = JoinHandle<Result<SandboxId, AdmitError>>;

/// Spawns a create request, and returns when it waits in the queue.
async fn spawn_queued(fixture: &Fixture, engine: &Arc<Engine>, queue_id: u128, for_ms: u64) -> QueueGuard {
    let (engine, request) = (engine.clone(), queued(fixture, queue_id, for_ms));
    let waiting = tokio::spawn(async move { engine.create(request).await });
    while fixture.store.queue_entry(QueueId(queue_id)).await.unwrap().is_none() {
        assert!(!waiting.is_finished(), "it was not queued");
        fixture.pass_ms(1).await;
    }
    waiting
}

async fn end_of(fixture: &Fixture, queue_id: u128) -> Option<QueueOutcome> {
    fixture.store.queue_entry(QueueId(queue_id)).await.unwrap().unwrap().outcome.map(|(_, end)| end)
}

async fn positions(engine: &Engine) -> Vec<u128> {
    engine.queue_positions().await.unwrap().iter().map(|one| one.entry.new.id.0).collect()
}

#[tokio::test(start_paused = true)]
async fn queued_requests_are_admitted_in_order_across_engines() {
    let fixture = Fixture::new();
    let one = Arc::new(fixture.start_engine_with(slots(1)).await);
    let other = Arc::new(fixture.start_engine_with(slots(1)).await);
    let there = fixture.ready(&one, Policy::default()).await;
    let first = spawn_queued(&fixture, &other, 1, MINUTE).await;
    let second = spawn_queued(&fixture, &one, 2, MINUTE).await;
    assert_eq!(positions(&one).await, [1, 2]);

    fixture.stop(&one, there).await;
    let first = first.await.unwrap().unwrap();

    assert_eq!(end_of(&fixture, 1).await, Some(QueueOutcome::Admitted(first)));
    assert_eq!((positions(&other).await, second.is_finished()), (vec![2], false));
    fixture.stop(&other, first).await;
    let second = second.await.unwrap().unwrap();
    assert_eq!(end_of(&fixture, 2).await, Some(QueueOutcome::Admitted(second)));
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_without_queue_is_refused_while_another_waits_for_the_same_room() {
    let fixture = Fixture::new();
    let engine = Arc::new(fixture.start_engine_with(slots(1)).await);
    let now = pinfold_engine::Clock::now(&fixture.clock);
    // A queue entry whose owner does not use it before its deadline.
    let slow = NewQueueEntry {
        id: QueueId(1),
        owner_node: engine.node(),
        requested_at: now,
        deadline: now.after_ms(5 * SECOND),
        demand: Demand::default(),
        quotas: Vec::new(),
        requested_by: None,
        name: None,
    };
    fixture.store.enqueue(slow, slots(1).admission).await.unwrap();

    let newcomer = engine.create(CreateRequest::default()).await;
    let behind = spawn_queued(&fixture, &engine, 2, MINUTE).await;

    let kept = AdmissionRefusal::Queue { ahead: 1 };
    assert!(
        matches!(newcomer, Err(AdmitError::Create(CreateError::AdmissionRefused(reported))) if reported == kept)
    );
    assert!(behind.await.unwrap().is_ok());
    assert!(
        (5 * SECOND..6 * SECOND).contains(&fixture.now()),
        "it waited for the deadline of the entry ahead: {}",
        fixture.now()
    );
}

#[tokio::test(start_paused = true)]
async fn time_between_request_and_queue_counts_as_waited() {
    let fixture = Fixture::new();
    let engine = Arc::new(fixture.start_engine_with(slots(1)).await);
    fixture.ready(&engine, Policy::default()).await;
    let request = queued(&fixture, 1, 5 * SECOND);
    fixture.pass_ms(SECOND).await;

    let refused = engine.create(request).await;

    let Err(AdmitError::Waited(QueueWaitEnded { waited_ms, .. })) = refused else { panic!("{refused:?}") };
    assert!((5 * SECOND..5 * SECOND + 100).contains(&waited_ms), "{waited_ms}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_queue_entry_is_refused_with_its_last_position() {
    let fixture = Fixture::new();
    let engine = Arc::new(fixture.start_engine_with(slots(1)).await);
    fixture.ready(&engine, Policy::default()).await;
    let first = spawn_queued(&fixture, &engine, 1, MINUTE).await;
    let began = fixture.now();

    let second = spawn_queued(&fixture, &engine, 2, 5 * SECOND).await.await.unwrap();

    let Err(AdmitError::Waited(QueueWaitEnded { end, waited_ms, position, why })) = second else {
        panic!("{second:?}");
    };
    assert_eq!((end, position), (QueueOutcome::Expired, Some(2)));
    assert!((5 * SECOND..5 * SECOND + 100).contains(&waited_ms), "{waited_ms}");
    assert!(fixture.now() - began < 6 * SECOND);
    let scarcity = AdmissionRefusal::Sandboxes { present: 1, limit: 1 };
    assert!(
        matches!(*why, AdmitError::Create(CreateError::AdmissionRefused(reported)) if reported == scarcity)
    );
    assert_eq!((positions(&engine).await, first.is_finished()), (vec![1], false));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_leaves_the_queue() {
    let fixture = Fixture::new();
    let engine = Arc::new(fixture.start_engine_with(slots(1)).await);
    let there = fixture.ready(&engine, Policy::default()).await;
    let first = spawn_queued(&fixture, &engine, 1, MINUTE).await;
    let second = spawn_queued(&fixture, &engine, 2, MINUTE).await;

    first.abort();
    fixture.pass_ms(SECOND).await;
    assert_eq!(
        (end_of(&fixture, 1).await, positions(&engine).await),
        (Some(QueueOutcome::Cancelled), vec![2])
    );
    assert!(engine.leave_queue(QueueId(2)).await.unwrap());

    let reported = second.await.unwrap();
    let is_cancelled =
        matches!(&reported, Err(AdmitError::Waited(not)) if not.end == QueueOutcome::Cancelled);
    assert!(is_cancelled, "{reported:?}");
    fixture.stop(&engine, there).await;
    assert!(engine.create(CreateRequest::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn queue_entries_of_a_dead_engine_expire_with_its_heartbeat() {
    let fixture = Fixture::new();
    let engine = Arc::new(fixture.start_engine_with(slots(1)).await);
    let there = fixture.ready(&engine, Policy::default()).await;
    let dying = Arc::new(fixture.start_engine_with(slots(1)).await);
    let first = spawn_queued(&fixture, &dying, 1, 10 * MINUTE).await;
    let second = spawn_queued(&fixture, &engine, 2, 10 * MINUTE).await;

    // No process is left to cancel the entry.
    let node = dying.node();
    fixture.liveness.declare_dead(node);
    fixture.store.fail_next_writes(1, pinfold_store_sqlite::WriteFault::Busy);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    drop(Arc::into_inner(dying));
    fixture.stop(&engine, there).await;
    let began = fixture.now();
    let admitted = second.await.unwrap();

    assert!(admitted.is_ok(), "{admitted:?}");
    assert!(fixture.now() - began <= 3 * SECOND, "{}", fixture.now() - began);
    assert_ne!(end_of(&fixture, 1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_can_never_fit_is_refused_at_once() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(slots(0)).await;

    let refused = engine.create(queued(&fixture, 1, MINUTE)).await;

    assert!(matches!(refused, Err(AdmitError::Create(CreateError::AdmissionRefused(_)))), "{refused:?}");
    assert_eq!(fixture.now(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_queued_requests_pass_few_slots_without_exceeding_the_limit() {
    let fixture = Arc::new(Fixture::new());
    let engines = [
        Arc::new(fixture.start_engine_with(slots(3)).await),
        Arc::new(fixture.start_engine_with(slots(3)).await),
    ];

    let crowd = (0..40_u128).map(|queue_id| {
        let (fixture, engine) = (fixture.clone(), engines[queue_id as usize % 2].clone());
        tokio::spawn(async move {
            let id = engine.create(queued(&fixture, queue_id, 20 * MINUTE)).await.unwrap();
            assert!(fixture.store.totals().await.unwrap().present() <= 3);
            fixture.pass_ms(SECOND).await;
            fixture.stop(&engine, id).await;
        })
    });

    for done in join_all(crowd.collect::<Vec<_>>()).await {
        done.unwrap();
    }
    // Three at a time for a second each, with little time lost in between.
    assert!(fixture.now() < 20 * SECOND, "{}", fixture.now());
    fixture.assert_nothing_is_left().await;
    assert!(fixture.store.is_queue_empty().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_expired_queue_entry_that_cannot_be_written_is_retried_with_a_bounded_rate() {
    let fixture = Fixture::new();
    let engine = Arc::new(fixture.start_engine_with(slots(1)).await);
    fixture.ready(&engine, Policy::default()).await;
    let waiting = spawn_queued(&fixture, &engine, 1, SECOND).await;
    let tried = Arc::new(AtomicUsize::new(0));
    let counted = tried.clone();
    // Bounded, so that a busy loop is detected instead of waited for.
    fixture.store.fail_writes(move || {
        (counted.fetch_add(1, Ordering::Relaxed) < 10_000).then_some(WriteFault::DiskFull)
    });

    fixture.pass_ms(5 * SECOND).await;
    let failed_writes = tried.load(Ordering::Relaxed);
    fixture.store.fail_writes(|| None);
    let reported = waiting.await.unwrap();

    assert!(failed_writes < 200, "{failed_writes} writes in four seconds");
    let expired = |it: &QueueWaitEnded| it.end == QueueOutcome::Expired;
    assert!(matches!(&reported, Err(AdmitError::Waited(not)) if expired(not)), "{reported:?}");
}
