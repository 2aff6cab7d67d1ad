//! Commands in sandboxes: asked for, waited for, looked at, ended and signalled.

use pinfold_api::{self as api, ErrorCode, ExecRequest, ExecResult};
use pinfold_engine::Waited;
use pinfold_lifecycle::profile::{DEFAULT, Wishes};
use pinfold_lifecycle::{
    Command, Execution, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Outcome, Policy,
    SandboxId, Timestamp,
};
use pinfold_provider::{Provider, SignalError};
use pinfold_store::{HistoryRow, Row, Seq, Store, Stored, StoredExecution};

use super::create::{check_environment, check_workdir};
use super::view;
use super::words::{self, moment};
use super::{FAR, Failure, Service, body_of};

/// A command that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Started {
    pub sandbox: SandboxId,
    pub execution: ExecutionId,
    /// Nothing of it is in the history before.
    pub(super) since: Seq,
}

/// How far it has come when somebody waited for it.
#[derive(Debug, Clone)]
pub enum Ran {
    Ended(Box<ExecResult>),
    Running(Box<api::Execution>),
}

impl Service {
    /// Writes the wish down. It runs when there is a place, whoever waits for it.
    pub async fn exec(&self, id: SandboxId, request: &ExecRequest) -> Result<Started, Failure> {
        check(request)?;
        let stored = self.stored(id).await?;
        let limits = limits(request, &stored.policy)?;
        // A version and a place in the history are numbers of one row: whatever is recorded from here on is after it.
        let since = Seq(stored.version.0);
        let kind = if request.background { ExecutionKind::Job } else { ExecutionKind::Run };
        let execution = self.host.engine.execute(id, command(request), kind, limits, request.queue).await?;
        Ok(Started { sandbox: id, execution, since })
    }

    /// Gives it what it is to read, and then the end of it unless more may come. For as long as it runs.
    pub async fn feed_first(&self, started: Started, request: &ExecRequest) {
        let Some(text) = &request.stdin else { return };
        let ended = self.host.engine.wait_execution(started.sandbox, started.execution, FAR);
        tokio::select! {
            _ = ended => {}
            () = self.feed_all(started.sandbox, started.execution, text.as_bytes(), !request.interactive) => {}
        }
    }

    /// Waits so long for its end.
    pub async fn result(&self, started: Started, wait_ms: u64) -> Result<Ran, Failure> {
        let Started { sandbox, execution, since } = started;
        let until = self.now().after_ms(wait_ms);
        let outcome = match self.host.engine.wait_execution(sandbox, execution, until).await? {
            Waited::Met(outcome) => outcome,
            Waited::DeadlinePassed => return Ok(Ran::Running(Box::new(self.execution(execution).await?))),
        };
        let history = self.host.store.history(Some(sandbox), since, usize::MAX).await?;
        let output = self.transcript(sandbox, execution).await?;
        let usage = match self.host.store.load(sandbox).await? {
            Some(Row::Readable(stored)) => self.used_so_far(&stored).await,
            Some(Row::Unreadable(_)) | None => None,
        };
        let told = told(&outcome);
        Ok(Ran::Ended(Box::new(ExecResult {
            execution_id: execution.to_string(),
            sandbox_id: sandbox.to_string(),
            state: told.state,
            exit_code: told.exit_code,
            cause: told.cause,
            detail: told.detail,
            output: output.into_output(),
            started_at: started_at(&history, execution).map(moment),
            ended_at: ended_at(&history, execution).map(moment),
            usage,
        })))
    }

    /// Of a sandbox, the oldest first.
    pub async fn executions(&self, id: SandboxId) -> Result<Vec<api::Execution>, Failure> {
        self.row(id).await?;
        let stored = self.host.store.executions(id).await?;
        let history = self.host.store.history(Some(id), Seq::default(), usize::MAX).await?;
        Ok(stored.iter().map(|it| shown(it, &history)).collect())
    }

    pub async fn execution(&self, id: ExecutionId) -> Result<api::Execution, Failure> {
        let stored = self.stored_execution(id).await?;
        // What has not ended says itself when it was started.
        let history = match stored.execution.state {
            ExecutionState::Ending { .. } | ExecutionState::Ended { .. } => {
                self.host.store.history(Some(stored.sandbox), Seq::default(), usize::MAX).await?
            }
            ExecutionState::Queued { .. }
            | ExecutionState::Starting { .. }
            | ExecutionState::Running { .. }
            | ExecutionState::Interrupted => Vec::new(),
        };
        Ok(shown(&stored, &history))
    }

