//! `/api/sandbox/{id}/exec` and `/api/executions`: run, list, show, cancel, signal, and write standard input.

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
use pinfold_lifecycle::ExecutionId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Id, Json, Query, SandboxRef, number};
use super::output::stream;
use super::paging::CursorQuery;
use super::route_groups::{Group, LARGE_BODY, LONG_TIMEOUT, SHORT_TIMEOUT};
use super::sandboxes::{SandboxPath, run_to_completion, wait_ms};
use pinfold_service::ExecOutcome;
use pinfold_service::Service;

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, SHORT_TIMEOUT)
            .routes(routes!(list))
            .routes(routes!(jobs))
            .routes(routes!(show)),
        Group::of(Role::Operator, SHORT_TIMEOUT).routes(routes!(signal)),
        Group::of(Role::Operator, SHORT_TIMEOUT).with_body_limit(LARGE_BODY).routes(routes!(feed)),
        Group::of(Role::Operator, LONG_TIMEOUT).with_body_limit(LARGE_BODY).routes(routes!(exec)),
        Group::of(Role::Operator, LONG_TIMEOUT).routes(routes!(cancel)),
    ]
}

const RUN_WAIT_S: u64 = 300;
const CANCEL_WAIT_S: u64 = 15;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `Id`")]
pub(super) struct ExecutionPath {
    /// The execution id.
    #[param(pattern = "^exe_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExecWaitQuery {
    /// Seconds to wait for the end of the execution.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// Whether the client accepts an event stream.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Run a command. The answer is its result, or with `Accept: text/event-stream` a stream of numbered events `stdout`,
/// `stderr`, `gap`, `exit` and `error`. The command continues if the connection breaks; `X-Execution-Id` names the
/// execution to read from.
#[utoipa::path(post, operation_id = "exec", path = "/api/sandbox/{id}/exec", tag = "executions", params(SandboxPath, ExecWaitQuery),
    request_body = ExecRequest,
    responses(
        (status = 200, description = "Ended, or an event stream",
            content((ExecResult = "application/json"), (ServerSentEvent = "text/event-stream")),
            headers(("X-Execution-Id" = String, description = "The execution"))),
        (status = 202, description = "Queued or running: a background execution, or still running after the wait", body = Execution)))]
async fn exec(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
    Query(query): Query<ExecWaitQuery>,
    headers: HeaderMap,
    Json(request): Json<ExecRequest>,
) -> Result<Response, ErrorResponse> {
    let wait_ms = wait_ms(query.wait, RUN_WAIT_S)?;
    let (running, background) = (service.clone(), request.background);
    let started = run_to_completion(async move {
        let started = running.exec(id, &request).await?;
        if request.stdin.is_some() {
            tokio::spawn(async move { running.write_initial_stdin(started, &request).await });
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
        ExecOutcome::Ended(result) if !background => (execution, Answer(result)).into_response(),
        ExecOutcome::Ended(_) => accepted(service.execution(started.execution).await?),
        ExecOutcome::Running(running) => accepted(*running),
    })
}

fn accepted(execution: Execution) -> Response {
    let location = format!("/api/executions/{}", execution.execution_id);
    let headers = [(LOCATION.as_str(), location), (EXECUTION_ID, execution.execution_id.clone())];
    (StatusCode::ACCEPTED, headers, Answer(execution)).into_response()
}

/// List the executions of a sandbox, oldest first, also after its end.
#[utoipa::path(get, operation_id = "list_executions", path = "/api/sandbox/{id}/executions", tag = "executions", params(SandboxPath, CursorQuery),
    responses((status = 200, description = "One page", body = Vec<Execution>,
        headers(("X-Next-Cursor" = String, description = "The cursor of the next page, if there is one")))))]
async fn list(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
    Query(query): Query<CursorQuery>,
) -> Result<Response, ErrorResponse> {
    Ok(query.answer(service.executions(id).await?, |execution| &execution.execution_id)?)
}

/// List the background executions of a sandbox.
#[utoipa::path(get, operation_id = "list_jobs", path = "/api/sandbox/{id}/jobs", tag = "executions", params(SandboxPath, CursorQuery),
    responses((status = 200, description = "One page", body = Vec<Execution>,
        headers(("X-Next-Cursor" = String, description = "The cursor of the next page, if there is one")))))]
async fn jobs(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
    Query(query): Query<CursorQuery>,
) -> Result<Response, ErrorResponse> {
    let mut jobs = service.executions(id).await?;
    jobs.retain(|execution| execution.background);
    Ok(query.answer(jobs, |execution| &execution.execution_id)?)
}

/// Show an execution.
#[utoipa::path(get, operation_id = "get_execution", path = "/api/executions/{id}", tag = "executions", params(ExecutionPath),
    responses((status = 200, description = "Current state", body = Execution)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
) -> Result<Answer<Execution>, ErrorResponse> {
    Ok(Answer(service.execution(id).await?))
}

/// Cancel an execution with all its processes. Cancelling an ended execution succeeds.
#[utoipa::path(delete, operation_id = "cancel_execution", path = "/api/executions/{id}", tag = "executions", params(ExecutionPath, ExecWaitQuery),
    responses(
        (status = 200, description = "Ended", body = Execution),
        (status = 202, description = "Being cancelled", body = Execution)))]
async fn cancel(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Query(query): Query<ExecWaitQuery>,
) -> Result<Response, ErrorResponse> {
    let wait_ms = wait_ms(query.wait, CANCEL_WAIT_S)?;
    let execution = run_to_completion(async move { service.cancel(id, wait_ms).await }).await?;
    let status = if execution.cause.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Answer(execution)).into_response())
}

/// Send a signal to the process group of an execution.
#[utoipa::path(post, operation_id = "signal_execution", path = "/api/executions/{id}/signal", tag = "executions", params(ExecutionPath),
    request_body = SignalRequest,
    responses((status = 204, description = "Sent")))]
async fn signal(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Json(request): Json<SignalRequest>,
) -> Result<StatusCode, ErrorResponse> {
    service.signal(id, &request.signal).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Write to the standard input of an execution with `stdin`, `interactive` or `tty`.
#[utoipa::path(post, operation_id = "feed_execution", path = "/api/executions/{id}/stdin", tag = "executions", params(ExecutionPath),
    request_body = StdinRequest,
    responses((status = 200, description = "Accepted as much as the buffer took", body = StdinAnswer)))]
async fn feed(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Json(request): Json<StdinRequest>,
) -> Result<Answer<StdinAnswer>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.feed(id, &request).await }).await?))
}
