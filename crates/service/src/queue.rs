//! The admission queue API: list, show and cancel queue entries.

use std::time::Duration;

use pinfold_api::{ErrorCode, QueueEntry, QueueState};
use pinfold_engine::QueueRequest;
use pinfold_lifecycle::{QueueId, WaitReason};
use pinfold_store::{QueueOutcome, QueuePosition, QueueRow};

use super::convert::{rfc3339, sandbox_url};
use super::{Failure, Service};

/// Poll interval of a request that waits for a queue entry.
const POLL_EVERY: Duration = Duration::from_millis(100);

impl Service {
    /// A queue request that expires after `wait_ms`.
    #[must_use]
    pub fn queue_for(&self, id: QueueId, wait_ms: u64) -> QueueRequest {
        QueueRequest::new(id, self.now(), wait_ms)
    }

    /// All waiting entries in order.
    pub async fn queue(&self) -> Result<Vec<QueueEntry>, Failure> {
        Ok(self.host.engine.queue_positions().await?.iter().map(position_view).collect())
    }

    /// One queue entry. Waits until it no longer waits, or until the timeout.
    pub async fn queue_entry(&self, id: QueueId, wait_ms: u64) -> Result<QueueEntry, Failure> {
        let until = self.now().after_ms(wait_ms);
        loop {
            let entry = self.entry_now(id).await?;
            if entry.state != QueueState::Waiting || self.now() >= until {
                return Ok(entry);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    async fn entry_now(&self, id: QueueId) -> Result<QueueEntry, Failure> {
        let positions = self.host.engine.queue_positions().await?;
        if let Some(found) = positions.iter().find(|it| it.entry.new.id == id) {
            return Ok(position_view(found));
        }
        let row = self.host.engine.queue_entry(id).await?;
        let row = row
            .ok_or_else(|| Failure::new(ErrorCode::UnknownQueueEntry, format!("unknown queue entry {id}")))?;
        Ok(entry_view(&row))
    }

    /// Cancels a queue entry. Repeating it is not an error.
    pub async fn leave_queue(&self, id: QueueId) -> Result<QueueEntry, Failure> {
        self.host.engine.leave_queue(id).await?;
        self.entry_now(id).await
    }

    /// Waits until the entry exists.
    pub(super) async fn until_queued(&self, id: QueueId) -> QueueEntry {
        loop {
            if let Ok(entry) = self.entry_now(id).await {
                return entry;
            }
            tokio::time::sleep(POLL_EVERY / 5).await;
        }
    }
}

fn position_view(position: &QueuePosition) -> QueueEntry {
    let waits_for = position.wait_reason.as_ref().map(|reason| match reason {
        WaitReason::Shortage(scarcity) => scarcity.to_string(),
        WaitReason::ReservedFor(other) => {
            format!("capacity reserved for the entry at position {}", other + 1)
        }
    });
    QueueEntry { position: Some(position.position), waits_for, ..entry_view(&position.entry) }
}

fn entry_view(entry: &QueueRow) -> QueueEntry {
    let (state, sandbox) = match entry.outcome.map(|(_, end)| end) {
        None => (QueueState::Waiting, None),
        Some(QueueOutcome::Admitted(sandbox)) => (QueueState::Admitted, Some(sandbox)),
        Some(QueueOutcome::Expired) => (QueueState::Expired, None),
        Some(QueueOutcome::Cancelled) => (QueueState::Cancelled, None),
        Some(QueueOutcome::Refused) => (QueueState::Refused, None),
        Some(QueueOutcome::Abandoned) => (QueueState::Abandoned, None),
    };
    QueueEntry {
        id: entry.new.id.to_string(),
        state,
        position: None,
        waits_for: None,
        asked_at: rfc3339(entry.new.requested_at),
        until: rfc3339(entry.new.deadline),
        ended_at: entry.outcome.map(|(at, _)| rfc3339(at)),
        sandbox_id: sandbox.map(|id| id.to_string()),
        name: entry.new.name.clone(),
        location: sandbox.map_or_else(|| format!("/api/sandbox/queue/{}", entry.new.id), sandbox_url),
    }
}
