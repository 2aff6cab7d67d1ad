//! Input files are in place before a process starts, and artifacts are collected before its outcome is written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_engine::{Engine, Observer, ReconcileError, ReconcileMode, ReconcileReport};
use pinfold_lifecycle::{
    Cause, Command, ExecutionFiles, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, Fact,
    FileContent, InputFile, Outcome, OutcomeKind, Policy, ProbeResult, Record, Sandbox, SandboxId,
};
use pinfold_provider::InstanceId;
use pinfold_provider::fake::{Call, Fault};

use crate::fakes::{fault, hangs};
use crate::fixture::{Fixture, MINUTE, SECOND, words};

const NAME: &str = "notes/input.txt";

/// A command that brings one file, and whose artifact is the same file.
fn with_file(command: &str, text: &str) -> Command {
    let file = InputFile { content: FileContent::Text(text.into()), executable: false };
    let execution_files =
        ExecutionFiles { files: BTreeMap::from([(NAME.to_owned(), file)]), artifacts: vec![NAME.to_owned()] };
    Command { execution_files, ..words(command) }
}

async fn run(engine: &Engine, id: SandboxId, command: Command) -> ExecutionId {
    let limits = ExecutionLimits::default();
    engine.execute(id, command, ExecutionKind::Run, limits, true).await.unwrap()
}

/// An execution that has exited with 3, and whose collection hangs.
async fn hanging_collection(policy: Policy) -> (Fixture, Engine, SandboxId, ExecutionId) {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, policy).await;
    fixture.artifacts.hang(true);
    let execution = run(&engine, id, with_file("exit 3", "a text")).await;
    fixture.until(id, SECOND, is_collecting).await;
    (fixture, engine, id, execution)
}

fn is_collecting(sandbox: &Sandbox) -> bool {
    sandbox.executions.iter().any(|execution| matches!(execution.state, ExecutionState::Collecting { .. }))
}

fn is_end(fact: &Fact) -> bool {
    matches!(fact, Fact::ExecutionEnded { .. })
}

#[tokio::test(start_paused = true)]
async fn artifact_of_an_execution_is_the_file_that_it_brought() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let execution = run(&engine, id, with_file("exit 3", "a text")).await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(3));
    assert_eq!(fixture.artifacts.of(execution, NAME), Some(b"a text".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn execution_without_files_touches_none_and_collects_nothing() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let execution = fixture.run(&engine, id, "true").await;
    fixture.outcome(&engine, id, execution).await;

    assert_eq!((fixture.faults.calls(Call::Files), fixture.artifacts.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn unanswered_file_write_is_repeated_and_a_refused_one_ends_the_execution() {
    for (file, kind) in [(Fault::ObserveFails, OutcomeKind::Exited), (Fault::Fails, OutcomeKind::Failed)] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine().await;
        let id = fixture.ready(&engine, Policy::default()).await;
        fixture.faults.next(Call::Files, fault(file));

        let execution = run(&engine, id, with_file("true", "a text")).await;
        let outcome = fixture.outcome(&engine, id, execution).await;

        assert_eq!(outcome.kind, kind, "{file:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_are_never_put_end_the_execution_at_its_start_deadline() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Files, hangs());

    let execution = run(&engine, id, with_file("true", "a text")).await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Failed, Cause::StartDeadline));
    assert_eq!(fixture.faults.calls(Call::Exec), 0);
}

#[tokio::test(start_paused = true)]
async fn collection_that_hangs_ends_at_its_deadline_with_the_outcome_of_the_process() {
    let (fixture, engine, id, execution) = hanging_collection(Policy::default()).await;

    let began = fixture.now();
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!(outcome, Outcome::exited(3));
    assert!((29 * SECOND..=31 * SECOND).contains(&(fixture.now() - began)), "{}", fixture.now() - began);
}

#[tokio::test(start_paused = true)]
async fn stop_while_collecting_does_not_wait_and_keeps_the_outcome() {
    let (fixture, engine, id, execution) = hanging_collection(Policy::default()).await;
    let began = fixture.now();

    fixture.stop(&engine, id).await;

    assert!(fixture.now() - began < 10 * SECOND);
    assert_eq!(fixture.outcome(&engine, id, execution).await, Outcome::exited(3));
    assert_eq!(fixture.times(id, is_end).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn next_node_collects_what_a_crashed_one_left() {
    for policy in [Policy::default(), Policy { one_shot: true, ..Policy::default() }] {
        let (fixture, first, id, execution) = hanging_collection(policy).await;

        fixture.crash(first);
        fixture.artifacts.hang(false);
        let second = fixture.start_engine().await;
        let outcome = fixture.outcome(&second, id, execution).await;

        assert_eq!(outcome, Outcome::exited(3));
        assert_eq!(fixture.artifacts.of(execution, NAME), Some(b"a text".to_vec()));
        assert_eq!(fixture.times(id, is_end).await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn process_that_ends_while_no_node_runs_has_its_artifacts_collected() {
    let fixture = Fixture::new();
    let first = fixture.start_engine().await;
    let id = fixture.ready(&first, Policy::default()).await;
    let execution = run(&first, id, with_file("sleep 20", "a text")).await;
    let runs = |sandbox: &Sandbox| matches!(sandbox.executions[0].state, ExecutionState::Running { .. });
    fixture.until(id, SECOND, runs).await;

    fixture.crash(first);
    fixture.pass_ms(MINUTE).await;
    let second = fixture.start_engine().await;
    let outcome = fixture.outcome(&second, id, execution).await;

    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.artifacts.of(execution, NAME), Some(b"a text".to_vec()));
}

#[derive(Default)]
struct ProbeCount(Mutex<(usize, usize)>);

impl Observer for ProbeCount {
    fn committed(&self, _: &Sandbox, _: &[Record]) {}

    fn probed(&self, _: InstanceId, result: &ProbeResult, _: Duration) {
        assert_eq!(*result, ProbeResult::Passed);
        self.0.lock().unwrap().0 += 1;
    }

    fn pinged(&self, _: InstanceId, result: &ProbeResult) {
        assert_eq!(*result, ProbeResult::Passed);
        self.0.lock().unwrap().1 += 1;
    }

    fn compared(&self, _: ReconcileMode, _: u64, _: Result<&ReconcileReport, &ReconcileError>) {}
}

#[tokio::test(start_paused = true)]
async fn observer_sees_every_probe_and_ping() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let count = Arc::new(ProbeCount::default());
    engine.set_observer(count.clone());

    fixture.ready(&engine, Policy::default()).await;
    fixture.pass_ms(MINUTE).await;

    let seen = *count.0.lock().unwrap();
    assert_eq!(seen, (fixture.faults.calls(Call::Probe), fixture.faults.calls(Call::Ping)));
    assert!(seen.0 >= 1 && seen.1 >= 3, "{seen:?}");
}
