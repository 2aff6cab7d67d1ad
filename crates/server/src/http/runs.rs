//! `/api/sandbox/run`: one command in a sandbox of its own, for as long as the connection.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pinfold_api::{EXECUTION_ID, RunRequest, SANDBOX_ID, ServerSentEvent};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::{Json, Query};
use super::groups::{Group, LARGE_BODY, PATIENT};
use super::output::stream;
use super::queue::{LeavesWithCaller, Queueing};
use super::sandboxes::seen_through;
use crate::service::{Asking, Attached, Caller};
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Operator, PATIENT).with_bodies(LARGE_BODY).routes(routes!(run))]
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunQuery {
    /// Where there is no room, how long to wait for it in the queue: seconds, or such as `30s`, `5m`.
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    queue: Option<String>,
    /// An id of your own for the place in the queue, so that you can look at it while this waits.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    ticket: Option<String>,
}

/// Run a command in a sandbox of its own, and follow it as a stream of numbered events. The sandbox ends with the
/// command. It also ends when this connection is closed before, with the cause `caller_gone`, and with the server.
#[utoipa::path(post, operation_id = "run", path = "/api/sandbox/run", tag = "executions", params(RunQuery), request_body = RunRequest,
    responses((status = 200, description = "Its events follow",
        content((ServerSentEvent = "text/event-stream")),
        headers(
            ("X-Sandbox-Id" = String, description = "The sandbox"),
            ("X-Execution-Id" = String, description = "The execution")))))]
async fn run(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<RunQuery>,
    Json(request): Json<RunRequest>,
) -> Result<Response, Failure> {
    let queueing = Queueing { queue: query.queue.as_deref(), ticket: query.ticket.as_deref() };
    let queue = queueing.ask(&service)?;
    let leaving = LeavesWithCaller::of(&service, queue);
    let attached = seen_through(async move {
        let asking = Asking { caller: Some(&caller), key: None, queue };
        service.run(request, asking).await
    });
    let attached = attached.await;
    leaving.answered();
    let Attached { sandbox, execution, events } = attached?;
    let headers = [(SANDBOX_ID, sandbox.to_string()), (EXECUTION_ID, execution.to_string())];
    Ok((headers, stream(events)).into_response())
}
