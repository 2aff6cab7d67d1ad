//! `/api/agents`: agent runs, from the request to the receipt.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as Answer};
use pinfold_api::{AgentRequest, AgentRun, EXECUTION_ID};
use pinfold_lifecycle::ExecutionId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Id, Json, Query, number};
use super::queue::{QueueParams, run_queued};
use super::route_groups::{Group, LARGE_BODY, LONG_TIMEOUT};
use super::sandboxes::{idempotency_key, wait_ms};
use pinfold_service::Service;
use pinfold_service::{Caller, CreateOptions};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, LONG_TIMEOUT).routes(routes!(show)),
        Group::of(Role::Operator, LONG_TIMEOUT)
            .with_body_limit(LARGE_BODY)
            .with_idempotency_keys()
            .routes(routes!(execute)),
    ]
}

/// Longer than any agent type's time limit.
const RUN_WAIT_S: u64 = 3_600;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `Id`")]
struct RunPath {
    /// The execution id of the run.
    #[param(pattern = "^exe_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AgentRunQuery {
    /// Seconds to wait until the run has ended and its sandbox is gone.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExecuteQuery {
    /// Seconds to wait until the run has ended and its sandbox is gone.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
    /// How long to wait in the queue when there is no capacity: seconds, or `30s`, `5m`. Default: `wait`, at most 30
    /// seconds. The answer comes after admission, whatever `wait` says.
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    queue: Option<String>,
    /// An id of your choice for the queue entry, to look it up while this request waits.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    queue_id: Option<String>,
}

/// Run an agent's command in a sandbox of its own: queue, provision, write input files, execute, collect artifacts,
/// clean up. If the sandbox fails the command is retried in a new one, up to three attempts.
#[utoipa::path(post, operation_id = "execute_agent", path = "/api/agents/execute", tag = "agents",
    params(ExecuteQuery, ("Idempotency-Key" = Option<String>, Header,
        description = "The same key with the same request returns the same run, for a day or the configured time")),
    request_body = AgentRequest,
    responses(
        (status = 200, description = "Ended, and its sandbox is proven gone", body = AgentRun),
        (status = 202, description = "Still running; `Location` is its URL", body = AgentRun)))]
async fn execute(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ExecuteQuery>,
    headers: HeaderMap,
    Json(request): Json<AgentRequest>,
) -> Result<Response, ErrorResponse> {
    let began = service.now();
    let wait_ms = wait_ms(query.wait, RUN_WAIT_S)?;
    let key = idempotency_key(&headers)?;
    let params = QueueParams { queue: query.queue.as_deref(), queue_id: query.queue_id.as_deref() };
    let queue = params.parse(&service)?;
    let running = service.clone();
    let run = run_queued(&service, queue, async move {
        let options = CreateOptions { caller: Some(&caller), key: key.as_deref(), queue };
        running.run_agent(&request, options, wait_ms).await
    });
    let run = run.await?;
    let left_ms = CreateOptions::remaining_wait_ms(wait_ms, service.now().ms_since(began));
    Ok(answer(service.agent_run(run, left_ms).await?))
}

/// Show an agent run, or wait for its end.
#[utoipa::path(get, operation_id = "get_agent_run", path = "/api/agents/runs/{id}", tag = "agents", params(RunPath, AgentRunQuery),
    responses(
        (status = 200, description = "Ended, and its sandbox is proven gone", body = AgentRun),
        (status = 202, description = "Still running", body = AgentRun)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Query(query): Query<AgentRunQuery>,
) -> Result<Response, ErrorResponse> {
    let wait_ms = wait_ms(query.wait, 0)?;
    let run = service.agent_run_ids(id).await?;
    Ok(answer(service.agent_run(run, wait_ms).await?))
}

fn answer(run: AgentRun) -> Response {
    let is_over = run.cause.is_some() && run.receipt.is_some();
    let status = if is_over { StatusCode::OK } else { StatusCode::ACCEPTED };
    let headers = [(LOCATION.as_str(), run.links.own.clone()), (EXECUTION_ID, run.execution_id.clone())];
    (status, headers, Answer(run)).into_response()
}
