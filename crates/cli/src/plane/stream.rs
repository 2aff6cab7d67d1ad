//! A command that runs, and what it writes as it comes.

use std::time::Duration;

use anyhow::{Context, bail};
use pinfold_api::OutputEvent;
use pinfold_client::Events;
use tokio::sync::mpsc;

use super::Plane;

/// An execution somebody follows.
pub(crate) struct Running {
    pub(crate) sandbox: String,
    pub(crate) execution: String,
    pub(crate) stream: Stream,
    /// The number of the last event that came.
    seen: u64,
}

pub(crate) enum Stream {
    Server(Box<Events>),
    Here(mpsc::Receiver<OutputEvent>),
}

/// How often a stream that broke off is taken up again, and after which pause.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

impl Running {
    pub(crate) fn new(sandbox: String, execution: String, stream: Stream) -> Self {
        Self { sandbox, execution, stream, seen: 0 }
    }

    /// The next event, each once, also when a connection breaks. A call that is given up loses nothing.
    pub(crate) async fn next(&mut self, plane: &Plane) -> anyhow::Result<OutputEvent> {
        for _ in 0..TRIES {
            match self.stream.next().await {
                Some(OutputEvent::Error { .. }) | None => {}
                Some(event) => {
                    self.seen = event.seq();
                    return Ok(event);
                }
            }
            tokio::time::sleep(PAUSE).await;
            // What is there again tells all that was missed.
            if let Ok(stream) = plane.follow(&self.execution, self.seen).await {
                self.stream = stream;
            }
        }
        bail!(
            "nobody tells what {} does any more; `pinfold inspect {}` shows what became of it",
            self.execution,
            self.sandbox
        )
    }
}

impl Stream {
    /// None: it broke off.
    async fn next(&mut self) -> Option<OutputEvent> {
        match self {
            Self::Server(events) => events.next().await.ok().flatten(),
            Self::Here(events) => events.recv().await,
        }
    }

    pub(super) fn of_run(events: Events) -> anyhow::Result<Running> {
        let sandbox = events.sandbox().context("the server does not say which sandbox it made")?.to_owned();
        let execution = events.execution().context("the server does not say what it runs")?.to_owned();
        Ok(Running::new(sandbox, execution, Self::Server(Box::new(events))))
    }

    pub(super) fn of_exec(sandbox: &str, events: Events) -> anyhow::Result<Running> {
        let execution = events.execution().context("the server does not say what it runs")?.to_owned();
        Ok(Running::new(sandbox.to_owned(), execution, Self::Server(Box::new(events))))
    }
}
