//! Follows one execution until it ends: output, input, and signals to this process.

use anyhow::Context;
use pinfold_api::{Cause, ExecutionState, OutputEvent};
use tokio::signal::unix::{SignalKind, signal};

use crate::backend::{Backend, Running};
use crate::console::ConsoleOptions;
use crate::failure::in_brackets;
use crate::json_output::wire_name;
use crate::output::Sink;

/// What Ctrl-C or SIGTERM stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Sandbox,
    Execution,
}

/// The result of an execution.
pub(crate) struct Ended {
    pub(crate) state: ExecutionState,
    pub(crate) exit_code: Option<i32>,
    pub(crate) cause: Cause,
    pub(crate) detail: Option<String>,
    /// When the first output was written.
    pub(crate) first_output_at: Option<String>,
    /// Whether a signal to this process stopped it.
    pub(crate) interrupted: bool,
}

/// Prints output and forwards input until the execution ends. The first Ctrl-C or SIGTERM stops it.
pub(crate) async fn follow(
    backend: &Backend,
    running: &mut Running,
    sink: &mut Sink,
    interrupt: Interrupt,
    console: &ConsoleOptions,
) -> anyhow::Result<Ended> {
    let execution = running.execution.clone();
    tokio::select! {
        ended = follow_output(backend, running, sink, interrupt, console.tty) => ended,
        Err(error) = console.serve(backend, &execution) => Err(error),
    }
}

async fn follow_output(
    backend: &Backend,
    running: &mut Running,
    sink: &mut Sink,
    interrupt: Interrupt,
    has_terminal: bool,
) -> anyhow::Result<Ended> {
    let (sandbox, execution) = (running.sandbox.clone(), running.execution.clone());
    let mut termination_signal = std::pin::pin!(termination_signal(has_terminal)?);
    let (mut interrupted, mut first_output_at) = (false, None);
    loop {
        tokio::select! {
            event = running.next(backend) => match event? {
                OutputEvent::Exit { state, exit_code, cause, detail, .. } => {
                    return Ok(Ended { state, exit_code, cause, detail, first_output_at, interrupted });
                }
                event => {
                    if let OutputEvent::Stdout { at, .. } | OutputEvent::Stderr { at, .. } = &event {
                        first_output_at.get_or_insert_with(|| at.clone());
                    }
                    sink.write(event).context("could not write the command's output")?;
                }
            },
            () = &mut termination_signal, if !interrupted => {
                interrupted = true;
                match interrupt {
                    Interrupt::Sandbox => {
                        backend.stop(&sandbox, Some(0), 0).await?;
                    }
                    Interrupt::Execution => {
                        backend.cancel(&execution).await?;
                    }
                }
            }
        }
    }
}

/// Resolves with the first signal that asks this program to end. With `has_terminal` this includes SIGHUP and SIGQUIT, so
/// that the terminal mode is restored before exit; otherwise `nohup` keeps working.
pub(crate) fn termination_signal(has_terminal: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let wait_for = |kind| signal(kind).context("could not install a signal handler");
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

/// Why the execution ended, where the exit code alone does not say it.
pub(crate) fn explanation(ended: &Ended, why: Option<String>) -> Option<String> {
    let detail = ended.detail.clone().or(why);
    let text = || format!("{}{}", wire_name(&ended.cause), in_brackets(detail.as_ref()));
    (ended.state != ExecutionState::Exited).then(text)
}
