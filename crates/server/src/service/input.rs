//! What is fed to a command.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{self as api, ErrorCode, StdinAnswer, StdinRequest};
use pinfold_lifecycle::{ExecutionId, SandboxId};
use pinfold_provider::{Fed, Feed, FeedError, InstanceId, Provider, ResizeError, TerminalSize};

use super::{Failure, Service, body_of};

/// How soon what was not taken is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Service {
    /// Feeds as much as there is room for. The answer says from where to go on.
    pub async fn feed(&self, id: ExecutionId, request: &StdinRequest) -> Result<StdinAnswer, Failure> {
        let bytes = bytes(request)?;
        let stored = self.running(id).await?;
        let body = body_of(&stored);
        let at = match request.at {
            Some(at) => at,
            None => {
                let nothing = Feed { at: 0, bytes: &[], close: false };
                self.host.provider.feed(body, id, nothing).await.map_err(refused)?.accepted
            }
        };
        let feed = Feed { at, bytes: &bytes, close: request.close };
        let Fed { accepted, closed } = self.host.provider.feed(body, id, feed).await.map_err(refused)?;
        Ok(StdinAnswer { accepted, closed })
    }

    /// All of it, after what was fed before, as soon as it is read; it may not even run yet.
    pub async fn feed_on(&self, id: ExecutionId, mut bytes: &[u8]) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        while !bytes.is_empty() {
            let body = body_of(&*self.running(id).await?);
            let taken = match self.feed_piece(body, id, bytes).await {
                Ok(taken) => taken,
                Err(FeedError::NoSuchExecution | FeedError::Unreachable { .. }) => 0,
                Err(error) => return Err(refused(error)),
            };
            bytes = &bytes[taken..];
            if taken == 0 {
                rest(&mut pause).await;
            } else {
                pause = FIRST_PAUSE;
            }
        }
        Ok(())
    }

    /// How much of it is accepted.
    async fn feed_piece(&self, body: InstanceId, id: ExecutionId, bytes: &[u8]) -> Result<usize, FeedError> {
        let nothing = Feed { at: 0, bytes: &[], close: false };
        let at = self.host.provider.feed(body, id, nothing).await?.accepted;
        let Fed { accepted, closed } =
            self.host.provider.feed(body, id, Feed { at, bytes, close: false }).await?;
        if closed {
            return Err(FeedError::NoInput);
        }
        Ok(usize::try_from(accepted.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len()))
    }

    /// Tells a command how large its terminal is; it may not even run yet.
    pub async fn resize(&self, id: ExecutionId, size: api::TerminalSize) -> Result<(), Failure> {
        let size = TerminalSize { columns: size.columns, rows: size.rows };
        let mut pause = FIRST_PAUSE;
        loop {
            let body = body_of(&*self.running(id).await?);
            match self.host.provider.resize(body, id, size).await {
                Ok(()) => return Ok(()),
                Err(ResizeError::NoSuchExecution | ResizeError::Unreachable { .. }) => rest(&mut pause).await,
                Err(error @ (ResizeError::NotRunning | ResizeError::NoTerminal)) => {
                    return Err(Failure::new(ErrorCode::WrongState, error.to_string()));
                }
            }
        }
    }

    /// All of it in its order, however long it takes to be read; it may not even run yet.
    pub(super) async fn feed_all(&self, sandbox: SandboxId, id: ExecutionId, bytes: &[u8], close: bool) {
        let (mut at, mut pause) = (0, FIRST_PAUSE);
        while at < bytes.len() || close {
            let feed = Feed { at: at as u64, bytes: &bytes[at..], close };
            let fed = match self.stored(sandbox).await {
                Ok(stored) => self.host.provider.feed(body_of(&stored), id, feed).await,
                Err(failure) => Err(FeedError::Unreachable { why: failure.detail.message }),
            };
            match fed {
                Ok(Fed { closed: true, .. }) | Err(FeedError::NotRunning | FeedError::NoInput) => return,
                Ok(Fed { accepted, .. }) => {
                    let accepted = usize::try_from(accepted).unwrap_or(usize::MAX).min(bytes.len());
                    if accepted > at {
                        pause = FIRST_PAUSE;
                    }
                    at = accepted;
                }
                Err(FeedError::NoSuchExecution | FeedError::Unreachable { .. }) => {}
            }
            rest(&mut pause).await;
        }
    }
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

fn bytes(request: &StdinRequest) -> Result<Vec<u8>, Failure> {
    match (&request.text, &request.base64) {
        (Some(_), Some(_)) => Err(Failure::bad_input("base64", "`text` is given too; one of them is enough")),
        (Some(text), None) => Ok(text.clone().into_bytes()),
        (None, Some(encoded)) => {
            STANDARD.decode(encoded).map_err(|error| Failure::bad_input("base64", error))
        }
        (None, None) => Ok(Vec::new()),
    }
}

fn refused(error: FeedError) -> Failure {
    match error {
        FeedError::NoSuchExecution | FeedError::NotRunning | FeedError::NoInput => {
            Failure::new(ErrorCode::WrongState, error.to_string())
        }
        FeedError::Unreachable { .. } => Failure::unavailable(error),
    }
}
