//! `/api/sandbox/{id}/logs`: output and control plane messages in one order, as pages or as a stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use pinfold_api::{LogPage, ServerSentEvent};
use pinfold_logs::Cursor;
use pinfold_store::Role;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::executions::wants_events;
use super::extract::{Query, SandboxRef, flag, number};
use super::route_groups::{Group, SHORT_TIMEOUT};
use super::sandboxes::SandboxPath;
use pinfold_service::LogEvent;
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(logs))]
}

/// Interval of keep-alive comments, so that proxies do not drop idle streams.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const MOST_ENTRIES: usize = 10_000;
const DEFAULT_ENTRIES: usize = 1_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LogQuery {
    /// The `seq` of the last entry that was read, or `next` of the last page.
    after: Option<String>,
    /// The maximum number of entries.
    #[param(minimum = 1, maximum = 10_000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<usize>,
    /// Stream entries, as with `Accept: text/event-stream`.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
}

/// Read the log of a sandbox: a page, or with `?follow=1` or `Accept: text/event-stream` a stream until the sandbox
/// is gone. Also after its end.
#[utoipa::path(get, operation_id = "read_log", path = "/api/sandbox/{id}/logs", tag = "sandboxes", params(SandboxPath, LogQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The same as `after`, as browsers send it")),
    responses((status = 200, description = "Entries",
        content((LogPage = "application/json"), (ServerSentEvent = "text/event-stream")))))]
async fn logs(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let after = after(&query, &headers)?;
    let limit = query.limit.unwrap_or(DEFAULT_ENTRIES);
    if !(1..=MOST_ENTRIES).contains(&limit) {
        return Err(Failure::bad_input("limit", format!("1 to {MOST_ENTRIES} are allowed")).into());
    }
    if query.follow || wants_events(&headers) {
        return Ok(stream(service.follow_log(id, after).await?).into_response());
    }
    Ok(Answer(service.log(id, &after, limit).await?).into_response())
}

fn after(query: &LogQuery, headers: &HeaderMap) -> Result<Cursor, Failure> {
    if let Some(after) = &query.after {
        return after.parse().map_err(|error| Failure::bad_input("after", error));
    }
    let Some(seen) = headers.get("last-event-id") else { return Ok(Cursor::default()) };
    let seen = seen.to_str().unwrap_or("?");
    seen.parse().map_err(|error| Failure::bad_input("last-event-id", error))
}

fn stream(events: Receiver<LogEvent>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = unfold(events, |mut events| async move {
        let event = events.recv().await?;
        Some((Ok(sse_event(&event)), events))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
}

fn sse_event(event: &LogEvent) -> Event {
    match event {
        LogEvent::Entry(entry) => {
            let data = serde_json::to_string(entry).unwrap_or_default();
            Event::default().id(&entry.seq).event(entry.source.name()).data(data)
        }
        LogEvent::Interrupted { message } => {
            Event::default().event("error").data(json!({ "message": message }).to_string())
        }
    }
}
