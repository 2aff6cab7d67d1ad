//! `/api/events` and `/api/sandbox/{id}/events`: lifecycle events, as pages or as a resumable stream.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use pinfold_api::{EventPage, ServerSentEvent};
use pinfold_lifecycle::SandboxId;
use pinfold_store::Role;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::executions::wants_events;
use super::extract::{Query, SandboxRef, flag, number};
use super::output::{KEEP_ALIVE_INTERVAL, last_event};
use super::paging::limit;
use super::route_groups::{Group, SHORT_TIMEOUT};
use super::sandboxes::SandboxPath;
use pinfold_service::EventStreamItem;
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(of_all)).routes(routes!(of_one))]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// The sequence number of the last event that was read. Default: from the beginning.
    #[serde(default, deserialize_with = "number")]
    after: Option<u64>,
    /// Only new events.
    #[serde(default, deserialize_with = "flag")]
    from_now: bool,
    /// Stream events, as with `Accept: text/event-stream`.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
    /// Events per page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// Read events of all sandboxes: a page, or with `?follow=1` or `Accept: text/event-stream` a stream.
#[utoipa::path(get, operation_id = "list_events", path = "/api/events", tag = "events", params(EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The same as `after`, as browsers send it")),
    responses((status = 200, description = "Events",
        content((EventPage = "application/json"), (ServerSentEvent = "text/event-stream")))))]
async fn of_all(
    State(service): State<Arc<Service>>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    Ok(answer(&service, None, &query, &headers).await?)
}

/// Read events of one sandbox, as a page or a stream. Also after its end.
#[utoipa::path(get, operation_id = "list_sandbox_events", path = "/api/sandbox/{id}/events", tag = "events",
    params(SandboxPath, EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The same as `after`, as browsers send it")),
    responses((status = 200, description = "Events",
        content((EventPage = "application/json"), (ServerSentEvent = "text/event-stream")))))]
async fn of_one(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    Ok(answer(&service, Some(id), &query, &headers).await?)
}

async fn answer(
    service: &Arc<Service>,
    of: Option<SandboxId>,
    query: &EventsQuery,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let limit = limit(query.limit)?;
    let after = match query.after.or(last_event(headers)?) {
        Some(after) => after,
        None if query.from_now => service.latest_event().await?,
        None => 0,
    };
    if query.follow || wants_events(headers) {
        return Ok(stream(service.follow_events(of, after).await?).into_response());
    }
    Ok(Answer(service.events(of, after, limit).await?).into_response())
}

fn stream(events: Receiver<EventStreamItem>) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let events = unfold(events, |mut events| async move {
        let item = match events.recv().await? {
            EventStreamItem::Event(event) => {
                let data = serde_json::to_string(&event).unwrap_or_default();
                SseEvent::default().id(event.seq.to_string()).event(event.event).data(data)
            }
            EventStreamItem::End { after, why } => {
                let data = json!({ "seq": after, "message": why }).to_string();
                SseEvent::default().id(after.to_string()).event("error").data(data)
            }
        };
        Some((Ok(item), events))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
}
