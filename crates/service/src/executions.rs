//! Executions: start, wait, list, cancel and signal.

use pinfold_api::{self as api, ErrorCode, ExecRequest, ExecResult};
use pinfold_engine::WaitOutcome;
use pinfold_lifecycle::profile::{DEFAULT, LimitOverrides};
use pinfold_lifecycle::{
    Cause, Command, Execution, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Outcome,
    Policy, SandboxId, Timestamp,
};
use pinfold_provider::SignalError;
use pinfold_store::{HistoryRow, Row, Seq, StoredExecution, StoredSandbox};

use super::convert::{self, rfc3339};
use super::create::{check_environment, check_workdir};
use super::view;
use super::{Failure, NO_DEADLINE, Service, instance_of};

/// A committed execution.
#[derive(Debug, Clone, Copy)]
pub struct StartedExecution {
    pub sandbox: SandboxId,
    pub execution: ExecutionId,
    /// The history before this sequence number has nothing about it.
    pub(super) since: Seq,
}

/// The result of waiting for an execution.
#[derive(Debug, Clone)]
pub enum ExecOutcome {
    Ended(Box<ExecResult>),
    Running(Box<api::Execution>),
}

impl Service {
    /// Commits the execution. The engine runs it when a slot is free, whether or not the caller waits.
    pub async fn exec(&self, id: SandboxId, request: &ExecRequest) -> Result<StartedExecution, Failure> {
        check(request)?;
        let stored = self.stored(id).await?;
        let limits = limits(request, &stored.policy)?;
        // Row versions and history sequence numbers come from one counter: everything recorded from here on has a
        // larger number.
        let since = Seq(stored.version.0);
        let kind = if request.background { ExecutionKind::Job } else { ExecutionKind::Run };
        let execution = self.host.engine.execute(id, command(request), kind, limits, request.queue).await?;
        Ok(StartedExecution { sandbox: id, execution, since })
    }

    /// Writes the request's `stdin`, then closes the input unless more may come. Ends with the execution.
    pub async fn write_initial_stdin(&self, started: StartedExecution, request: &ExecRequest) {
        let Some(text) = &request.stdin else { return };
        let ended = self.host.engine.wait_execution(started.sandbox, started.execution, NO_DEADLINE);
        tokio::select! {
            _ = ended => {}
            () = self.write_stdin_in_order(started.sandbox, started.execution, text.as_bytes(), !request.interactive) => {}
        }
    }

    /// Waits for the end of the execution, or until the timeout.
    pub async fn result(&self, started: StartedExecution, wait_ms: u64) -> Result<ExecOutcome, Failure> {
        let StartedExecution { sandbox, execution, since } = started;
        let until = self.now().after_ms(wait_ms);
        let outcome = match self.host.engine.wait_execution(sandbox, execution, until).await? {
            WaitOutcome::Met(outcome) => outcome,
            WaitOutcome::DeadlinePassed => {
                return Ok(ExecOutcome::Running(Box::new(self.execution(execution).await?)));
            }
        };
        let history = self.host.store.history(Some(sandbox), since, usize::MAX).await?;
        let output = self.transcript(sandbox, execution).await?;
        let usage = match self.host.store.load(sandbox).await? {
            Some(Row::Readable(stored)) => self.used_so_far(&stored).await,
            Some(Row::Unreadable(_)) | None => None,
        };
        let view = outcome_view(&outcome);
        Ok(ExecOutcome::Ended(Box::new(ExecResult {
            execution_id: execution.to_string(),
            sandbox_id: sandbox.to_string(),
            state: view.state,
            exit_code: view.exit_code,
            cause: view.cause,
            detail: view.detail,
            output: output.into_output(),
            started_at: started_at(&history, execution).map(rfc3339),
            ended_at: ended_at(&history, execution).map(rfc3339),
            usage,
        })))
    }

    /// The executions of a sandbox, oldest first.
    pub async fn executions(&self, id: SandboxId) -> Result<Vec<api::Execution>, Failure> {
        self.row(id).await?;
        let stored = self.host.store.executions(id).await?;
        let history = self.host.store.history(Some(id), Seq::default(), usize::MAX).await?;
        Ok(stored.iter().map(|it| execution_view(it, &history)).collect())
    }

