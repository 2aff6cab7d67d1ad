//! Signals, stdin and terminal size of running executions.

use pinfold_lifecycle::{ExecutionId, OutcomeKind};

use super::TestCommand;
use super::harness::Harness;
use crate::{InstanceId, ResizeError, SignalError, StdinError, StdinWrite, TerminalSize, WriteResult};

const TERM: i32 = 15;
const SIZE: TerminalSize = TerminalSize { columns: 100, rows: 40 };

async fn write(
    harness: &Harness,
    to: (InstanceId, ExecutionId),
    at: u64,
    bytes: &[u8],
    close: bool,
) -> WriteResult {
    let written = harness.provider.write_stdin(to.0, to.1, StdinWrite { at, bytes, close }).await;
    written.unwrap_or_else(|error| panic!("{} did not accept stdin: {error}", to.1))
}

pub(super) async fn a_fatal_signal_ends_a_process_without_handler(harness: Harness) {
    let instance = harness.started().await;
    let (signalled, other) = (
        harness.run(instance, TestCommand::RunUntilKilled).await,
        harness.run(instance, TestCommand::RunUntilKilled).await,
    );

    assert_eq!(harness.provider.signal(instance, signalled, TERM).await, Ok(()));

    let outcome = harness.outcome(instance, signalled).await;
    assert_eq!((outcome.kind, outcome.exit_code), (OutcomeKind::Exited, Some(128 + TERM)));
    harness.runs(instance, other).await;
}

pub(super) async fn only_running_executions_take_valid_signals(harness: Harness) {
    let instance = harness.started().await;
    let running = harness.run(instance, TestCommand::RunUntilKilled).await;
    let ended = harness.run(instance, TestCommand::Succeed).await;
    harness.outcome(instance, ended).await;

    let unknown = harness.provider.signal(instance, harness.fixture.fresh_execution(), TERM).await;
    assert_eq!(unknown, Err(SignalError::NoSuchExecution));
    assert_eq!(harness.provider.signal(instance, ended, TERM).await, Err(SignalError::NotRunning));
    for signal in [-1, 0, 1_000] {
        let answer = harness.provider.signal(instance, running, signal).await;
        assert_eq!(answer, Err(SignalError::NoSuchSignal { signal }));
    }
    harness.runs(instance, running).await;
}

pub(super) async fn a_repeated_stdin_write_is_accepted_once(harness: Harness) {
    let instance = harness.started().await;
    let to = (instance, harness.run(instance, TestCommand::ReadUntilClosed).await);

    for process in [&harness, &harness.another_process()] {
        assert_eq!(write(process, to, 0, b"one", false).await, WriteResult { accepted: 3, closed: false });
    }

    assert_eq!(write(&harness, to, 1, b"ne two", false).await, WriteResult { accepted: 7, closed: false });
    harness.runs(instance, to.1).await;
}

pub(super) async fn a_stdin_write_beyond_a_gap_is_not_accepted(harness: Harness) {
    let instance = harness.started().await;
    let to = (instance, harness.run(instance, TestCommand::ReadUntilClosed).await);

    let beyond = write(&harness, to, 5, b"later", true).await;

    assert_eq!(beyond, WriteResult { accepted: 0, closed: false });
    harness.runs(instance, to.1).await;
}

pub(super) async fn closing_stdin_ends_its_reader(harness: Harness) {
    let instance = harness.started().await;
    let to = (instance, harness.run(instance, TestCommand::ReadUntilClosed).await);
    write(&harness, to, 0, b"all", false).await;
    harness.runs(instance, to.1).await;

    write(&harness, to, 3, b" there is", true).await;

    assert_eq!(harness.outcome(instance, to.1).await.exit_code, Some(0));
    let late = harness
        .provider
        .write_stdin(instance, to.1, StdinWrite { at: 12, bytes: b"late", close: false })
        .await;
    assert_eq!(late, Err(StdinError::NotRunning));
}

pub(super) async fn only_an_execution_with_stdin_accepts_writes(harness: Harness) {
    let instance = harness.started().await;
    let without = harness.run(instance, TestCommand::RunUntilKilled).await;
    let bytes = StdinWrite { at: 0, bytes: b"lost", close: false };

    let unknown = harness.provider.write_stdin(instance, harness.fixture.fresh_execution(), bytes).await;

    assert_eq!(unknown, Err(StdinError::NoSuchExecution));
    assert_eq!(harness.provider.write_stdin(instance, without, bytes).await, Err(StdinError::NoInput));
}

pub(super) async fn only_a_terminal_is_resized(harness: Harness) {
    let instance = harness.started().await;
    let (with, without) = (
        harness.run(instance, TestCommand::HoldTerminal).await,
        harness.run(instance, TestCommand::RunUntilKilled).await,
    );

    let unknown = harness.provider.resize(instance, harness.fixture.fresh_execution(), SIZE).await;

    assert_eq!(unknown, Err(ResizeError::NoSuchExecution));
    assert_eq!(harness.provider.resize(instance, with, SIZE).await, Ok(()));
    assert_eq!(harness.provider.resize(instance, without, SIZE).await, Err(ResizeError::NoTerminal));
    harness.runs(instance, with).await;
}
