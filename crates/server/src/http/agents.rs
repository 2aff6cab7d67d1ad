//! `/api/agents`: a command of an agent from its wish to its receipt, in one request or in several.

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

use super::extract::{Id, Json, Query, number};
use super::groups::{Group, LARGE_BODY, PATIENT};
use super::queue::{LeavesWithCaller, Queueing};
use super::sandboxes::{given_key, seen_through, wait_ms};
use crate::service::{Asking, Caller};
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, PATIENT).routes(routes!(show)),
        Group::of(Role::Operator, PATIENT).with_bodies(LARGE_BODY).routes(routes!(execute)),
    ]
}

/// Longer than any type of agent may take by itself.
const RUN_WAIT_S: u64 = 3_600;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Id` reads")]
struct RunPath {
    /// The execution of the run.
    #[param(pattern = "^exe_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunQuery {
    /// How many seconds to wait until it has ended and its sandbox is gone.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExecuteQuery {
    /// How many seconds to wait until it has ended and its sandbox is gone.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
    /// Where there is no room, how long to wait for it in the queue: seconds, or such as `30s`, `5m`. Without it, as
    /// long as `wait` and 30 seconds at the most. The answer comes when it is let in, whatever `wait` says.
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    queue: Option<String>,
    /// An id of your own for the place in the queue, so that you can look at it while this waits.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    ticket: Option<String>,
}

/// Run a command of an agent in a sandbox of its own: queue, provision, put its files, execute, collect its artifacts,
/// clean up. Where the sandbox fails it is tried again, three times in all, each time in a new one.
#[utoipa::path(post, operation_id = "execute_agent", path = "/api/agents/execute", tag = "agents",
    params(ExecuteQuery, ("Idempotency-Key" = Option<String>, Header,
        description = "The same key with the same wish gives the same run for a day, or for as long as the server is told to remember it")),
    request_body = AgentRequest,
    responses(
        (status = 200, description = "It has ended, and its sandbox is proven gone", body = AgentRun),
        (status = 202, description = "It goes on; `Location` says where to look", body = AgentRun)))]
async fn execute(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ExecuteQuery>,
    headers: HeaderMap,
    Json(request): Json<AgentRequest>,
) -> Result<Response, Failure> {
    let began = service.now();
    let wait_ms = wait_ms(query.wait, RUN_WAIT_S)?;
    let key = given_key(&headers)?;
    let queueing = Queueing { queue: query.queue.as_deref(), ticket: query.ticket.as_deref() };
    let queue = queueing.ask(&service)?;
    let (asked, leaving) = (service.clone(), LeavesWithCaller::of(&service, queue));
    let run = seen_through(async move {
        let asking = Asking { caller: Some(&caller), key: key.as_deref(), queue };
        asked.run_agent(&request, asking, wait_ms).await
    });
    let run = run.await;
    leaving.answered();
    let run = run?;
    let left_ms = Asking::left_ms(wait_ms, service.now().ms_since(began));
    Ok(answer(service.agent_run(run, left_ms).await?))
}

/// A run as it stands, or once it has ended.
#[utoipa::path(get, operation_id = "get_agent_run", path = "/api/agents/runs/{id}", tag = "agents", params(RunPath, RunQuery),
    responses(
        (status = 200, description = "It has ended, and its sandbox is proven gone", body = AgentRun),
        (status = 202, description = "It goes on", body = AgentRun)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Query(query): Query<RunQuery>,
) -> Result<Response, Failure> {
    let wait_ms = wait_ms(query.wait, 0)?;
    let run = service.run_of(id).await?;
    Ok(answer(service.agent_run(run, wait_ms).await?))
}

fn answer(run: AgentRun) -> Response {
    let is_over = run.cause.is_some() && run.receipt.is_some();
    let status = if is_over { StatusCode::OK } else { StatusCode::ACCEPTED };
    let headers = [(LOCATION.as_str(), run.links.own.clone()), (EXECUTION_ID, run.execution_id.clone())];
    (status, headers, Answer(run)).into_response()
}
