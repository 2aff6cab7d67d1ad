//! The output stream of a running execution, resumed after a broken connection.

use std::time::Duration;

use anyhow::{Context, bail};
use pinfold_api::OutputEvent;
use pinfold_client::Events;
use tokio::sync::mpsc;

use super::Backend;

/// A running execution and its output stream.
pub(crate) struct Running {
    pub(crate) sandbox: String,
    pub(crate) execution: String,
    pub(crate) stream: Stream,
    /// Sequence number of the last event received.
    last_seq: u64,
}

pub(crate) enum Stream {
    Server(Box<Events>),
    Local(mpsc::Receiver<OutputEvent>),
}

/// How often, and at what interval, to reconnect a broken stream.
const RECONNECT_ATTEMPTS: u32 = 10;
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

impl Running {
    pub(crate) fn new(sandbox: String, execution: String, stream: Stream) -> Self {
        Self { sandbox, execution, stream, last_seq: 0 }
    }

    /// Returns each event exactly once, across reconnects. Cancel-safe.
    pub(crate) async fn next(&mut self, backend: &Backend) -> anyhow::Result<OutputEvent> {
        for _ in 0..RECONNECT_ATTEMPTS {
            match self.stream.next().await {
                Some(OutputEvent::Error { .. }) | None => {}
                Some(event) => {
                    self.last_seq = event.seq();
                    return Ok(event);
                }
            }
            tokio::time::sleep(RECONNECT_INTERVAL).await;
            // The new stream starts after the last event received.
            if let Ok(stream) = backend.follow(&self.execution, self.last_seq).await {
                self.stream = stream;
            }
        }
        bail!(
            "lost the output stream of {}; see its state with `pinfold inspect {}`",
            self.execution,
            self.sandbox
        )
    }
}

impl Stream {
    /// None: the stream broke.
    async fn next(&mut self) -> Option<OutputEvent> {
        match self {
            Self::Server(events) => events.next().await.ok().flatten(),
            Self::Local(events) => events.recv().await,
        }
    }

    pub(super) fn of_run(events: Events) -> anyhow::Result<Running> {
        let sandbox = events.sandbox().context("the server's answer does not name the sandbox")?.to_owned();
        let execution =
            events.execution().context("the server's answer does not name the execution")?.to_owned();
        Ok(Running::new(sandbox, execution, Self::Server(Box::new(events))))
    }

    pub(super) fn of_exec(sandbox: &str, events: Events) -> anyhow::Result<Running> {
        let execution =
            events.execution().context("the server's answer does not name the execution")?.to_owned();
        Ok(Running::new(sandbox.to_owned(), execution, Self::Server(Box::new(events))))
    }
}
