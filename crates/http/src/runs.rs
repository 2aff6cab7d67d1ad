//! `/api/sandbox/run`: one command in a sandbox of its own, bound to the connection.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pinfold_api::{EXECUTION_ID, RunRequest, SANDBOX_ID, ServerSentEvent};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Json, Query};
use super::output::stream;
use super::queue::{QueueParams, run_queued};
use super::route_groups::{Group, LARGE_BODY, LONG_TIMEOUT};
use pinfold_service::Service;
use pinfold_service::{AttachedRun, Caller, CreateOptions};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Operator, LONG_TIMEOUT).with_body_limit(LARGE_BODY).routes(routes!(run))]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunQuery {
    /// How long to wait in the queue when there is no capacity: seconds, or `30s`, `5m`.
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    queue: Option<String>,
    /// An id of your choice for the queue entry, to look it up while this request waits.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    queue_id: Option<String>,
}

/// Run a command in a sandbox of its own and stream its output as numbered events. The sandbox ends with the command.
/// It also ends when the connection closes (cause `caller_gone`) or the server stops.
#[utoipa::path(post, operation_id = "run", path = "/api/sandbox/run", tag = "executions", params(RunQuery), request_body = RunRequest,
    responses((status = 200, description = "An event stream",
        content((ServerSentEvent = "text/event-stream")),
        headers(
            ("X-Sandbox-Id" = String, description = "The sandbox id"),
            ("X-Execution-Id" = String, description = "The execution id")))))]
async fn run(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<RunQuery>,
    Json(request): Json<RunRequest>,
) -> Result<Response, ErrorResponse> {
    let params = QueueParams { queue: query.queue.as_deref(), queue_id: query.queue_id.as_deref() };
    let queue = params.parse(&service)?;
    let running = service.clone();
    let attached = run_queued(&service, queue, async move {
        let options = CreateOptions { caller: Some(&caller), key: None, queue };
        running.run(request, options).await
    });
    let AttachedRun { sandbox, execution, events } = attached.await?;
    let headers = [(SANDBOX_ID, sandbox.to_string()), (EXECUTION_ID, execution.to_string())];
    Ok((headers, stream(events)).into_response())
}