    pub async fn execution(&self, id: ExecutionId) -> Result<api::Execution, Failure> {
        let stored = self.stored_execution(id).await?;
        // A running execution stores its own start time.
        let history = match stored.execution.state {
            ExecutionState::Ending { .. }
            | ExecutionState::Collecting { .. }
            | ExecutionState::Ended { .. } => {
                self.host.store.history(Some(stored.sandbox), Seq::default(), usize::MAX).await?
            }
            ExecutionState::Queued { .. }
            | ExecutionState::Preparing { .. }
            | ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted => Vec::new(),
        };
        Ok(execution_view(&stored, &history))
    }

    /// Cancels an execution and waits for its end. Cancelling an ended execution succeeds.
    pub async fn cancel(&self, id: ExecutionId, wait_ms: u64) -> Result<api::Execution, Failure> {
        let stored = self.stored_execution(id).await?;
        if stored.execution.outcome().is_none() {
            match self.host.engine.cancel(stored.sandbox, id).await.map_err(Failure::from) {
                // It ended concurrently.
                Err(failure) if failure.detail.code == ErrorCode::UnknownExecution => {}
                other => other?,
            }
            let until = self.now().after_ms(wait_ms);
            self.host.engine.wait_execution(stored.sandbox, id, until).await?;
        }
        self.execution(id).await
    }

    pub async fn signal(&self, id: ExecutionId, signal: &str) -> Result<(), Failure> {
        let number = signal_number(signal)
            .ok_or_else(|| Failure::bad_input("signal", format!("unknown signal `{signal}`")))?;
        let stored = self.running(id).await?;
        match self.host.provider.signal(instance_of(&stored), id, number).await {
            Ok(()) => Ok(()),
            Err(error @ SignalError::NoSuchSignal { .. }) => Err(Failure::bad_input("signal", error)),
            Err(error @ SignalError::Unreachable { .. }) => Err(Failure::unavailable(error)),
            Err(error @ (SignalError::NoSuchExecution | SignalError::NotRunning)) => {
                Err(Failure::new(ErrorCode::WrongState, error.to_string()))
            }
        }
    }

    pub(super) async fn stored_execution(&self, id: ExecutionId) -> Result<StoredExecution, Failure> {
        self.host.store.execution(id).await?.ok_or_else(|| Failure::unknown_execution(id))
    }

    /// The sandbox of an execution that has not ended.
    pub(super) async fn running(&self, id: ExecutionId) -> Result<Box<StoredSandbox>, Failure> {
        let found = self.stored_execution(id).await?;
        match found.execution.outcome() {
            Some(outcome) => {
                let cause = convert::cause(outcome.cause);
                Err(Failure::new(ErrorCode::WrongState, "the execution has ended")
                    .with("cause", serde_json::json!(cause)))
            }
            None => self.stored(found.sandbox).await,
        }
    }
}

pub(super) fn check(request: &ExecRequest) -> Result<(), Failure> {
    match request.command.first() {
        None => return Err(Failure::bad_input("command", "must not be empty")),
        Some(program) if program.is_empty() => {
            return Err(Failure::bad_input("command", "the program name is empty"));
        }
        Some(_) => {}
    }
    if request.command.iter().any(|argument| argument.contains('\0')) {
        return Err(Failure::bad_input("command", "contains a NUL character"));
    }
    if request.tty_size.is_some_and(|size| size.columns == 0 || size.rows == 0) {
        return Err(Failure::bad_input("tty_size", "columns and rows must be at least 1"));
    }
    check_environment(&request.env)?;
    check_workdir(request.workdir.as_deref())
}

/// Validates the limits as for a new sandbox, against this sandbox's policy.
pub(super) fn limits(request: &ExecRequest, policy: &Policy) -> Result<ExecutionLimits, Failure> {
    let execution = ExecutionLimits { timeout_ms: request.timeout_ms, inactivity_ms: request.inactivity_ms };
    DEFAULT.with(&LimitOverrides { execution, ..LimitOverrides::default() }, policy).map_err(|error| {
        let mut failure = Failure::from(error);
        let of_itself = |field: &str| field.trim_start_matches("limits.").to_owned();
        let field = failure.detail.details.get("field").and_then(|field| field.as_str()).map(of_itself);
        failure.detail.message = failure.detail.message.trim_start_matches("limits.").to_owned();
        failure.with("field", field)
    })?;
    Ok(execution)
}

