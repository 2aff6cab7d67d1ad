//! Waiting for room: which place in the queue a command has, shown to whoever watches.

use std::io::IsTerminal;
use std::time::Duration;

use pinfold_api::QueueState;
use pinfold_engine::{Ids, RandomIds};
use pinfold_lifecycle::{PlaceId, Timestamp};

use crate::plane::Plane;

const SECOND: Duration = Duration::from_secs(1);

/// A place in the queue, under an id of this command's own, and how long it would wait there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) id: PlaceId,
    pub(crate) ms: u64,
}

impl Ticket {
    pub(crate) fn of(ms: u64) -> Self {
        let now = jiff::Timestamp::now().as_millisecond();
        Self { id: PlaceId(RandomIds.fresh(Timestamp(now))), ms }
    }

    /// Shows the place as long as it waits.
    pub(crate) async fn shown<T>(&self, plane: &Plane, waited: impl Future<Output = T>) -> T {
        if !std::io::stderr().is_terminal() {
            return waited.await;
        }
        let mut line = Line { is_shown: false };
        let mut waited = std::pin::pin!(waited);
        let mut seconds = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut waited => return done,
                () = tokio::time::sleep(SECOND) => seconds += 1,
            }
            let place = plane.place(self.id).await.ok();
            let position = place.filter(|place| place.state == QueueState::Waiting);
            match position.and_then(|place| place.position) {
                Some(position) => line.show(&format!("waiting for room, position {position}"), seconds),
                None => line.show("waiting until it is ready", seconds),
            }
        }
    }
}

/// Cleared when it is dropped.
struct Line {
    is_shown: bool,
}

impl Line {
    fn show(&mut self, what: &str, seconds: u64) {
        self.is_shown = true;
        eprint!("\r{what} … {seconds} s\u{1b}[K");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_shown {
            eprint!("\r\u{1b}[K");
        }
    }
}