    /// Ends one, and waits so long for its end. One that has ended is as good as one that is ended.
    pub async fn cancel(&self, id: ExecutionId, wait_ms: u64) -> Result<api::Execution, Failure> {
        let stored = self.stored_execution(id).await?;
        if stored.execution.outcome().is_none() {
            match self.host.engine.cancel(stored.sandbox, id).await.map_err(Failure::from) {
                // It has ended meanwhile.
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
            .ok_or_else(|| Failure::bad_input("signal", format!("there is no signal `{signal}`")))?;
        let stored = self.running(id).await?;
        match self.host.provider.signal(body_of(&stored), id, number).await {
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

    /// The sandbox of one that has not ended.
    pub(super) async fn running(&self, id: ExecutionId) -> Result<Box<Stored>, Failure> {
        let found = self.stored_execution(id).await?;
        match found.execution.outcome() {
            Some(outcome) => {
                let cause = words::cause(outcome.cause);
                Err(Failure::new(ErrorCode::WrongState, "the execution has ended")
                    .with("cause", serde_json::json!(cause)))
            }
            None => self.stored(found.sandbox).await,
        }
    }
}

pub(super) fn check(request: &ExecRequest) -> Result<(), Failure> {
    match request.command.first() {
        None => return Err(Failure::bad_input("command", "it is empty")),
        Some(program) if program.is_empty() => {
            return Err(Failure::bad_input("command", "the name of the program is empty"));
        }
        Some(_) => {}
    }
    if request.command.iter().any(|argument| argument.contains('\0')) {
        return Err(Failure::bad_input("command", "it contains a NUL character"));
    }
    if request.tty_size.is_some_and(|size| size.columns == 0 || size.rows == 0) {
        return Err(Failure::bad_input("tty_size", "a terminal has at least one column and one row"));
    }
    check_environment(&request.env)?;
    check_workdir(request.workdir.as_deref())
}

/// Checked as for a new sandbox, against this one's own life.
pub(super) fn limits(request: &ExecRequest, policy: &Policy) -> Result<ExecutionLimits, Failure> {
    let execution = ExecutionLimits { timeout_ms: request.timeout_ms, inactivity_ms: request.inactivity_ms };
    DEFAULT.with(&Wishes { execution, ..Wishes::default() }, policy).map_err(|error| {
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
        // Whoever sits at a terminal types.
        stdin: request.stdin.is_some() || request.interactive || request.tty,
        ..Command::default()
    }
}

/// An outcome as it is told.
pub(super) struct Told {
    pub(super) state: api::ExecutionState,
    pub(super) exit_code: Option<i32>,
    pub(super) cause: api::Cause,
    pub(super) detail: Option<String>,
}

pub(super) fn told(outcome: &Outcome) -> Told {
    Told {
        state: words::outcome_state(outcome),
        exit_code: outcome.exit_code,
        cause: words::cause(outcome.cause),
        detail: outcome.detail.clone(),
    }
}

fn shown(stored: &StoredExecution, history: &[HistoryRow]) -> api::Execution {
    let Execution { id, kind, limits, asked_at, state, attempts } = &stored.execution;
    let outcome = stored.execution.outcome().map(told);
    let ended = match state {
        ExecutionState::Ended { at, .. } => Some(*at),
        _ => None,
    };
    api::Execution {
        execution_id: id.to_string(),
        sandbox_id: stored.sandbox.to_string(),
        state: words::execution_state(state),
        background: *kind == ExecutionKind::Job,
        command: stored.command.argv.clone(),
        workdir: stored.command.workdir.clone(),
        tty: stored.command.tty,
        timeout_ms: limits.timeout_ms,
        inactivity_ms: limits.inactivity_ms,
        asked_at: moment(*asked_at),
        started_at: first_start(&stored.execution).or_else(|| started_at(history, *id)).map(moment),
        ended_at: ended.map(moment),
        exit_code: outcome.as_ref().and_then(|it| it.exit_code),
        cause: outcome.as_ref().map(|it| it.cause),
        detail: outcome.and_then(|it| it.detail),
        attempts: attempts.iter().map(|attempt| view::attempt(stored.sandbox, attempt)).collect(),
        output_url: format!("{}/output", words::url_of_execution(*id)),
    }
}

/// As far as it says itself: its first try, or its only one while that runs.
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

/// By its name, with or without `SIG`, or by its number.
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
    fn a_signal_is_known_by_name_or_number() {
        for (given, number) in [("TERM", Some(15)), ("sigkill", Some(9)), ("10", Some(10)), ("64", Some(64))]
        {
            assert_eq!(signal_number(given), number, "{given}");
        }
        for wrong in ["", "0", "65", "-9", "NOPE", "SIG"] {
            assert_eq!(signal_number(wrong), None, "{wrong}");
        }
    }
}
