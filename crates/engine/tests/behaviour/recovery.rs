//! Retried runs: which causes are retried, when, how often, and across crashes of the engine.

use pinfold_engine::{AgentRun, CreateRequest, Engine, RunRequest, WaitOutcome};
use pinfold_lifecycle::{
    Cause, Execution, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Generation, Lease,
    Outcome, OutcomeKind, Policy, Recovery, SandboxId, State,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{IdempotencyKey, Store};

use crate::fakes::{START, fault, slow};
use crate::fixture::{Fixture, MINUTE, SECOND, instance_of, words};

async fn run_agent(engine: &Engine, command: &str) -> (SandboxId, ExecutionId) {
    run_agent_by(engine, command, CreateRequest::default()).await
}

async fn run_agent_by(engine: &Engine, command: &str, ask: CreateRequest) -> (SandboxId, ExecutionId) {
    let (kind, limits) = (ExecutionKind::Run, ExecutionLimits::default());
    engine.run_agent(ask, RunRequest { command: words(command), kind, limits }).await.unwrap()
}

impl Fixture {
    async fn end_of(&self, engine: &Engine, (sandbox, execution): (SandboxId, ExecutionId)) -> AgentRun {
        let until = START.after_ms(self.now() + 60 * MINUTE);
        match engine.wait_agent_run(sandbox, execution, until).await.unwrap() {
            WaitOutcome::Met(run) => run,
            WaitOutcome::DeadlinePassed => panic!("the deadline passed"),
        }
    }

    async fn until_running(&self, id: SandboxId, generation: u64) {
        let runs = |sandbox: &pinfold_lifecycle::Sandbox| {
            let is_running = |it: &Execution| matches!(it.state, ExecutionState::Running { .. });
            sandbox.generation() == Generation(generation) && sandbox.executions.iter().any(is_running)
        };
        self.until(id, MINUTE, runs).await;
    }

    async fn kill_its_instance(&self, id: SandboxId) {
        self.world.kill_instance(instance_of(&self.sandbox(id).await), false);
    }

    async fn launches(&self, id: SandboxId) -> usize {
        self.times(id, |fact| matches!(fact, Fact::LaunchBegan { .. })).await.len()
    }
}

/// Generation and cause of every attempt, all ended.
fn attempts_of(run: &AgentRun) -> Vec<(u64, Cause)> {
    let ended =
        run.attempts.iter().map(|attempt| (attempt.generation.0, attempt.end.as_ref().unwrap().cause));
    ended.collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_with_a_lost_instance_is_retried_and_shows_both_attempts_with_receipts() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let requested = run_agent(&engine, "sleep 20").await;
    fixture.until_running(requested.0, 1).await;

    fixture.kill_its_instance(requested.0).await;
    let run = fixture.end_of(&engine, requested).await;

    assert_eq!(run.outcome, Some(Outcome::exited(0)));
    assert_eq!(run.cause, Some(Cause::Completed));
    assert_eq!(attempts_of(&run), [(1, Cause::Lost), (2, Cause::Completed)]);
    for attempt in &run.attempts {
        let receipt = attempt.receipt.as_ref().unwrap();
        assert_eq!(receipt.generation, attempt.generation);
        assert!(receipt.proves_absence());
        assert!(attempt.started_at.unwrap() < attempt.end.as_ref().unwrap().at);
    }
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_instance_with_a_marker_is_proven_gone_before_the_next_attempt() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let (id, execution) = run_agent(&engine, "sleep 20").await;
    fixture.until_running(id, 1).await;

    fixture.world.kill_instance(instance_of(&fixture.sandbox(id).await), true);
    let run = fixture.end_of(&engine, (id, execution)).await;

    assert_eq!(attempts_of(&run), [(1, Cause::ProviderError), (2, Cause::Completed)]);
    let names = fixture.names(id).await;
    let place =
        |name: &str, nth: usize| names.iter().enumerate().filter(|(_, n)| *n == name).nth(nth).unwrap().0;
    assert!(place("LeaseFreed", 0) < place("LaunchBegan", 1), "{names:?}");
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn failed_launches_are_attempted_three_times_with_backoff_and_then_the_run_ends() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.always(Call::Start, fault(Fault::Fails));

    let requested = run_agent(&engine, "true").await;
    let run = fixture.end_of(&engine, requested).await;

    let launches = fixture.times(requested.0, |fact| matches!(fact, Fact::LaunchBegan { .. })).await;
    assert_eq!(launches, [0, SECOND, 3 * SECOND]);
    assert_eq!(run.outcome.as_ref().unwrap().kind, OutcomeKind::Failed);
    assert_eq!(
        attempts_of(&run),
        [(1, Cause::StartFailed), (2, Cause::StartFailed), (3, Cause::StartFailed)]
    );
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waited_for_a_slow_start_is_not_failed_by_the_queue() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Start, slow(55 * SECOND));

    let requested = run_agent(&engine, "true").await;
    let run = fixture.end_of(&engine, requested).await;

    assert_eq!(attempts_of(&run), [(1, Cause::Completed)]);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_of_the_run_itself_is_not_retried() {
    let limits = ExecutionLimits { timeout_ms: Some(5 * SECOND), inactivity_ms: None };
    for (command, cause) in [("exit 3", Cause::ExitNonzero), ("hang", Cause::TimeLimit)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let run = RunRequest { command: words(command), kind: ExecutionKind::Run, limits };

        let requested = engine.run_agent(CreateRequest::default(), run).await.unwrap();
        let run = fixture.end_of(&engine, requested).await;

        assert_eq!(attempts_of(&run), [(1, cause)]);
        assert_eq!(fixture.launches(requested.0).await, 1);
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_two_attempts_is_final() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let slowly = Policy { recovery: Some(Recovery { attempts: 3, backoff_ms: MINUTE }), ..Policy::default() };
    let requested =
        run_agent_by(&engine, "hang", CreateRequest { policy: slowly.into(), ..CreateRequest::default() })
            .await;
    fixture.until_running(requested.0, 1).await;
    fixture.kill_its_instance(requested.0).await;
    fixture.until(requested.0, MINUTE, |sandbox| matches!(sandbox.lease, Lease::LaunchWaiting { .. })).await;
    let between = fixture.state(requested.0).await;

    fixture.stop(&engine, requested.0).await;
    let run = fixture.end_of(&engine, requested).await;
    fixture.pass_ms(10 * MINUTE).await;

    assert_eq!(between, State::Provisioning);
    assert_eq!(run.outcome, Some(Outcome::ended_for(Cause::StoppedByUser)));
    assert_eq!(attempts_of(&run), [(1, Cause::Lost)]);
    assert_eq!(fixture.launches(requested.0).await, 1);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_reboot_of_the_host_is_followed_by_another_attempt() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let requested = run_agent(&engine, "sleep 20").await;
    fixture.until_running(requested.0, 1).await;

    fixture.reboot(engine);
    let next = fixture.start_engine().await;
    let run = fixture.end_of(&next, requested).await;

    assert_eq!(attempts_of(&run), [(1, Cause::HostRestarted), (2, Cause::Completed)]);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_crash_at_any_instant_loses_and_repeats_no_attempt() {
    for crash_after_ms in (0..6_000).step_by(150) {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        for call in [Call::Start, Call::Stop, Call::Exec, Call::Observe] {
            fixture.faults.always(call, slow(200));
        }
        let requested = run_agent(&engine, "sleep 3").await;
        let mut engine = Some(engine);
        let mut next = None;
        let mut killed = false;
        for at in (0..20_000).step_by(50) {
            if at == crash_after_ms {
                fixture.crash(engine.take().unwrap());
                next = Some(fixture.start_engine().await);
            }
            if !killed && fixture.running() > 0 && at >= 1_000 {
                fixture.kill_its_instance(requested.0).await;
                killed = true;
            }
            assert!(fixture.instances().iter().filter(|instance| instance.alive).count() <= 1);
            fixture.pass_ms(50).await;
        }

        let run = fixture.end_of(next.as_ref().unwrap(), requested).await;

        assert_eq!(run.outcome, Some(Outcome::exited(0)), "crash after {crash_after_ms} ms");
        assert!(killed);
        let generations: Vec<_> = attempts_of(&run).iter().map(|(generation, _)| *generation).collect();
        assert!(
            generations == [1, 2] || generations == [1, 2, 3],
            "{crash_after_ms}: {:?}",
            attempts_of(&run)
        );
        assert!(run.attempts.iter().all(|attempt| attempt.receipt.is_some()));
        fixture.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_is_the_same_run_with_all_its_attempts() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let key = IdempotencyKey {
        key: "task 7".into(),
        request: "the same".into(),
        expires_at: START.after_ms(60 * MINUTE),
    };
    let ask = CreateRequest { key: Some(key), ..CreateRequest::default() };
    let first = run_agent_by(&engine, "sleep 20", ask.clone()).await;
    fixture.until_running(first.0, 1).await;
    fixture.kill_its_instance(first.0).await;
    fixture.until_running(first.0, 2).await;

    let again = run_agent_by(&engine, "sleep 20", ask).await;
    let run = fixture.end_of(&engine, again).await;

    assert_eq!(again, first);
    assert_eq!(run.attempts.len(), 2);
    assert_eq!(fixture.store.totals().await.unwrap().created, 1);
}

#[tokio::test(start_paused = true)]
async fn a_running_agent_run_is_reported_with_its_current_state() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let (id, execution) = run_agent(&engine, "hang").await;
    fixture.until_running(id, 1).await;

    let run = engine.agent_run(id, execution).await.unwrap();
    let waited = engine.wait_agent_run(id, execution, START.after_ms(fixture.now() + SECOND)).await.unwrap();

    assert_eq!(waited, WaitOutcome::DeadlinePassed);
    assert_eq!((run.outcome, run.cause, run.receipt), (None, None, None));
    assert!(matches!(&run.attempts[..], [attempt] if attempt.end.is_none() && attempt.started_at.is_some()));
}
