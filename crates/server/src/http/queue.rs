//! `/api/sandbox/queue`: those who wait for room, and how a request says that it would.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use pinfold_api::QueuePlace;
use pinfold_engine::{Ids, QueueAsk, RandomIds};
use pinfold_lifecycle::PlaceId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::{Id, Query, number};
use super::groups::{Group, LONGEST_WAIT_S, PATIENT, QUICK};
use super::sandboxes::{seen_through, wait_ms};
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, QUICK).routes(routes!(list)),
        Group::of(Role::Viewer, PATIENT).routes(routes!(show)),
        Group::of(Role::Operator, QUICK).routes(routes!(leave)),
    ]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Id` reads")]
struct PlacePath {
    /// The place in the queue.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PlaceQuery {
    /// How many seconds to wait until it does not wait any more.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// Who waits for room, in their order.
#[utoipa::path(get, operation_id = "list_queue", path = "/api/sandbox/queue", tag = "sandboxes",
    responses((status = 200, description = "As of now", body = Vec<QueuePlace>)))]
async fn list(State(service): State<Arc<Service>>) -> Result<Answer<Vec<QueuePlace>>, Failure> {
    service.queue().await.map(Answer)
}

/// One place in the queue, also after its end.
#[utoipa::path(get, operation_id = "get_queue_place", path = "/api/sandbox/queue/{id}", tag = "sandboxes",
    params(PlacePath, PlaceQuery),
    responses((status = 200, description = "As of now", body = QueuePlace)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<PlaceId>,
    Query(query): Query<PlaceQuery>,
) -> Result<Answer<QueuePlace>, Failure> {
    service.place(id, wait_ms(query.wait, 0)?).await.map(Answer)
}

/// Give up a place in the queue. Who was let in already stays.
#[utoipa::path(delete, operation_id = "leave_queue", path = "/api/sandbox/queue/{id}", tag = "sandboxes",
    params(PlacePath),
    responses((status = 200, description = "What has become of it", body = QueuePlace)))]
async fn leave(
    State(service): State<Arc<Service>>,
    Id(id): Id<PlaceId>,
) -> Result<Answer<QueuePlace>, Failure> {
    seen_through(async move { service.leave_queue(id).await }).await.map(Answer)
}

/// What a request says of waiting for room.
pub(super) struct Queueing<'a> {
    pub(super) queue: Option<&'a str>,
    pub(super) ticket: Option<&'a str>,
}

impl Queueing<'_> {
    /// None: it would rather be refused.
    pub(super) fn ask(&self, service: &Service) -> Result<Option<QueueAsk>, Failure> {
        let ticket = self
            .ticket
            .map(|ticket| ticket.parse::<PlaceId>().map_err(|error| Failure::bad_input("ticket", error)));
        match (self.queue, ticket.transpose()?) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::bad_input("ticket", "it is for `queue`")),
            (Some(time), ticket) => {
                let id = ticket.unwrap_or_else(|| PlaceId(RandomIds.fresh(service.host().clock.now())));
                Ok(Some(service.queue_for(id, milliseconds(time)?)))
            }
        }
    }
}

/// Seconds, or with `ms`, `s`, `m` or `h`; an hour at the most.
fn milliseconds(given: &str) -> Result<u64, Failure> {
    let at = given.find(|character: char| !character.is_ascii_digit()).unwrap_or(given.len());
    let (number, unit) = given.split_at(at);
    let factor = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let ms = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    ms.filter(|ms| (1..=LONGEST_WAIT_S * 1_000).contains(ms)).ok_or_else(|| {
        let why = format!("`{given}` is no time from 1ms to {LONGEST_WAIT_S}s, such as 30, 30s, 500ms or 5m");
        Failure::bad_input("queue", why)
    })
}

/// Takes whoever asked out of the queue when the answer is not waited for any more.
pub(super) struct LeavesWithCaller {
    service: Arc<Service>,
    id: Option<PlaceId>,
}

impl LeavesWithCaller {
    pub(super) fn of(service: &Arc<Service>, queue: Option<QueueAsk>) -> Self {
        Self { service: service.clone(), id: queue.map(|queue| queue.id) }
    }

    /// There is an answer.
    pub(super) fn answered(mut self) {
        self.id = None;
    }
}

impl Drop for LeavesWithCaller {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let service = self.service.clone();
        tokio::spawn(async move {
            // One that never waited, or waits no more.
            if let Err(failure) = service.leave_queue(id).await {
                tracing::debug!(place = %id, code = ?failure.detail.code, "nobody left the queue");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_or_carries_its_unit() {
        for (given, ms) in
            [("30", 30_000), ("30s", 30_000), ("500ms", 500), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(milliseconds(given).unwrap(), ms, "{given}");
        }
        for given in ["", "0", "s", "-1", "2h", "1.5s", "5 m", "99999999999999999999"] {
            assert_eq!(milliseconds(given).unwrap_err().detail.details["field"], "queue", "{given}");
        }
    }
}
