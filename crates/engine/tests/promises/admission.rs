//! Who gets in: limits that hold in a burst, wishes that are the same wish, and a sum that is right at every step.

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateAsk};
use pinfold_lifecycle::{AdmissionLimits, Cause, Lease, Limits, Policy, Scarcity, Spec};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CreateError, Fault as WriteFault, IdempotencyKey, Store};

use crate::seams::{DAWN, fault, hangs};
use crate::stage::{MINUTE, SECOND, Stage};

fn places(sandboxes: u64) -> Config {
    Config {
        admission: AdmissionLimits { sandboxes: Some(sandboxes), ..AdmissionLimits::default() },
        ..Config::default()
    }
}

fn with_key(request: &str) -> CreateAsk {
    let key = IdempotencyKey {
        key: "order-1".into(),
        request: request.into(),
        expires_at: DAWN.after_ms(60 * MINUTE),
    };
    CreateAsk { key: Some(key), ..CreateAsk::default() }
}

#[tokio::test(start_paused = true)]
async fn sixty_four_creates_at_once_for_five_places_admit_exactly_five() {
    let stage = Stage::new();
    let (one, other) = (stage.begin_with(places(5)).await, stage.begin_with(places(5)).await);

    let creates = (0..64).map(|turn| if turn % 2 == 0 { &one } else { &other });
    let answers = join_all(creates.map(|engine| engine.create(CreateAsk::default()))).await;

    let (admitted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((admitted.len(), refused.len()), (5, 59));
    for refusal in refused {
        let scarcity = Scarcity::Sandboxes { present: 5, limit: 5 };
        assert!(matches!(refusal, Err(AdmitError::Create(CreateError::Scarce(told))) if told == scarcity));
    }
    stage.assert_sum().await;
    assert_eq!(stage.store.totals().await.unwrap().created, 5);
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_only_after_a_proven_stop() {
    let stage = Stage::new();
    let engine = stage.begin_with(places(1)).await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));
    stage.ask_to_stop(&engine, id).await;
    stage.until(id, SECOND, |sandbox| matches!(sandbox.lease, Lease::StopWaiting { .. })).await;

    let too_early = engine.create(CreateAsk::default()).await;
    stage.stop(&engine, id).await;
    let in_time = engine.create(CreateAsk::default()).await;
    let one_more = engine.create(CreateAsk::default()).await;

    assert!(matches!(too_early, Err(AdmitError::Create(CreateError::Scarce(_)))));
    assert!(in_time.is_ok());
    assert!(matches!(one_more, Err(AdmitError::Create(CreateError::Scarce(_)))));
}

#[tokio::test(start_paused = true)]
async fn memory_that_is_taken_is_not_given_twice() {
    let stage = Stage::new();
    let admission = AdmissionLimits { memory_mb: Some(1_000), ..AdmissionLimits::default() };
    let engine = stage.begin_with(Config { admission, ..Config::default() }).await;
    let asking = |memory_mb| CreateAsk {
        spec: Spec { limits: Limits { memory_mb: Some(memory_mb), ..Limits::default() }, ..Spec::default() },
        ..CreateAsk::default()
    };

    let first = engine.create(asking(700)).await.unwrap();
    let too_much = engine.create(asking(400)).await;
    let fits = engine.create(asking(300)).await;
    stage.stop(&engine, first).await;

    let scarcity = Scarcity::Memory { taken: 700, asked: 400, limit: 1_000 };
    assert!(matches!(too_much, Err(AdmitError::Create(CreateError::Scarce(told))) if told == scarcity));
    assert!(fits.is_ok());
    assert_eq!(stage.store.totals().await.unwrap().taken.memory_mb, 300);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_through_every_engine() {
    let stage = Stage::new();
    let (one, other) = (stage.begin_with(places(1)).await, stage.begin_with(places(1)).await);

    let first = one.create(with_key("a")).await.unwrap();
    let again = other.create(with_key("a")).await.unwrap();
    let another_request = one.create(with_key("b")).await;
    stage.wait_ready(&one, first).await.unwrap();
    stage.stop(&one, first).await;
    let after_the_end = one.create(with_key("a")).await.unwrap();

    assert_eq!((again, after_the_end), (first, first));
    assert!(matches!(another_request, Err(AdmitError::Create(CreateError::KeyReused { .. }))));
    assert_eq!(stage.store.totals().await.unwrap().created, 1);
    assert_eq!(stage.weather.calls(Call::Start), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_although_the_first_answer_was_lost() {
    for lost in [WriteFault::UnclearWritten, WriteFault::UnclearNotWritten] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        stage.pass_ms(SECOND).await;
        stage.store.fail_next_writes(1, lost);

        let first = engine.create(with_key("a")).await;
        let again = engine.create(with_key("a")).await.unwrap();
        stage.wait_ready(&engine, again).await.unwrap();

        assert!(first.is_err() || first.unwrap() == again);
        assert_eq!(stage.store.totals().await.unwrap().created, 1);
        assert_eq!(stage.bodies().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_sandbox_after_a_crash_of_the_engine_that_was_asked_first() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Start, hangs());
    let first = engine.create(with_key("a")).await.unwrap();
    stage.pass_ms(SECOND).await;

    stage.crash(engine);
    let next = stage.begin().await;
    let again = next.create(with_key("a")).await.unwrap();

    assert_eq!(again, first);
    assert_eq!(stage.wait_ready(&next, again).await, Ok(()));
    assert_eq!(stage.bodies().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn created_less_destroyed_is_what_is_there_at_every_step() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Start, fault(Fault::HalfDone));

    let first = stage.create(&engine, Policy::default()).await;
    stage.assert_sum().await;
    stage.wait_ready(&engine, first).await.unwrap();
    stage.assert_sum().await;
    let second = stage.ready(&engine, Policy { stop_attempts: 1, ..Policy::default() }).await;
    stage.assert_sum().await;
    engine.restart(first, Cause::StoppedByUser).await.unwrap();
    stage.assert_sum().await;
    stage.weather.next(Call::Stop, fault(Fault::LookFails));
    stage.stop(&engine, second).await;
    stage.assert_sum().await;
    engine.forget(first).await.unwrap();
    stage.assert_sum().await;
    stage.pass_ms(MINUTE).await;

    let totals = stage.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (2, 2));
    stage.assert_nothing_is_left().await;
}
