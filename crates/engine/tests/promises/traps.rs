//! Traps that others have fallen into, each as what happens here instead.

use pinfold_engine::{AdmitError, ApplyError, CreateAsk, Stop};
use pinfold_lifecycle::{Cause, ExecutionKind, ExecutionLimits, Fact, Outcome, Policy, SandboxId, State};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CreateError, Fault as WriteFault, Filter, Store, StoreError};

use crate::seams::{fault, hangs, slow};
use crate::stage::{MINUTE, SECOND, Stage, words};

fn is_end(fact: &Fact) -> bool {
    matches!(fact, Fact::Ended { .. })
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_an_unknown_sandbox_ends_no_other_and_is_no_success() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let other = stage.ready(&engine, Policy::default()).await;

    let stop = engine.stop(SandboxId(7), Cause::StoppedByUser, true, MINUTE).await;

    assert!(matches!(stop, Err(ApplyError::Missing)), "{stop:?}");
    assert_eq!((stage.state(other).await, stage.bodies().len()), (State::Ready, 1));
    assert_eq!(stage.weather.calls(Call::Stop), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_what_was_still_to_come_as_a_stop_does() {
    for (max_life_ms, cause) in [(20 * SECOND, Cause::MaxLife), (MINUTE, Cause::StoppedByUser)] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let one_by_one = Policy { side_by_side: 1, max_life_ms, ..Policy::default() };
        let id = stage.ready(&engine, one_by_one).await;
        let running = stage.run(&engine, id, "hang").await;
        let queued = [stage.run(&engine, id, "true").await, stage.run(&engine, id, "true").await];

        stage.pass_ms(21 * SECOND).await;
        stage.stop(&engine, id).await;
        stage.pass_ms(MINUTE).await;

        for execution in [running, queued[0], queued[1]] {
            assert_eq!(stage.outcome(&engine, id, execution).await.cause, cause);
        }
        assert_eq!(stage.weather.calls(Call::Exec), 1, "nothing was begun after {cause:?}");
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_sandbox_is_not_overwritten_by_the_failure_that_its_stop_causes() {
    for stop in [slow(0), slow(10 * SECOND), fault(Fault::LookFails)] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let id = stage.ready(&engine, Policy { one_shot: true, ..Policy::default() }).await;
        let execution = stage.run(&engine, id, "work 5000 1").await;
        stage.pass_ms(SECOND).await;
        stage.weather.next(Call::Stop, stop);

        stage.ask_to_stop(&engine, id).await;
        // It fails by itself while the stop is under way, or because of it.
        stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;
        stage.pass_ms(MINUTE).await;

        assert_eq!(stage.state(id).await, State::Terminated);
        assert_eq!(stage.outcome(&engine, id, execution).await.cause, Cause::StoppedByUser);
        assert_eq!(
            stage.times(id, |fact| *fact == Fact::Ended { cause: Cause::StoppedByUser }).await.len(),
            1
        );
        assert_eq!(stage.times(id, is_end).await.len(), 1, "an end is written once");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_is_said_to_have_begun_runs_or_ends_with_a_reason() {
    for (command, weather, crashes, cause) in [
        ("sleep 3", slow(0), true, Cause::Completed),
        ("sleep 3", fault(Fault::HalfDone), false, Cause::Completed),
        ("sleep 3", hangs(), false, Cause::StartDeadline),
        ("fly", slow(0), false, Cause::StartFailed),
    ] {
        let stage = Stage::new();
        let mut engine = stage.begin().await;
        let id = stage.ready(&engine, Policy::default()).await;
        stage.weather.next(Call::Exec, weather);

        let execution = stage.run(&engine, id, command).await;
        if crashes {
            stage.crash(engine);
            engine = stage.begin().await;
        }
        let outcome = stage.outcome(&engine, id, execution).await;

        assert_eq!(outcome.cause, cause, "{outcome:?}");
        assert_eq!(stage.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_sandbox_whose_work_is_done_is_ended_also_after_a_restart() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy { idle_ms: Some(20 * SECOND), ..Policy::default() }).await;
    let execution = stage.run(&engine, id, "sleep 5").await;
    assert_eq!(stage.outcome(&engine, id, execution).await, Outcome::exited(0));
    stage.pass_ms(5 * SECOND).await;

    stage.crash(engine);
    let _next = stage.begin().await;
    stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    let decided = stage.times(id, |fact| *fact == Fact::EndDecided { cause: Cause::Idle }).await;
    assert_eq!(decided.len(), 1, "{:?}", stage.history(id).await);
    assert!((25 * SECOND..=27 * SECOND).contains(&decided[0]), "{decided:?}");
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_failed_leaves_no_queued_row_behind() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.store.fail_next_writes(2, WriteFault::DiskFull);

    let work = engine.execute(id, words("true"), ExecutionKind::Run, ExecutionLimits::default(), true).await;
    let created = engine.create(CreateAsk::default()).await;
    stage.pass_ms(MINUTE).await;

    assert!(matches!(work, Err(ApplyError::Store(StoreError::DiskFull { .. }))), "{work:?}");
    assert!(
        matches!(created, Err(AdmitError::Create(CreateError::Store(StoreError::DiskFull { .. })))),
        "{created:?}"
    );
    assert_eq!(stage.store.executions(id).await.unwrap().len(), 0);
    assert_eq!(stage.store.list(Filter::All, None, 10).await.unwrap().len(), 1);
    assert_eq!((stage.weather.calls(Call::Exec), stage.weather.calls(Call::Start)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_launch_whose_answer_is_lost_keeps_its_record_until_its_body_is_looked_at() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let brief = Policy { start_ms: 10 * SECOND, launches: 1, ..Policy::default() };
    stage.weather.next(Call::Start, fault(Fault::AnswerLost));
    stage.weather.next(Call::Stop, fault(Fault::LookFails));

    let id = stage.create(&engine, brief).await;
    stage.pass_ms(SECOND).await;
    let unanswered = (stage.state(id).await, stage.bodies().len());
    stage.pass_ms(10 * SECOND).await;
    let unseen = stage.state(id).await;
    stage.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_eq!(unanswered, (State::Provisioning, 1), "the body is there, and nobody knows");
    assert_eq!(unseen, State::Terminating);
    assert_eq!(stage.times(id, |fact| *fact == Fact::Ended { cause: Cause::StartDeadline }).await.len(), 1);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_while_the_host_cannot_be_reached_erases_nothing_and_is_no_success() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Stop, fault(Fault::LookFails));
    stage.weather.always(Call::Observe, fault(Fault::LookFails));

    engine.forget(id).await.unwrap();
    let stop = engine.stop(id, Cause::StoppedByUser, true, MINUTE).await.unwrap();
    stage.pass_ms(30 * MINUTE).await;
    let unreachable = (stage.state(id).await, stage.store.totals().await.unwrap().present());
    stage.weather.clear_up();
    stage.pass_ms(20 * MINUTE).await;

    assert_eq!(stop, Stop::Pending);
    assert_eq!(unreachable, (State::Quarantined, 1), "unreachable is not gone");
    assert!(stage.store.load(id).await.unwrap().is_none());
    stage.assert_nothing_is_left().await;
}
