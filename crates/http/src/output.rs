//! `/api/executions/{id}/output`: output of an execution, as pages or as a resumable stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use pinfold_api::{OutputEvent, OutputPage, ServerSentEvent};
use pinfold_lifecycle::ExecutionId;
use pinfold_store::Role;
use serde::Deserialize;
use tokio::sync::mpsc::Receiver;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::executions::{ExecutionPath, wants_events};
use super::extract::{Id, Query, flag, number};
use super::route_groups::{Group, SHORT_TIMEOUT};
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(output))]
}

/// Interval of keep-alive comments, so that proxies do not drop idle streams.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct OutputQuery {
    /// The sequence number of the last event that was read.
    #[serde(default, deserialize_with = "number")]
    after: Option<u64>,
    /// Stream events, as with `Accept: text/event-stream`.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
}

/// Read the output of an execution: a page, or with `?follow=1` or `Accept: text/event-stream` a stream. Also after
/// the end of the execution and its sandbox.
#[utoipa::path(get, operation_id = "read_output", path = "/api/executions/{id}/output", tag = "executions", params(ExecutionPath, OutputQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The same as `after`, as browsers send it")),
    responses((status = 200, description = "Events",
        content((OutputPage = "application/json"), (ServerSentEvent = "text/event-stream")))))]
async fn output(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Query(query): Query<OutputQuery>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let after = match (query.after, last_event(&headers)?) {
        (Some(after), _) => after,
        (None, seen) => seen.unwrap_or(0),
    };
    if query.follow || wants_events(&headers) {
        return Ok(stream(service.follow(id, after).await?).into_response());
    }
    let page: OutputPage = service.output(id, after).await?;
    Ok(Answer(page).into_response())
}

pub(super) fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let number = given.to_str().ok().and_then(|text| text.parse::<i64>().ok());
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.map(Some).ok_or_else(|| Failure::bad_input("last-event-id", "not an event number"))
}

pub(super) fn stream(events: Receiver<OutputEvent>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = unfold(events, |mut events| async move {
        let event = events.recv().await?;
        Some((Ok(sse_event(&event)), events))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
}

fn sse_event(event: &OutputEvent) -> Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    Event::default().id(event.seq().to_string()).event(event.name()).data(data)
}