pub(super) fn command(request: &ExecRequest) -> Command {
    Command {
        argv: request.command.clone(),
        env: request.env.clone(),
        workdir: request.workdir.clone(),
        tty: request.tty,
        tty_size: request.tty_size.map(|size| (size.columns, size.rows)),
        // A terminal always has input.
        stdin: request.stdin.is_some() || request.interactive || request.tty,
        ..Command::default()
    }
}

/// An outcome as API values.
pub(super) struct OutcomeView {
    pub(super) state: api::ExecutionState,
    pub(super) exit_code: Option<i32>,
    pub(super) cause: api::Cause,
    pub(super) detail: Option<String>,
}

pub(super) fn outcome_view(outcome: &Outcome) -> OutcomeView {
    OutcomeView {
        state: convert::outcome_state(outcome),
        exit_code: outcome.exit_code,
        cause: convert::cause(outcome.cause),
        detail: outcome.detail.clone().or_else(|| timeout_detail(outcome.cause)),
    }
}

/// What a timeout is called in words.
fn timeout_detail(cause: Cause) -> Option<String> {
    let words = match cause {
        Cause::TimeLimit => "Agent execution timeout",
        Cause::Inactivity => "Inactivity timeout",
        _ => return None,
    };
    Some(words.to_owned())
}

fn execution_view(stored: &StoredExecution, history: &[HistoryRow]) -> api::Execution {
    let Execution { id, kind, limits, transfers: _, requested_at: asked_at, state, attempts } =
        &stored.execution;
    let outcome = stored.execution.outcome().map(outcome_view);
    let ended = match state {
        ExecutionState::Ended { at, .. } => Some(*at),
        _ => None,
    };
    api::Execution {
        execution_id: id.to_string(),
        sandbox_id: stored.sandbox.to_string(),
        state: convert::execution_state(state),
        background: *kind == ExecutionKind::Job,
        command: stored.command.argv.clone(),
        workdir: stored.command.workdir.clone(),
        tty: stored.command.tty,
        timeout_ms: limits.timeout_ms,
        inactivity_ms: limits.inactivity_ms,
        asked_at: rfc3339(*asked_at),
        started_at: first_start(&stored.execution).or_else(|| started_at(history, *id)).map(rfc3339),
        ended_at: ended.map(rfc3339),
        exit_code: outcome.as_ref().and_then(|it| it.exit_code),
        cause: outcome.as_ref().map(|it| it.cause),
        detail: outcome.and_then(|it| it.detail),
        attempts: attempts.iter().map(|attempt| view::attempt(stored.sandbox, attempt)).collect(),
        output_url: format!("{}/output", convert::execution_url(*id)),
    }
}

/// The start time from the row: of the first attempt, or of the only one while it runs.
fn first_start(execution: &Execution) -> Option<Timestamp> {
    match (execution.attempts.first(), &execution.state) {
        (Some(first), _) => first.started_at,
        (None, ExecutionState::Running { started_at, .. }) => Some(*started_at),
        (None, _) => None,
    }
}

pub(super) fn started_at(history: &[HistoryRow], id: ExecutionId) -> Option<Timestamp> {
    let is_it = |fact: &Fact| matches!(fact, Fact::ExecutionStarted { execution } if *execution == id);
    history.iter().find(|row| is_it(&row.record.fact)).map(|row| row.record.at)
}

fn ended_at(history: &[HistoryRow], id: ExecutionId) -> Option<Timestamp> {
    let is_it = |fact: &Fact| matches!(fact, Fact::ExecutionEnded { execution, .. } if *execution == id);
    history.iter().find(|row| is_it(&row.record.fact)).map(|row| row.record.at)
}

const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("WINCH", 28),
];

/// The number of a signal, given by name (with or without `SIG`) or number.
fn signal_number(given: &str) -> Option<i32> {
    let name = given.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let known = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| given.parse().ok().filter(|number| (1..=64).contains(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_given_by_name_or_number() {
        for (given, number) in [("TERM", Some(15)), ("sigkill", Some(9)), ("10", Some(10)), ("64", Some(64))]
        {
            assert_eq!(signal_number(given), number, "{given}");
        }
        for wrong in ["", "0", "65", "-9", "NOPE", "SIG"] {
            assert_eq!(signal_number(wrong), None, "{wrong}");
        }
    }
}
