//! Requests to a keeper about its executions: signals, input, terminal size, activity and probes.

use pinfold_keeper_wire::{self as wire, RefusalReason, Request, Response};
use pinfold_lifecycle::{ExecutionId, ProbeFailure, ProbeResult, Timestamp};
use pinfold_provider::{
    InstanceId, ResizeError, SignalError, StdinError, StdinWrite, TerminalSize, WriteResult,
};

use crate::control::{ControlError, query, unexpected};
use crate::paths::InstancePaths;
use crate::provider::LinuxProvider;

/// Time limit of the probe command. Shorter than the control timeout, so that the keeper itself reports the failure.
const PROBE_TIMEOUT_MS: u64 = 2_500;

/// Maximum input per message. A keeper buffers little more than this.
const MAX_INPUT_BYTES: usize = 128 * 1024;

/// Operation counter and time of last activity, as reported by a keeper.
pub(crate) struct Activity {
    pub(crate) operations: u64,
    pub(crate) last_busy_at: Timestamp,
}

impl LinuxProvider {
    pub(crate) async fn signal_execution(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        let unreachable = |why: String| SignalError::Unreachable { why };
        let request = Request::Signal { execution: execution.to_string(), signal };
        let answer = query(&self.data_paths.of(instance), &request).await;
        match answer.map_err(|error| unreachable(error.to_string()))? {
            Response::Done => Ok(()),
            Response::Refused { reason: RefusalReason::NoSuchExecution, .. } => {
                Err(SignalError::NoSuchExecution)
            }
            Response::Refused { reason: RefusalReason::NotRunning, .. } => Err(SignalError::NotRunning),
            Response::Refused { reason: RefusalReason::NoSuchSignal, .. } => {
                Err(SignalError::NoSuchSignal { signal })
            }
            other => Err(unreachable(unexpected(&other))),
        }
    }

    pub(crate) async fn write_execution_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        write: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        let unreachable = |why: String| StdinError::Unreachable { why };
        let StdinWrite { at, bytes, close } = write;
        // The caller sends the rest again, as it does with bytes that found no room in the buffer.
        let (bytes, rest) = bytes.split_at(bytes.len().min(MAX_INPUT_BYTES));
        let close = close && rest.is_empty();
        let request =
            Request::WriteInput { execution: execution.to_string(), at, bytes: bytes.to_vec(), close };
        let answer = query(&self.data_paths.of(instance), &request).await;
        match answer.map_err(|error| unreachable(error.to_string()))? {
            Response::InputAccepted { accepted, closed } => Ok(WriteResult { accepted, closed }),
            Response::Refused { reason: RefusalReason::NoSuchExecution, .. } => {
                Err(StdinError::NoSuchExecution)
            }
            Response::Refused { reason: RefusalReason::NotRunning, .. } => Err(StdinError::NotRunning),
            Response::Refused { reason: RefusalReason::NotAttached, .. } => Err(StdinError::NoInput),
            other => Err(unreachable(unexpected(&other))),
        }
    }

    pub(crate) async fn resize_execution(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        TerminalSize { columns, rows }: TerminalSize,
    ) -> Result<(), ResizeError> {
        let unreachable = |why: String| ResizeError::Unreachable { why };
        let size = wire::TerminalSize { columns, rows };
        let request = Request::Resize { execution: execution.to_string(), size };
        let answer = query(&self.data_paths.of(instance), &request).await;
        match answer.map_err(|error| unreachable(error.to_string()))? {
            Response::Done => Ok(()),
            Response::Refused { reason: RefusalReason::NoSuchExecution, .. } => {
                Err(ResizeError::NoSuchExecution)
            }
            Response::Refused { reason: RefusalReason::NotRunning, .. } => Err(ResizeError::NotRunning),
            Response::Refused { reason: RefusalReason::NotAttached, .. } => Err(ResizeError::NoTerminal),
            other => Err(unreachable(unexpected(&other))),
        }
    }

    pub(crate) async fn activity(&self, paths: &InstancePaths) -> Result<Activity, ControlError> {
        match query(paths, &Request::Activity).await? {
            Response::Activity { operations, idle_ms: quiet_ms } => {
                let last_busy_at = Timestamp(self.now().0.saturating_sub_unsigned(quiet_ms));
                Ok(Activity { operations, last_busy_at })
            }
            other => Err(ControlError::NoAnswer(std::io::Error::other(unexpected(&other)))),
        }
    }

    /// Probes control, files and exec in one request.
    pub(crate) async fn probe_instance(&self, paths: &InstancePaths) -> ProbeResult {
        let request = Request::Probe { nonce: paths.name.clone(), within_ms: PROBE_TIMEOUT_MS };
        let control = |why: String| ProbeResult::Failed(ProbeFailure::Control { why });
        let Ok(expected) = std::fs::read_to_string(paths.secret()) else {
            return control("the instance has no secret file".into());
        };
        match query(paths, &request).await {
            Ok(Response::Probed { nonce, secret, confirmed, failed }) => {
                if nonce != paths.name || secret != expected || !confirmed {
                    let why =
                        "the control socket was answered by another process, or the launch was not confirmed";
                    return control(why.into());
                }
                match failed {
                    None => ProbeResult::Passed,
                    Some(wire::ProbeFailure::Files(why)) => ProbeResult::Failed(ProbeFailure::Files { why }),
                    Some(wire::ProbeFailure::Exec(why)) => ProbeResult::Failed(ProbeFailure::Exec { why }),
                }
            }
            Ok(other) => ProbeResult::Unknown { why: unexpected(&other) },
            Err(error) => control(error.to_string()),
        }
    }
}
