//! `/api/sandbox/{id}/exec` and `/api/executions`: run commands, look at them, end, signal and feed them.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::{ACCEPT, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use pinfold_api::{
    EXECUTION_ID, ExecRequest, ExecResult, Execution, ServerSentEvent, SignalRequest, StdinAnswer,
    StdinRequest,
};
use pinfold_lifecycle::{ExecutionId, SandboxId};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::{Id, Json, Query, number};
use super::groups::{Group, LARGE_BODY, PATIENT, QUICK};
use super::output::stream;
use super::paging::CursorQuery;
use super::sandboxes::{SandboxPath, seen_through, wait_ms};
use crate::service::Ran;
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, QUICK).routes(routes!(list)).routes(routes!(jobs)).routes(routes!(show)),
        Group::of(Role::Operator, QUICK).routes(routes!(signal)),
        Group::of(Role::Operator, QUICK).with_bodies(LARGE_BODY).routes(routes!(feed)),
        Group::of(Role::Operator, PATIENT).with_bodies(LARGE_BODY).routes(routes!(exec)),
        Group::of(Role::Operator, PATIENT).routes(routes!(cancel)),
    ]
}

const RUN_WAIT_S: u64 = 300;
const CANCEL_WAIT_S: u64 = 15;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Id` reads")]
pub(super) struct ExecutionPath {
    /// The execution.
    #[param(pattern = "^exe_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WaitQuery {
    /// How many seconds to wait for its end.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// Whether the answer is to be a stream of events.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Run a command: with its result at the end, or with `Accept: text/event-stream` as a stream of numbered events
/// `stdout`, `stderr`, `gap`, `exit` and `error`. It runs on when the connection breaks; `X-Execution-Id` says where
/// to read on.
#[utoipa::path(post, operation_id = "exec", path = "/api/sandbox/{id}/exec", tag = "executions", params(SandboxPath, WaitQuery),
    request_body = ExecRequest,
    responses(
        (status = 200, description = "It has ended, or its events follow",
            content((ExecResult = "application/json"), (ServerSentEvent = "text/event-stream")),
            headers(("X-Execution-Id" = String, description = "The execution"))),
        (status = 202, description = "It waits or runs: it was asked to in the background, or takes longer", body = Execution)))]
async fn exec(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<WaitQuery>,
    headers: HeaderMap,
    Json(request): Json<ExecRequest>,
) -> Result<Response, Failure> {
    let wait_ms = wait_ms(query.wait, RUN_WAIT_S)?;
    let (asked, background) = (service.clone(), request.background);
    let started = seen_through(async move {
        let started = asked.exec(id, &request).await?;
        if request.stdin.is_some() {
            tokio::spawn(async move { asked.feed_first(started, &request).await });
        }
        Ok(started)
    });
    let started = started.await?;
    let execution = [(EXECUTION_ID, started.execution.to_string())];
    if wants_events(&headers) && !background {
        let events = service.follow(started.execution, 0).await?;
        return Ok((execution, stream(events)).into_response());
    }
    let wait_ms = if background { 0 } else { wait_ms };
    Ok(match service.result(started, wait_ms).await? {
        Ran::Ended(result) if !background => (execution, Answer(result)).into_response(),
        Ran::Ended(_) => accepted(service.execution(started.execution).await?),
        Ran::Running(running) => accepted(*running),
    })
}

fn accepted(execution: Execution) -> Response {
    let location = format!("/api/executions/{}", execution.execution_id);
    let headers = [(LOCATION.as_str(), location), (EXECUTION_ID, execution.execution_id.clone())];
    (StatusCode::ACCEPTED, headers, Answer(execution)).into_response()
}

/// The executions of a sandbox, the oldest first, also after its end.
#[utoipa::path(get, operation_id = "list_executions", path = "/api/sandbox/{id}/executions", tag = "executions", params(SandboxPath, CursorQuery),
    responses((status = 200, description = "A page of them", body = Vec<Execution>,
        headers(("X-Next-Cursor" = String, description = "Where the next page begins, if there is one")))))]
async fn list(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<CursorQuery>,
) -> Result<Response, Failure> {
    query.answer(service.executions(id).await?, |execution| &execution.execution_id)
}

/// Those of them that were asked for in the background.
#[utoipa::path(get, operation_id = "list_jobs", path = "/api/sandbox/{id}/jobs", tag = "executions", params(SandboxPath, CursorQuery),
    responses((status = 200, description = "A page of them", body = Vec<Execution>,
        headers(("X-Next-Cursor" = String, description = "Where the next page begins, if there is one")))))]
async fn jobs(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<CursorQuery>,
) -> Result<Response, Failure> {
    let mut jobs = service.executions(id).await?;
    jobs.retain(|execution| execution.background);
    query.answer(jobs, |execution| &execution.execution_id)
}

/// One execution.
#[utoipa::path(get, operation_id = "get_execution", path = "/api/executions/{id}", tag = "executions", params(ExecutionPath),
    responses((status = 200, description = "As of now", body = Execution)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
) -> Result<Answer<Execution>, Failure> {
    service.execution(id).await.map(Answer)
}

/// End an execution with all its processes. One that has ended is as good as one that is ended.
#[utoipa::path(delete, operation_id = "cancel_execution", path = "/api/executions/{id}", tag = "executions", params(ExecutionPath, WaitQuery),
    responses(
        (status = 200, description = "It has ended", body = Execution),
        (status = 202, description = "It is being ended", body = Execution)))]
async fn cancel(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Query(query): Query<WaitQuery>,
) -> Result<Response, Failure> {
    let wait_ms = wait_ms(query.wait, CANCEL_WAIT_S)?;
    let execution = seen_through(async move { service.cancel(id, wait_ms).await }).await?;
    let status = if execution.cause.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Answer(execution)).into_response())
}

/// Send a signal to an execution's first process and its group.
#[utoipa::path(post, operation_id = "signal_execution", path = "/api/executions/{id}/signal", tag = "executions", params(ExecutionPath),
    request_body = SignalRequest,
    responses((status = 204, description = "It was sent")))]
async fn signal(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Json(request): Json<SignalRequest>,
) -> Result<StatusCode, Failure> {
    service.signal(id, &request.signal).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Feed an execution that was asked for with `stdin`, `interactive` or `tty`.
#[utoipa::path(post, operation_id = "feed_execution", path = "/api/executions/{id}/stdin", tag = "executions", params(ExecutionPath),
    request_body = StdinRequest,
    responses((status = 200, description = "As much as there was room for was accepted", body = StdinAnswer)))]
async fn feed(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Json(request): Json<StdinRequest>,
) -> Result<Answer<StdinAnswer>, Failure> {
    seen_through(async move { service.feed(id, &request).await }).await.map(Answer)
}
