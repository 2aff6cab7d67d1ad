//! Those who wait for room, as users are told of them.

use std::time::Duration;

use pinfold_api::{ErrorCode, QueuePlace, QueueState};
use pinfold_engine::QueueAsk;
use pinfold_lifecycle::{Held, PlaceId};
use pinfold_store::{Place, PlaceEnd, Standing};

use super::words::{moment, url_of_sandbox};
use super::{Failure, Service};

/// Between two looks for somebody who watches a place.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Service {
    /// To wait for room from now on.
    #[must_use]
    pub fn queue_for(&self, id: PlaceId, wait_ms: u64) -> QueueAsk {
        QueueAsk { id, until: self.now().after_ms(wait_ms) }
    }

    /// All who wait, in their order.
    pub async fn queue(&self) -> Result<Vec<QueuePlace>, Failure> {
        Ok(self.host.engine.line().await?.iter().map(standing).collect())
    }

    /// One of them, or what has become of it; after that time, or when it waits no more.
    pub async fn place(&self, id: PlaceId, wait_ms: u64) -> Result<QueuePlace, Failure> {
        let until = self.now().after_ms(wait_ms);
        loop {
            let place = self.place_now(id).await?;
            if place.state != QueueState::Waiting || self.now() >= until {
                return Ok(place);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn place_now(&self, id: PlaceId) -> Result<QueuePlace, Failure> {
        let line = self.host.engine.line().await?;
        if let Some(found) = line.iter().find(|one| one.place.new.id == id) {
            return Ok(standing(found));
        }
        let known = self.host.engine.place(id).await?;
        let place = known.ok_or_else(|| {
            Failure::new(ErrorCode::UnknownPlace, format!("there is no place {id} in the queue"))
        })?;
        Ok(told(&place))
    }

    /// Takes somebody out of the queue. Asking again is no error.
    pub async fn leave_queue(&self, id: PlaceId) -> Result<QueuePlace, Failure> {
        self.host.engine.leave_queue(id).await?;
        self.place_now(id).await
    }

    /// Waits until it is in the queue.
    pub(super) async fn until_queued(&self, id: PlaceId) -> QueuePlace {
        loop {
            if let Ok(place) = self.place_now(id).await {
                return place;
            }
            tokio::time::sleep(LOOK_EVERY / 5).await;
        }
    }
}

fn standing(one: &Standing) -> QueuePlace {
    let waits_for = one.held.as_ref().map(|held| match held {
        Held::Short(scarcity) => scarcity.to_string(),
        Held::KeptFor(other) => format!("room that is kept for the one at position {}", other + 1),
    });
    QueuePlace { position: Some(one.position), waits_for, ..told(&one.place) }
}

fn told(place: &Place) -> QueuePlace {
    let (state, sandbox) = match place.end.map(|(_, end)| end) {
        None => (QueueState::Waiting, None),
        Some(PlaceEnd::Admitted(sandbox)) => (QueueState::Admitted, Some(sandbox)),
        Some(PlaceEnd::Expired) => (QueueState::Expired, None),
        Some(PlaceEnd::Cancelled) => (QueueState::Cancelled, None),
        Some(PlaceEnd::Refused) => (QueueState::Refused, None),
        Some(PlaceEnd::Abandoned) => (QueueState::Abandoned, None),
    };
    QueuePlace {
        id: place.new.id.to_string(),
        state,
        position: None,
        waits_for: None,
        asked_at: moment(place.new.asked_at),
        until: moment(place.new.until),
        ended_at: place.end.map(|(at, _)| moment(at)),
        sandbox_id: sandbox.map(|id| id.to_string()),
        name: place.new.name.clone(),
        location: sandbox.map_or_else(|| format!("/api/sandbox/queue/{}", place.new.id), url_of_sandbox),
    }
}
