//! Talking to what runs in a body, through its keeper.

use pinfold_keeper::wire::{self, Reason, Request, Response};
use pinfold_lifecycle::{ExecutionId, ProbeFailure, Probed, Timestamp};
use pinfold_provider::{Fed, Feed, FeedError, InstanceId, ResizeError, SignalError, TerminalSize};

use crate::control::{ControlError, ask};
use crate::places::Places;
use crate::provider::LinuxProvider;

/// How long the program that a probe runs may take. Shorter than a keeper is waited for, so that it says so itself.
const PROBE_MS: u64 = 2_500;

/// What is fed with one message. A keeper takes little more ahead of what is read.
const AT_A_TIME: usize = 128 * 1024;

/// What a keeper has counted.
pub(crate) struct Activity {
    pub(crate) operations: u64,
    pub(crate) last_busy_at: Timestamp,
}

impl LinuxProvider {
    pub(crate) async fn signal_execution(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        let unreachable = |why: String| SignalError::Unreachable { why };
        let request = Request::Signal { execution: execution.to_string(), signal };
        let answer = ask(&self.grounds.of(body), &request).await;
        match answer.map_err(|error| unreachable(error.to_string()))? {
            Response::Done => Ok(()),
            Response::Refused { reason: Reason::NoSuchExecution, .. } => Err(SignalError::NoSuchExecution),
            Response::Refused { reason: Reason::NotRunning, .. } => Err(SignalError::NotRunning),
            Response::Refused { reason: Reason::NoSuchSignal, .. } => {
                Err(SignalError::NoSuchSignal { signal })
            }
            other => Err(unreachable(format!("{other:?}"))),
        }
    }

    pub(crate) async fn feed_execution(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        feed: Feed<'_>,
    ) -> Result<Fed, FeedError> {
        let unreachable = |why: String| FeedError::Unreachable { why };
        let Feed { at, bytes, close } = feed;
        // The rest is fed again, as what found no room is.
        let (bytes, rest) = bytes.split_at(bytes.len().min(AT_A_TIME));
        let close = close && rest.is_empty();
        let request = Request::Feed { execution: execution.to_string(), at, bytes: bytes.to_vec(), close };
        let answer = ask(&self.grounds.of(body), &request).await;
        match answer.map_err(|error| unreachable(error.to_string()))? {
            Response::Fed { accepted, closed } => Ok(Fed { accepted, closed }),
            Response::Refused { reason: Reason::NoSuchExecution, .. } => Err(FeedError::NoSuchExecution),
            Response::Refused { reason: Reason::NotRunning, .. } => Err(FeedError::NotRunning),
            Response::Refused { reason: Reason::NotSoStarted, .. } => Err(FeedError::NoInput),
            other => Err(unreachable(format!("{other:?}"))),
        }
    }

    pub(crate) async fn resize_execution(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        TerminalSize { columns, rows }: TerminalSize,
    ) -> Result<(), ResizeError> {
        let unreachable = |why: String| ResizeError::Unreachable { why };
        let size = wire::TerminalSize { columns, rows };
        let request = Request::Resize { execution: execution.to_string(), size };
        let answer = ask(&self.grounds.of(body), &request).await;
        match answer.map_err(|error| unreachable(error.to_string()))? {
            Response::Done => Ok(()),
            Response::Refused { reason: Reason::NoSuchExecution, .. } => Err(ResizeError::NoSuchExecution),
            Response::Refused { reason: Reason::NotRunning, .. } => Err(ResizeError::NotRunning),
            Response::Refused { reason: Reason::NotSoStarted, .. } => Err(ResizeError::NoTerminal),
            other => Err(unreachable(format!("{other:?}"))),
        }
    }

    pub(crate) async fn activity(&self, places: &Places) -> Result<Activity, ControlError> {
        match ask(places, &Request::Activity).await? {
            Response::Activity { operations, quiet_ms } => {
                let last_busy_at = Timestamp(self.now().0.saturating_sub_unsigned(quiet_ms));
                Ok(Activity { operations, last_busy_at })
            }
            other => Err(ControlError::NoAnswer(std::io::Error::other(format!("{other:?}")))),
        }
    }

    /// Everything in one question.
    pub(crate) async fn probe_body(&self, places: &Places) -> Probed {
        let request = Request::Probe { nonce: places.name.clone(), within_ms: PROBE_MS };
        let control = |why: String| Probed::Failed(ProbeFailure::Control { why });
        let Ok(expected) = std::fs::read_to_string(places.secret()) else {
            return control("it has no secret".into());
        };
        match ask(places, &request).await {
            Ok(Response::Probed { nonce, secret, wanted, failed }) => {
                if nonce != places.name || secret != expected || !wanted {
                    return control("whoever answers is not its keeper, or not at work".into());
                }
                match failed {
                    None => Probed::Passed,
                    Some(wire::ProbeFailed::Files(why)) => Probed::Failed(ProbeFailure::Files { why }),
                    Some(wire::ProbeFailed::Exec(why)) => Probed::Failed(ProbeFailure::Exec { why }),
                }
            }
            Ok(other) => Probed::Unknown { why: format!("{other:?}") },
            Err(error) => control(error.to_string()),
        }
    }
}
