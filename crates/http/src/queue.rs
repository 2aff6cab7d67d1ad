//! `/api/sandbox/queue`: queue entries, and the queue parameters of create requests.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use pinfold_api::QueueEntry;
use pinfold_engine::{Ids, QueueRequest, RandomIds};
use pinfold_lifecycle::QueueId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Id, Query, number};
use super::route_groups::{Group, LONG_TIMEOUT, LONGEST_WAIT_S, SHORT_TIMEOUT};
use super::sandboxes::{run_to_completion, wait_ms};
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(list)),
        Group::of(Role::Viewer, LONG_TIMEOUT).routes(routes!(show)),
        Group::of(Role::Operator, SHORT_TIMEOUT).routes(routes!(leave)),
    ]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `Id`")]
struct QueueEntryPath {
    /// The id of the queue entry.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct QueueEntryQuery {
    /// Seconds to wait until the entry is no longer waiting.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// List waiting queue entries in order.
#[utoipa::path(get, operation_id = "list_queue", path = "/api/sandbox/queue", tag = "sandboxes",
    responses((status = 200, description = "Current state", body = Vec<QueueEntry>)))]
async fn list(State(service): State<Arc<Service>>) -> Result<Answer<Vec<QueueEntry>>, ErrorResponse> {
    Ok(Answer(service.queue().await?))
}

/// Show a queue entry, also after its end.
#[utoipa::path(get, operation_id = "get_queue_entry", path = "/api/sandbox/queue/{id}", tag = "sandboxes",
    params(QueueEntryPath, QueueEntryQuery),
    responses((status = 200, description = "Current state", body = QueueEntry)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<QueueId>,
    Query(query): Query<QueueEntryQuery>,
) -> Result<Answer<QueueEntry>, ErrorResponse> {
    Ok(Answer(service.queue_entry(id, wait_ms(query.wait, 0)?).await?))
}

/// Cancel a queue entry. An admitted entry stays admitted.
#[utoipa::path(delete, operation_id = "leave_queue", path = "/api/sandbox/queue/{id}", tag = "sandboxes",
    params(QueueEntryPath),
    responses((status = 200, description = "Its final state", body = QueueEntry)))]
async fn leave(
    State(service): State<Arc<Service>>,
    Id(id): Id<QueueId>,
) -> Result<Answer<QueueEntry>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.leave_queue(id).await }).await?))
}

/// The queue parameters of a request.
pub(super) struct QueueParams<'a> {
    pub(super) queue: Option<&'a str>,
    pub(super) queue_id: Option<&'a str>,
}

impl QueueParams<'_> {
    /// None: refuse the request when there is no capacity.
    pub(super) fn parse(&self, service: &Service) -> Result<Option<QueueRequest>, Failure> {
        let queue_id = self.queue_id.map(|queue_id| {
            queue_id.parse::<QueueId>().map_err(|error| Failure::bad_input("queue_id", error))
        });
        match (self.queue, queue_id.transpose()?) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::bad_input("queue_id", "`queue_id` requires `queue`")),
            (Some(time), queue_id) => {
                let id = queue_id.unwrap_or_else(|| QueueId(RandomIds.fresh(service.now())));
                Ok(Some(service.queue_for(id, parse_ms(time)?)))
            }
        }
    }
}

/// A duration of at most an hour: seconds, or with `ms`, `s`, `m` or `h`.
fn parse_ms(given: &str) -> Result<u64, Failure> {
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
        let why = format!(
            "`{given}` is not a duration from 1ms to {LONGEST_WAIT_S}s, such as 30, 30s, 500ms or 5m"
        );
        Failure::bad_input("queue", why)
    })
}

/// Runs a request that may wait in the queue to its end. If the client disconnects first, its queue entry is cancelled;
/// a request that was admitted runs on.
pub(super) async fn run_queued<T: Send + 'static>(
    service: &Arc<Service>,
    queue: Option<QueueRequest>,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let guard = LeaveQueueOnDrop { service: service.clone(), id: queue.map(|queue| queue.id) };
    let done = run_to_completion(work).await;
    guard.disarm();
    done
}

/// Cancels the queue entry of a request whose client has disconnected.
struct LeaveQueueOnDrop {
    service: Arc<Service>,
    id: Option<QueueId>,
}

impl LeaveQueueOnDrop {
    /// The request was answered: the entry stays.
    fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for LeaveQueueOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let service = self.service.clone();
        tokio::spawn(async move {
            // Fails for an entry that never waited, or no longer waits.
            if let Err(failure) = service.leave_queue(id).await {
                tracing::debug!(queue_id = %id, why = failure.detail.message, "could not cancel the queue entry");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_seconds_or_has_a_unit() {
        for (given, ms) in
            [("30", 30_000), ("30s", 30_000), ("500ms", 500), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_ms(given).unwrap(), ms, "{given}");
        }
        for given in ["", "0", "s", "-1", "2h", "1.5s", "5 m", "99999999999999999999"] {
            assert_eq!(parse_ms(given).unwrap_err().detail.details["field"], "queue", "{given}");
        }
    }
}
