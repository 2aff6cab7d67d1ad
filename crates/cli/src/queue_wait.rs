//! Waiting in the admission queue, with the position shown on the terminal.

use std::io::IsTerminal;
use std::time::Duration;

use pinfold_api::QueueState;
use pinfold_engine::{Ids, RandomIds};
use pinfold_lifecycle::{QueueId, Timestamp};

use crate::backend::Backend;

const SECOND: Duration = Duration::from_secs(1);

/// A queue id chosen by this command, and how long to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueRequest {
    pub(crate) id: QueueId,
    pub(crate) ms: u64,
}

impl QueueRequest {
    pub(crate) fn of(ms: u64) -> Self {
        let now = jiff::Timestamp::now().as_millisecond();
        Self { id: QueueId(RandomIds.fresh(Timestamp(now))), ms }
    }

    /// Shows the queue position until `waited` completes.
    pub(crate) async fn show_progress<T>(&self, backend: &Backend, waited: impl Future<Output = T>) -> T {
        if !std::io::stderr().is_terminal() {
            return waited.await;
        }
        let mut line = StatusLine { is_shown: false };
        let mut waited = std::pin::pin!(waited);
        let mut seconds = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut waited => return done,
                () = tokio::time::sleep(SECOND) => seconds += 1,
            }
            let entry = backend.queue_entry(self.id).await.ok();
            let position = entry.filter(|entry| entry.state == QueueState::Waiting);
            match position.and_then(|entry| entry.position) {
                Some(position) => {
                    line.show(&format!("waiting for capacity, queue position {position}"), seconds)
                }
                None => line.show("waiting until the sandbox is ready", seconds),
            }
        }
    }
}

/// A line on the terminal that is cleared on drop.
struct StatusLine {
    is_shown: bool,
}

impl StatusLine {
    fn show(&mut self, what: &str, seconds: u64) {
        self.is_shown = true;
        eprint!("\r{what} … {seconds} s\u{1b}[K");
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.is_shown {
            eprint!("\r\u{1b}[K");
        }
    }
}
