//! Following one execution from its wish to its outcome, and telling what it came to.

use anyhow::Context;
use pinfold_api::{Cause, ExecutionState, OutputEvent};
use tokio::signal::unix::{SignalKind, signal};

use crate::console::ConsoleOptions;
use crate::documents::word;
use crate::failure::in_brackets;
use crate::output::Sink;
use crate::plane::{Plane, Running};

/// What an interrupt ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Sandbox,
    Execution,
}

/// What an execution came to.
pub(crate) struct Ended {
    pub(crate) state: ExecutionState,
    pub(crate) exit_code: Option<i32>,
    pub(crate) cause: Cause,
    pub(crate) detail: Option<String>,
    /// When the first of its output was written.
    pub(crate) first_output_at: Option<String>,
    /// Whether it was ended by a signal to this process.
    pub(crate) interrupted: bool,
}

/// Passes the output on until the command has its outcome, and what is typed here to it. The first Ctrl-C or SIGTERM
/// ends it.
pub(crate) async fn follow(
    plane: &Plane,
    running: &mut Running,
    sink: &mut Sink,
    interrupt: Interrupt,
    console: &ConsoleOptions,
) -> anyhow::Result<Ended> {
    let execution = running.execution.clone();
    tokio::select! {
        ended = follow_output(plane, running, sink, interrupt, console.tty) => ended,
        Err(error) = console.serve(plane, &execution) => Err(error),
    }
}

async fn follow_output(
    plane: &Plane,
    running: &mut Running,
    sink: &mut Sink,
    interrupt: Interrupt,
    has_terminal: bool,
) -> anyhow::Result<Ended> {
    let (sandbox, execution) = (running.sandbox.clone(), running.execution.clone());
    let mut asked_to_end = std::pin::pin!(asked_to_end(has_terminal)?);
    let (mut interrupted, mut first_output_at) = (false, None);
    loop {
        tokio::select! {
            event = running.next(plane) => match event? {
                OutputEvent::Exit { state, exit_code, cause, detail, .. } => {
                    return Ok(Ended { state, exit_code, cause, detail, first_output_at, interrupted });
                }
                event => {
                    if let OutputEvent::Stdout { at, .. } | OutputEvent::Stderr { at, .. } = &event {
                        first_output_at.get_or_insert_with(|| at.clone());
                    }
                    sink.take(event).context("could not pass the command's output on")?;
                }
            },
            () = &mut asked_to_end, if !interrupted => {
                interrupted = true;
                match interrupt {
                    Interrupt::Sandbox => {
                        plane.stop(&sandbox, true, 0).await?;
                    }
                    Interrupt::Execution => {
                        plane.cancel(&execution).await?;
                    }
                }
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

/// A line for people, where the exit code alone does not tell.
pub(crate) fn explanation(ended: &Ended, why: Option<String>) -> Option<String> {
    let detail = ended.detail.clone().or(why);
    let said = || format!("{}{}", word(&ended.cause), in_brackets(detail.as_ref()));
    (ended.state != ExecutionState::Exited).then(said)
}
