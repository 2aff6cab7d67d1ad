//! `/api/events` and `/api/sandbox/{id}/events`: what happened, in pages or as a stream that can be taken up again.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Line, KeepAlive, Sse};
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

use super::executions::wants_events;
use super::extract::{Id, Query, flag, number};
use super::groups::{Group, QUICK};
use super::output::{SIGN_OF_LIFE, last_event};
use super::paging::limit;
use super::sandboxes::SandboxPath;
use crate::service::Followed;
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, QUICK).routes(routes!(of_all)).routes(routes!(of_one))]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// The number of the last event that was read. Without it: from the beginning.
    #[serde(default, deserialize_with = "number")]
    after: Option<u64>,
    /// Only what comes from now on.
    #[serde(default, deserialize_with = "flag")]
    from_now: bool,
    /// Stream it, as `Accept: text/event-stream` does.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
    /// Of a page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// What happened to all sandboxes, after a number: a page of what is there now, or with `?follow=1` or
/// `Accept: text/event-stream` all that comes.
#[utoipa::path(get, operation_id = "list_events", path = "/api/events", tag = "events", params(EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The same as `after`, as browsers send it")),
    responses((status = 200, description = "Events",
        content((EventPage = "application/json"), (ServerSentEvent = "text/event-stream")))))]
async fn of_all(
    State(service): State<Arc<Service>>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    answer(&service, None, &query, &headers).await
}

/// What happened to one sandbox, in the same ways. Also after its end.
#[utoipa::path(get, operation_id = "list_sandbox_events", path = "/api/sandbox/{id}/events", tag = "events",
    params(SandboxPath, EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The same as `after`, as browsers send it")),
    responses((status = 200, description = "Events",
        content((EventPage = "application/json"), (ServerSentEvent = "text/event-stream")))))]
async fn of_one(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    answer(&service, Some(id), &query, &headers).await
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

fn stream(events: Receiver<Followed>) -> Sse<impl Stream<Item = Result<Line, Infallible>>> {
    let events = unfold(events, |mut events| async move {
        let line = match events.recv().await? {
            Followed::Event(event) => {
                let data = serde_json::to_string(&event).unwrap_or_default();
                Line::default().id(event.seq.to_string()).event(event.event).data(data)
            }
            Followed::Ends { after, why } => {
                let data = json!({ "seq": after, "message": why }).to_string();
                Line::default().id(after.to_string()).event("error").data(data)
            }
        };
        Some((Ok(line), events))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE))
}
