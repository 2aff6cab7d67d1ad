//! `/api/sandbox/run`: one command in a sandbox of its own, for as long as the connection.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pinfold_api::{EXECUTION_ID, RunRequest, SANDBOX_ID, ServerSentEvent};
use pinfold_store::Role;
use utoipa_axum::routes;

use super::extract::Json;
use super::groups::{Group, QUICK};
use super::output::stream;
use super::sandboxes::seen_through;
use crate::service::Attached;
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Operator, QUICK).routes(routes!(run))]
}

/// Run a command in a sandbox of its own, and follow it as a stream of numbered events. The sandbox ends with the
/// command. It also ends when this connection is closed before, with the cause `caller_gone`, and with the server.
#[utoipa::path(post, operation_id = "run", path = "/api/sandbox/run", tag = "executions", request_body = RunRequest,
    responses((status = 200, description = "Its events follow",
        content((ServerSentEvent = "text/event-stream")),
        headers(
            ("X-Sandbox-Id" = String, description = "The sandbox"),
            ("X-Execution-Id" = String, description = "The execution")))))]
async fn run(
    State(service): State<Arc<Service>>,
    Json(request): Json<RunRequest>,
) -> Result<Response, Failure> {
    let attached = seen_through(async move { service.run(request).await }).await?;
    let Attached { sandbox, execution, events } = attached;
    let headers = [(SANDBOX_ID, sandbox.to_string()), (EXECUTION_ID, execution.to_string())];
    Ok((headers, stream(events)).into_response())
}
