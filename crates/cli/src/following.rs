//! Following one execution from its wish to its outcome, and telling what it came to.

use std::time::Duration;

use anyhow::{Context, bail};
use pinfold_engine::Waited;
use pinfold_lifecycle::{Cause, ExecutionId, Fact, Outcome, OutcomeKind, Record, SandboxId, Timestamp};
use pinfold_store::{Seq, Store};
use tokio::signal::unix::{SignalKind, signal};

use crate::console::ConsoleOptions;
use crate::documents::word;
use crate::failure::in_brackets;
use crate::host::Host;
use crate::output::Follower;

/// How soon output is looked for again: quickly after some came, and less and less while none does.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const SLOWEST_LOOK: Duration = Duration::from_millis(20);

/// What an interrupt ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Sandbox,
    Execution,
}

/// Passes the output on until the command has its outcome, and what is typed here to it. The first Ctrl-C or SIGTERM
/// ends it.
pub(crate) async fn follow(
    host: &Host,
    ids: (SandboxId, ExecutionId),
    follower: &mut Follower,
    interrupt: Interrupt,
    console: &ConsoleOptions,
) -> anyhow::Result<Outcome> {
    tokio::select! {
        outcome = follow_output(host, ids, follower, interrupt, console.tty) => outcome,
        Err(error) = console.serve(host, ids) => Err(error),
    }
}

async fn follow_output(
    host: &Host,
    (sandbox, execution): (SandboxId, ExecutionId),
    follower: &mut Follower,
    interrupt: Interrupt,
    has_terminal: bool,
) -> anyhow::Result<Outcome> {
    let far = Timestamp(i64::MAX);
    let mut ended = std::pin::pin!(host.engine.wait_execution(sandbox, execution, far));
    let mut interrupted = std::pin::pin!(asked_to_end(has_terminal)?);
    let (mut stopping, mut pause) = (false, FIRST_LOOK);
    loop {
        tokio::select! {
            biased;
            outcome = &mut ended => {
                follower.catch_up().context("could not read the command's output")?;
                match outcome? {
                    Waited::Met(outcome) => return Ok(outcome),
                    Waited::DeadlinePassed => bail!("the end of time has come"),
                }
            }
            () = &mut interrupted, if !stopping => {
                stopping = true;
                match interrupt {
                    Interrupt::Sandbox => {
                        host.engine.stop(sandbox, Cause::StoppedByUser, true, 0).await?;
                    }
                    Interrupt::Execution => host.engine.cancel(sandbox, execution).await?,
                }
            }
            () = tokio::time::sleep(pause) => {
                let came = follower.catch_up().context("could not read the command's output")?;
                pause = if came { FIRST_LOOK } else { (pause * 2).min(SLOWEST_LOOK) };
            }
        }
    }
}

/// Resolves with the first signal that asks this program to end. Whoever has changed its terminal must not be ended
/// by any of them before that is changed back; others leave a hangup to whoever has set it to be ignored.
pub(crate) fn asked_to_end(has_terminal: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let wait_for = |kind| signal(kind).context("could not wait for signals");
    let mut interrupted = wait_for(SignalKind::interrupt())?;
    let mut terminated = wait_for(SignalKind::terminate())?;
    let mut of_terminals = match has_terminal {
        true => Some((wait_for(SignalKind::hangup())?, wait_for(SignalKind::quit())?)),
        false => None,
    };
    Ok(async move {
        let hung_up = async {
            match &mut of_terminals {
                Some((hangup, quit)) => tokio::select! { _ = hangup.recv() => {} _ = quit.recv() => {} },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            () = hung_up => {}
        }
    })
}

/// What has been recorded of a sandbox, as far as its timings and failures need it.
pub(crate) struct Story {
    records: Vec<Record>,
}

impl Story {
    pub(crate) async fn of(host: &Host, sandbox: SandboxId) -> anyhow::Result<Self> {
        let rows = host.store.history(Some(sandbox), Seq::default(), 10_000).await?;
        Ok(Self { records: rows.into_iter().map(|row| row.record).collect() })
    }

    fn first(&self, is_it: impl Fn(&Fact) -> bool) -> Option<Timestamp> {
        self.records.iter().find(|record| is_it(&record.fact)).map(|record| record.at)
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.first(|fact| matches!(fact, Fact::Created))
    }

    pub(crate) fn ready(&self) -> Option<Timestamp> {
        self.first(|fact| matches!(fact, Fact::BecameReady { .. }))
    }

    pub(crate) fn started(&self, id: ExecutionId) -> Option<Timestamp> {
        self.first(|fact| matches!(fact, Fact::ExecutionStarted { execution } if *execution == id))
    }

    pub(crate) fn ended(&self, id: ExecutionId) -> Option<Timestamp> {
        self.first(|fact| matches!(fact, Fact::ExecutionEnded { execution, .. } if *execution == id))
    }

    /// Why the last launch failed.
    pub(crate) fn why_it_did_not_start(&self) -> Option<String> {
        self.records.iter().rev().find_map(|record| match &record.fact {
            Fact::StartFailed { why, .. } => Some(why.clone()),
            _ => None,
        })
    }
}

/// How long from one moment to the other, where both are known.
pub(crate) fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<u64> {
    Some(to?.ms_since(from?))
}

/// A line for people, where the exit code alone does not tell.
pub(crate) fn explanation(outcome: &Outcome, why: Option<String>) -> Option<String> {
    let detail = outcome.detail.clone().or(why);
    let said = || format!("{}{}", word(&outcome.cause), in_brackets(detail.as_ref()));
    (outcome.kind != OutcomeKind::Exited).then(said)
}

/// The wall clock, on which output is dated.
pub(crate) fn wall_ms() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}
