//! Admission: limits hold in a burst, repeated requests with one key get one sandbox, and the totals are right
//! at every step.

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateRequest};
use pinfold_lifecycle::{AdmissionLimits, AdmissionRefusal, Cause, Lease, Limits, Policy, Spec};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CreateError, IdempotencyKey, Store};
use pinfold_store_sqlite::WriteFault;

use crate::fakes::{START, fault, hangs};
use crate::fixture::{Fixture, MINUTE, SECOND};

fn slots(sandboxes: u64) -> Config {
    Config {
        admission: AdmissionLimits { sandboxes: Some(sandboxes), ..AdmissionLimits::default() },
        ..Config::default()
    }
}

fn with_key(request: &str) -> CreateRequest {
    let key = IdempotencyKey {
        key: "order-1".into(),
        request: request.into(),
        expires_at: START.after_ms(60 * MINUTE),
    };
    CreateRequest { key: Some(key), ..CreateRequest::default() }
}

#[tokio::test(start_paused = true)]
async fn sixty_four_concurrent_creates_for_five_slots_admit_exactly_five() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.start_engine_with(slots(5)).await, fixture.start_engine_with(slots(5)).await);

    let creates = (0..64).map(|turn| if turn % 2 == 0 { &one } else { &other });
    let answers = join_all(creates.map(|engine| engine.create(CreateRequest::default()))).await;

    let (admitted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((admitted.len(), refused.len()), (5, 59));
    for refusal in refused {
        let scarcity = AdmissionRefusal::Sandboxes { present: 5, limit: 5 };
        assert!(
            matches!(refusal, Err(AdmitError::Create(CreateError::AdmissionRefused(reported))) if reported == scarcity)
        );
    }
    fixture.assert_sum().await;
    assert_eq!(fixture.store.totals().await.unwrap().created, 5);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_free_again_only_after_a_proven_stop() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(slots(1)).await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));
    fixture.request_stop(&engine, id).await;
    fixture.until(id, SECOND, |sandbox| matches!(sandbox.lease, Lease::StopWaiting { .. })).await;

    let too_early = engine.create(CreateRequest::default()).await;
    fixture.stop(&engine, id).await;
    let in_time = engine.create(CreateRequest::default()).await;
    let one_more = engine.create(CreateRequest::default()).await;

    assert!(matches!(too_early, Err(AdmitError::Create(CreateError::AdmissionRefused(_)))));
    assert!(in_time.is_ok());
    assert!(matches!(one_more, Err(AdmitError::Create(CreateError::AdmissionRefused(_)))));
}

#[tokio::test(start_paused = true)]
async fn leased_memory_is_not_admitted_twice() {
    let fixture = Fixture::new();
    let admission = AdmissionLimits { memory_mb: Some(1_000), ..AdmissionLimits::default() };
    let engine = fixture.start_engine_with(Config { admission, ..Config::default() }).await;
    let requesting = |memory_mb| CreateRequest {
        spec: Spec { limits: Limits { memory_mb: Some(memory_mb), ..Limits::default() }, ..Spec::default() }
            .into(),
        ..CreateRequest::default()
    };

    let first = engine.create(requesting(700)).await.unwrap();
    let too_much = engine.create(requesting(400)).await;
    let fits = engine.create(requesting(300)).await;
    fixture.stop(&engine, first).await;

    let scarcity = AdmissionRefusal::Memory { taken: 700, requested: 400, limit: 1_000 };
    assert!(
        matches!(too_much, Err(AdmitError::Create(CreateError::AdmissionRefused(reported))) if reported == scarcity)
    );
    assert!(fits.is_ok());
    assert_eq!(fixture.store.totals().await.unwrap().taken.memory_mb, 300);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_through_every_engine() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.start_engine_with(slots(1)).await, fixture.start_engine_with(slots(1)).await);

    let first = one.create(with_key("a")).await.unwrap();
    let again = other.create(with_key("a")).await.unwrap();
    let another_request = one.create(with_key("b")).await;
    fixture.wait_ready(&one, first).await.unwrap();
    fixture.stop(&one, first).await;
    let after_the_end = one.create(with_key("a")).await.unwrap();

    assert_eq!((again, after_the_end), (first, first));
    assert!(matches!(another_request, Err(AdmitError::Create(CreateError::KeyReused { .. }))));
    assert_eq!(fixture.store.totals().await.unwrap().created, 1);
    assert_eq!(fixture.faults.calls(Call::Start), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_although_the_first_answer_was_lost() {
    for lost in [WriteFault::UnknownWritten, WriteFault::UnknownNotWritten] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        fixture.pass_ms(SECOND).await;
        fixture.store.fail_next_writes(1, lost);

        let first = engine.create(with_key("a")).await;
        let again = engine.create(with_key("a")).await.unwrap();
        fixture.wait_ready(&engine, again).await.unwrap();

        assert!(first.is_err() || first.unwrap() == again);
        assert_eq!(fixture.store.totals().await.unwrap().created, 1);
        assert_eq!(fixture.instances().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_after_a_crash_of_the_first_engine() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Start, hangs());
    let first = engine.create(with_key("a")).await.unwrap();
    fixture.pass_ms(SECOND).await;

    fixture.crash(engine);
    let next = fixture.start_engine().await;
    let again = next.create(with_key("a")).await.unwrap();

    assert_eq!(again, first);
    assert_eq!(fixture.wait_ready(&next, again).await, Ok(()));
    assert_eq!(fixture.instances().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn created_minus_destroyed_equals_present_at_every_step() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Start, fault(Fault::HalfDone));

    let first = fixture.create(&engine, Policy::default()).await;
    fixture.assert_sum().await;
    fixture.wait_ready(&engine, first).await.unwrap();
    fixture.assert_sum().await;
    let second = fixture.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    fixture.assert_sum().await;
    engine.restart(first, Cause::StoppedByUser).await.unwrap();
    fixture.assert_sum().await;
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));
    fixture.stop(&engine, second).await;
    fixture.assert_sum().await;
    engine.forget(first).await.unwrap();
    fixture.assert_sum().await;
    fixture.pass_ms(MINUTE).await;

    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (2, 2));
    fixture.assert_nothing_is_left().await;
}
