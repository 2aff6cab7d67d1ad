//! Known bugs of other systems, each as a test of the correct behaviour.

use pinfold_engine::{AdmitError, ApplyError, CreateRequest, StopProgress};
use pinfold_lifecycle::{Cause, ExecutionKind, ExecutionLimits, Fact, Outcome, Policy, SandboxId, State};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CreateError, SandboxFilter, Store, StoreError};
use pinfold_store_sqlite::WriteFault;

use crate::fakes::{fault, hangs, slow};
use crate::fixture::{Fixture, MINUTE, SECOND, words};

fn is_end(fact: &Fact) -> bool {
    matches!(fact, Fact::Ended { .. })
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_an_unknown_sandbox_ends_no_other_and_fails() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let other = fixture.ready(&engine, Policy::default()).await;

    let stop = engine.stop(SandboxId(7), Cause::StoppedByUser, Some(0), MINUTE).await;

    assert!(matches!(stop, Err(ApplyError::Missing)), "{stop:?}");
    assert_eq!((fixture.state(other).await, fixture.instances().len()), (State::Ready, 1));
    assert_eq!(fixture.faults.calls(Call::Stop), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_queued_executions_like_a_stop() {
    for (max_life_ms, cause) in [(20 * SECOND, Cause::MaxLife), (MINUTE, Cause::StoppedByUser)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let one_by_one = Policy { max_concurrent: 1, max_life_ms, ..Policy::default() };
        let id = fixture.ready(&engine, one_by_one).await;
        let running = fixture.run(&engine, id, "hang").await;
        let queued = [fixture.run(&engine, id, "true").await, fixture.run(&engine, id, "true").await];

        fixture.pass_ms(21 * SECOND).await;
        fixture.stop(&engine, id).await;
        fixture.pass_ms(MINUTE).await;

        for execution in [running, queued[0], queued[1]] {
            assert_eq!(fixture.outcome(&engine, id, execution).await.cause, cause);
        }
        assert_eq!(fixture.faults.calls(Call::Exec), 1, "no execution started after {cause:?}");
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_sandbox_is_not_overwritten_by_the_failure_that_its_stop_causes() {
    for stop in [slow(0), slow(10 * SECOND), fault(Fault::ObserveFails)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy { one_shot: true, ..Policy::default() }).await;
        let execution = fixture.run(&engine, id, "work 5000 1").await;
        fixture.pass_ms(SECOND).await;
        fixture.faults.next(Call::Stop, stop);

        fixture.request_stop(&engine, id).await;
        // It fails by itself during the stop, or because of it.
        fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;
        fixture.pass_ms(MINUTE).await;

        assert_eq!(fixture.state(id).await, State::Terminated);
        assert_eq!(fixture.outcome(&engine, id, execution).await.cause, Cause::StoppedByUser);
        assert_eq!(
            fixture.times(id, |fact| *fact == Fact::Ended { cause: Cause::StoppedByUser }).await.len(),
            1
        );
        assert_eq!(fixture.times(id, is_end).await.len(), 1, "an end is written once");
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_execution_runs_or_ends_with_a_reason() {
    for (command, faults, crashes, cause) in [
        ("sleep 3", slow(0), true, Cause::Completed),
        ("sleep 3", fault(Fault::HalfDone), false, Cause::Completed),
        ("sleep 3", hangs(), false, Cause::StartDeadline),
        ("true", fault(Fault::Fails), false, Cause::StartFailed),
    ] {
        let fixture = Fixture::new();
        let mut engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy::default()).await;
        fixture.faults.next(Call::Exec, faults);

        let execution = fixture.run(&engine, id, command).await;
        if crashes {
            fixture.crash(engine);
            engine = fixture.start_engine().await;
        }
        let outcome = fixture.outcome(&engine, id, execution).await;

        assert_eq!(outcome.cause, cause, "{outcome:?}");
        assert_eq!(fixture.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_sandbox_whose_work_is_done_is_ended_also_after_a_restart() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy { idle_ms: Some(20 * SECOND), ..Policy::default() }).await;
    let execution = fixture.run(&engine, id, "sleep 5").await;
    assert_eq!(fixture.outcome(&engine, id, execution).await, Outcome::exited(0));
    fixture.pass_ms(5 * SECOND).await;

    fixture.crash(engine);
    let _next = fixture.start_engine().await;
    fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    let decided = fixture.times(id, |fact| *fact == Fact::EndDecided { cause: Cause::Idle }).await;
    assert_eq!(decided.len(), 1, "{:?}", fixture.history(id).await);
    assert!((25 * SECOND..=27 * SECOND).contains(&decided[0]), "{decided:?}");
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_failed_leaves_no_queued_row_behind() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.store.fail_next_writes(2, WriteFault::DiskFull);

    let work = engine.execute(id, words("true"), ExecutionKind::Run, ExecutionLimits::default(), true).await;
    let created = engine.create(CreateRequest::default()).await;
    fixture.pass_ms(MINUTE).await;

    assert!(matches!(work, Err(ApplyError::Store(StoreError::DiskFull { .. }))), "{work:?}");
    assert!(
        matches!(created, Err(AdmitError::Create(CreateError::Store(StoreError::DiskFull { .. })))),
        "{created:?}"
    );
    assert_eq!(fixture.store.executions(id).await.unwrap().len(), 0);
    assert_eq!(fixture.store.list(SandboxFilter::All, None, 10).await.unwrap().len(), 1);
    assert_eq!((fixture.faults.calls(Call::Exec), fixture.faults.calls(Call::Start)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_launch_with_lost_answer_keeps_its_record_until_its_instance_is_observed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let brief = Policy { start_ms: 10 * SECOND, launches: 1, ..Policy::default() };
    fixture.faults.next(Call::Start, fault(Fault::AnswerLost));
    fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));

    let id = fixture.create(&engine, brief).await;
    fixture.pass_ms(SECOND).await;
    let unanswered = (fixture.state(id).await, fixture.instances().len());
    fixture.pass_ms(10 * SECOND).await;
    let unseen = fixture.state(id).await;
    fixture.until(id, MINUTE, |sandbox| sandbox.is_settled()).await;

    assert_eq!(unanswered, (State::Provisioning, 1), "the instance exists and the answer was lost");
    assert_eq!(unseen, State::Terminating);
    assert_eq!(fixture.times(id, |fact| *fact == Fact::Ended { cause: Cause::StartDeadline }).await.len(), 1);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_while_the_host_is_unreachable_erases_nothing_and_fails() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Stop, fault(Fault::ObserveFails));
    fixture.faults.always(Call::Observe, fault(Fault::ObserveFails));

    engine.forget(id).await.unwrap();
    let stop = engine.stop(id, Cause::StoppedByUser, Some(0), MINUTE).await.unwrap();
    fixture.pass_ms(30 * MINUTE).await;
    let unreachable = (fixture.state(id).await, fixture.store.totals().await.unwrap().present());
    fixture.faults.clear();
    fixture.pass_ms(20 * MINUTE).await;

    assert_eq!(stop, StopProgress::Pending);
    assert_eq!(unreachable, (State::Quarantined, 1), "unreachable is not gone");
    assert!(fixture.store.load(id).await.unwrap().is_none());
    fixture.assert_nothing_is_left().await;
}
