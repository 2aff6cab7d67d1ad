//! Standard input and terminal size of executions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{self as api, ErrorCode, StdinAnswer, StdinRequest};
use pinfold_backoff::Backoff;
use pinfold_lifecycle::{ExecutionId, SandboxId};
use pinfold_provider::{InstanceId, ResizeError, StdinError, StdinWrite, TerminalSize, WriteResult};

use super::{Failure, Service, instance_of};

/// Before input that was not accepted is sent again.
const INPUT_BACKOFF: Backoff = Backoff::from_ms(1, 50);

impl Service {
    /// Writes as much input as the buffer takes. The answer has the offset at which to continue.
    pub async fn feed(&self, id: ExecutionId, request: &StdinRequest) -> Result<StdinAnswer, Failure> {
        let bytes = bytes(request)?;
        let stored = self.running(id).await?;
        let instance = instance_of(&stored);
        let at = match request.at {
            Some(at) => at,
            None => {
                let nothing = StdinWrite { at: 0, bytes: &[], close: false };
                self.host.provider.write_stdin(instance, id, nothing).await.map_err(stdin_failure)?.accepted
            }
        };
        let feed = StdinWrite { at, bytes: &bytes, close: request.close };
        let WriteResult { accepted, closed } =
            self.host.provider.write_stdin(instance, id, feed).await.map_err(stdin_failure)?;
        Ok(StdinAnswer { accepted, closed })
    }

    /// Writes all bytes after the input so far, waiting for buffer space. The execution may not have started yet.
    pub async fn write_stdin_all(&self, id: ExecutionId, mut bytes: &[u8]) -> Result<(), Failure> {
        let mut backoff = INPUT_BACKOFF;
        while !bytes.is_empty() {
            let instance = instance_of(&*self.running(id).await?);
            let taken = match self.write_stdin_piece(instance, id, bytes).await {
                Ok(taken) => taken,
                Err(StdinError::NoSuchExecution | StdinError::Unreachable { .. }) => 0,
                Err(error) => return Err(stdin_failure(error)),
            };
            bytes = &bytes[taken..];
            if taken == 0 {
                tokio::time::sleep(backoff.next_pause()).await;
            } else {
                backoff.reset();
            }
        }
        Ok(())
    }

    /// Writes once and returns the number of bytes accepted.
    async fn write_stdin_piece(
        &self,
        instance: InstanceId,
        id: ExecutionId,
        bytes: &[u8],
    ) -> Result<usize, StdinError> {
        let nothing = StdinWrite { at: 0, bytes: &[], close: false };
        let at = self.host.provider.write_stdin(instance, id, nothing).await?.accepted;
        let WriteResult { accepted, closed } =
            self.host.provider.write_stdin(instance, id, StdinWrite { at, bytes, close: false }).await?;
        if closed {
            return Err(StdinError::NoInput);
        }
        Ok(usize::try_from(accepted.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len()))
    }

    /// Sets the terminal size. The execution may not have started yet.
    pub async fn resize(&self, id: ExecutionId, size: api::TerminalSize) -> Result<(), Failure> {
        let size = TerminalSize { columns: size.columns, rows: size.rows };
        let mut backoff = INPUT_BACKOFF;
        loop {
            let instance = instance_of(&*self.running(id).await?);
            match self.host.provider.resize(instance, id, size).await {
                Ok(()) => return Ok(()),
                Err(ResizeError::NoSuchExecution | ResizeError::Unreachable { .. }) => {
                    tokio::time::sleep(backoff.next_pause()).await
                }
                Err(error @ (ResizeError::NotRunning | ResizeError::NoTerminal)) => {
                    return Err(Failure::new(ErrorCode::WrongState, error.to_string()));
                }
            }
        }
    }

    /// Writes all bytes from offset 0 in order, waiting as long as it takes. The execution may not have started yet.
    pub(super) async fn write_stdin_in_order(
        &self,
        sandbox: SandboxId,
        id: ExecutionId,
        bytes: &[u8],
        close: bool,
    ) {
        let (mut at, mut backoff) = (0, INPUT_BACKOFF);
        while at < bytes.len() || close {
            let feed = StdinWrite { at: at as u64, bytes: &bytes[at..], close };
            let fed = match self.stored(sandbox).await {
                Ok(stored) => self.host.provider.write_stdin(instance_of(&stored), id, feed).await,
                Err(failure) => Err(StdinError::Unreachable { why: failure.detail.message }),
            };
            match fed {
                Ok(WriteResult { closed: true, .. }) | Err(StdinError::NotRunning | StdinError::NoInput) => {
                    return;
                }
                Ok(WriteResult { accepted, .. }) => {
                    let accepted = usize::try_from(accepted).unwrap_or(usize::MAX).min(bytes.len());
                    if accepted > at {
                        backoff.reset();
                    }
                    at = accepted;
                }
                Err(StdinError::NoSuchExecution | StdinError::Unreachable { .. }) => {}
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }
}

fn bytes(request: &StdinRequest) -> Result<Vec<u8>, Failure> {
    match (&request.text, &request.base64) {
        (Some(_), Some(_)) => Err(Failure::bad_input("base64", "give either `text` or `base64`, not both")),
        (Some(text), None) => Ok(text.clone().into_bytes()),
        (None, Some(encoded)) => {
            STANDARD.decode(encoded).map_err(|error| Failure::bad_input("base64", error))
        }
        (None, None) => Ok(Vec::new()),
    }
}

fn stdin_failure(error: StdinError) -> Failure {
    match error {
        StdinError::NoSuchExecution | StdinError::NotRunning | StdinError::NoInput => {
            Failure::new(ErrorCode::WrongState, error.to_string())
        }
        StdinError::Unreachable { .. } => Failure::unavailable(error),
    }
}
