//! Runs that are tried again: by which causes, when, how often, and through crashes of whoever does it.

use pinfold_engine::{AgentRun, CreateAsk, Engine, RunAsk, Waited};
use pinfold_lifecycle::{
    Cause, Execution, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Generation, Lease,
    Outcome, OutcomeKind, Policy, Recovery, SandboxId, State,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{IdempotencyKey, Store};

use crate::seams::{DAWN, fault, slow};
use crate::stage::{MINUTE, SECOND, Stage, body_of, words};

async fn run_agent(engine: &Engine, command: &str) -> (SandboxId, ExecutionId) {
    run_agent_by(engine, command, CreateAsk::default()).await
}

async fn run_agent_by(engine: &Engine, command: &str, ask: CreateAsk) -> (SandboxId, ExecutionId) {
    let (kind, limits) = (ExecutionKind::Run, ExecutionLimits::default());
    engine.run_agent(ask, RunAsk { command: words(command), kind, limits }).await.unwrap()
}

impl Stage {
    async fn end_of(&self, engine: &Engine, (sandbox, execution): (SandboxId, ExecutionId)) -> AgentRun {
        let until = DAWN.after_ms(self.now() + 60 * MINUTE);
        match engine.wait_agent_run(sandbox, execution, until).await.unwrap() {
            Waited::Met(run) => run,
            Waited::DeadlinePassed => panic!("the deadline passed"),
        }
    }

    async fn until_running(&self, id: SandboxId, generation: u64) {
        let runs = |sandbox: &pinfold_lifecycle::Sandbox| {
            let is_running = |it: &Execution| matches!(it.state, ExecutionState::Running { .. });
            sandbox.generation() == Generation(generation) && sandbox.executions.iter().any(is_running)
        };
        self.until(id, MINUTE, runs).await;
    }

    async fn kill_its_body(&self, id: SandboxId) {
        self.world.kill_body(body_of(&self.sandbox(id).await), false);
    }

    async fn launches(&self, id: SandboxId) -> usize {
        self.times(id, |fact| matches!(fact, Fact::LaunchBegan { .. })).await.len()
    }
}

/// The generation and cause of every try, all of which have ended.
fn tries(run: &AgentRun) -> Vec<(u64, Cause)> {
    let ended =
        run.attempts.iter().map(|attempt| (attempt.generation.0, attempt.end.as_ref().unwrap().cause));
    ended.collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_body_is_lost_is_tried_again_and_shows_both_tries_with_their_receipts() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let asked = run_agent(&engine, "sleep 20").await;
    stage.until_running(asked.0, 1).await;

    stage.kill_its_body(asked.0).await;
    let run = stage.end_of(&engine, asked).await;

    assert_eq!(run.outcome, Some(Outcome::exited(0)));
    assert_eq!(run.cause, Some(Cause::Completed));
    assert_eq!(tries(&run), [(1, Cause::Lost), (2, Cause::Completed)]);
    for attempt in &run.attempts {
        let receipt = attempt.receipt.as_ref().unwrap();
        assert_eq!(receipt.generation, attempt.generation);
        assert!(receipt.proves_absence());
        assert!(attempt.started_at.unwrap() < attempt.end.as_ref().unwrap().at);
    }
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_dies_and_leaves_its_mark_is_proven_gone_before_the_next_try() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let (id, execution) = run_agent(&engine, "sleep 20").await;
    stage.until_running(id, 1).await;

    stage.world.kill_body(body_of(&stage.sandbox(id).await), true);
    let run = stage.end_of(&engine, (id, execution)).await;

    assert_eq!(tries(&run), [(1, Cause::ProviderError), (2, Cause::Completed)]);
    let names = stage.names(id).await;
    let place =
        |name: &str, nth: usize| names.iter().enumerate().filter(|(_, n)| *n == name).nth(nth).unwrap().0;
    assert!(place("LeaseFreed", 0) < place("LaunchBegan", 1), "{names:?}");
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn launches_that_fail_are_tried_three_times_with_growing_waits_and_then_the_run_ends() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.always(Call::Start, fault(Fault::Fails));

    let asked = run_agent(&engine, "true").await;
    let run = stage.end_of(&engine, asked).await;

    let launches = stage.times(asked.0, |fact| matches!(fact, Fact::LaunchBegan { .. })).await;
    assert_eq!(launches, [0, SECOND, 3 * SECOND]);
    assert_eq!(run.outcome.as_ref().unwrap().kind, OutcomeKind::Failed);
    assert_eq!(tries(&run), [(1, Cause::StartFailed), (2, Cause::StartFailed), (3, Cause::StartFailed)]);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waited_for_a_slow_start_is_not_failed_by_the_queue() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Start, slow(55 * SECOND));

    let asked = run_agent(&engine, "true").await;
    let run = stage.end_of(&engine, asked).await;

    assert_eq!(tries(&run), [(1, Cause::Completed)]);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_itself_comes_to_is_not_tried_again() {
    let limits = ExecutionLimits { timeout_ms: Some(5 * SECOND), inactivity_ms: None };
    for (command, cause) in [("exit 3", Cause::ExitNonzero), ("hang", Cause::TimeLimit)] {
        let stage = Stage::new();
        let engine = stage.begin().await;
        let run = RunAsk { command: words(command), kind: ExecutionKind::Run, limits };

        let asked = engine.run_agent(CreateAsk::default(), run).await.unwrap();
        let run = stage.end_of(&engine, asked).await;

        assert_eq!(tries(&run), [(1, cause)]);
        assert_eq!(stage.launches(asked.0).await, 1);
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_two_tries_is_the_end() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let slowly = Policy { recovery: Some(Recovery { tries: 3, backoff_ms: MINUTE }), ..Policy::default() };
    let asked = run_agent_by(&engine, "hang", CreateAsk { policy: slowly, ..CreateAsk::default() }).await;
    stage.until_running(asked.0, 1).await;
    stage.kill_its_body(asked.0).await;
    stage.until(asked.0, MINUTE, |sandbox| matches!(sandbox.lease, Lease::LaunchWaiting { .. })).await;
    let between = stage.state(asked.0).await;

    stage.stop(&engine, asked.0).await;
    let run = stage.end_of(&engine, asked).await;
    stage.pass_ms(10 * MINUTE).await;

    assert_eq!(between, State::Provisioning);
    assert_eq!(run.outcome, Some(Outcome::ended_for(Cause::StoppedByUser)));
    assert_eq!(tries(&run), [(1, Cause::Lost)]);
    assert_eq!(stage.launches(asked.0).await, 1);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_host_is_followed_by_another_try() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let asked = run_agent(&engine, "sleep 20").await;
    stage.until_running(asked.0, 1).await;

    stage.reboot(engine);
    let next = stage.begin().await;
    let run = stage.end_of(&next, asked).await;

    assert_eq!(tries(&run), [(1, Cause::HostRestarted), (2, Cause::Completed)]);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_crashes_at_any_instant_loses_no_try_and_makes_none_twice() {
    for crash_after_ms in (0..6_000).step_by(150) {
        let stage = Stage::new();
        let engine = stage.begin().await;
        for call in [Call::Start, Call::Stop, Call::Exec, Call::Observe] {
            stage.weather.always(call, slow(200));
        }
        let asked = run_agent(&engine, "sleep 3").await;
        let mut engine = Some(engine);
        let mut next = None;
        let mut killed = false;
        for at in (0..20_000).step_by(50) {
            if at == crash_after_ms {
                stage.crash(engine.take().unwrap());
                next = Some(stage.begin().await);
            }
            if !killed && stage.running() > 0 && at >= 1_000 {
                stage.kill_its_body(asked.0).await;
                killed = true;
            }
            assert!(stage.bodies().iter().filter(|body| body.alive).count() <= 1);
            stage.pass_ms(50).await;
        }

        let run = stage.end_of(next.as_ref().unwrap(), asked).await;

        assert_eq!(run.outcome, Some(Outcome::exited(0)), "crash after {crash_after_ms} ms");
        assert!(killed);
        let generations: Vec<_> = tries(&run).iter().map(|(generation, _)| *generation).collect();
        assert!(generations == [1, 2] || generations == [1, 2, 3], "{crash_after_ms}: {:?}", tries(&run));
        assert!(run.attempts.iter().all(|attempt| attempt.receipt.is_some()));
        stage.assert_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_is_the_same_run_with_all_its_tries() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let key = IdempotencyKey {
        key: "task 7".into(),
        request: "the same".into(),
        expires_at: DAWN.after_ms(60 * MINUTE),
    };
    let ask = CreateAsk { key: Some(key), ..CreateAsk::default() };
    let first = run_agent_by(&engine, "sleep 20", ask.clone()).await;
    stage.until_running(first.0, 1).await;
    stage.kill_its_body(first.0).await;
    stage.until_running(first.0, 2).await;

    let again = run_agent_by(&engine, "sleep 20", ask).await;
    let run = stage.end_of(&engine, again).await;

    assert_eq!(again, first);
    assert_eq!(run.attempts.len(), 2);
    assert_eq!(stage.store.totals().await.unwrap().created, 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_under_way_is_told_as_it_stands() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let (id, execution) = run_agent(&engine, "hang").await;
    stage.until_running(id, 1).await;

    let run = engine.agent_run(id, execution).await.unwrap();
    let waited = engine.wait_agent_run(id, execution, DAWN.after_ms(stage.now() + SECOND)).await.unwrap();

    assert_eq!(waited, Waited::DeadlinePassed);
    assert_eq!((run.outcome, run.cause, run.receipt), (None, None, None));
    assert!(matches!(&run.attempts[..], [attempt] if attempt.end.is_none() && attempt.started_at.is_some()));
}
