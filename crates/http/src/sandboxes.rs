//! `/api/sandbox`: create, list, show, wait for and stop sandboxes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as Answer};
use opentelemetry::context::FutureExt as _;
use pinfold_api::{
    CreatePending, CreateSandbox, IDEMPOTENCY_KEY, NEXT_CURSOR, Receipt, Resources, Sandbox, SandboxSummary,
    Stats, StopPending,
};
use pinfold_lifecycle::SandboxId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Id, Json, Query, flag, number};
use super::paging::limit;
use super::queue::{QueueParams, run_queued};
use super::route_groups::{Group, LARGE_BODY, LONG_TIMEOUT, LONGEST_WAIT_S, SHORT_TIMEOUT};
use pinfold_service::{Caller, CreateOptions, CreateOutcome, SandboxQuery, StopResult, WaitFor};
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, SHORT_TIMEOUT)
            .routes(routes!(list))
            .routes(routes!(stats))
            .routes(routes!(show))
            .routes(routes!(resources)),
        Group::of(Role::Viewer, LONG_TIMEOUT).routes(routes!(wait)),
        Group::of(Role::Operator, LONG_TIMEOUT)
            .with_body_limit(LARGE_BODY)
            .with_idempotency_keys()
            .routes(routes!(create)),
        Group::of(Role::Operator, LONG_TIMEOUT).routes(routes!(stop)),
    ]
}

const START_WAIT_S: u64 = 60;
const STOP_WAIT_S: u64 = 30;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `Id`")]
pub(super) struct SandboxPath {
    /// The sandbox id.
    #[param(pattern = "^sbx_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

/// A `wait` parameter in milliseconds, within the longest wait.
pub(super) fn wait_ms(asked: Option<u64>, otherwise: u64) -> Result<u64, Failure> {
    match asked.unwrap_or(otherwise) {
        seconds if seconds <= LONGEST_WAIT_S => Ok(seconds * 1_000),
        _ => Err(Failure::bad_input("wait", format!("0 to {LONGEST_WAIT_S} seconds are allowed"))),
    }
}

/// The `Idempotency-Key` header.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (first, second) = (given.next(), given.next());
    if second.is_some() {
        return Err(Failure::bad_input(IDEMPOTENCY_KEY, "is given more than once; send one key"));
    }
    let first = first.map(|key| key.to_str().map(str::to_owned));
    first.transpose().map_err(|error| Failure::bad_input(IDEMPOTENCY_KEY, error))
}

/// Runs work to its end even if the client disconnects.
pub(super) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(work.with_current_context()).await.unwrap_or_else(|error| Err(Failure::internal(error)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CreateQuery {
    /// Seconds to wait until the sandbox is ready.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
    /// How long to wait in the queue when there is no capacity: seconds, or `30s`, `5m`. With `wait=0` the answer has
    /// the queue entry and does not wait.
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    queue: Option<String>,
    /// An id of your choice for the queue entry, to look it up while this request waits.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    queue_id: Option<String>,
}

/// Create a sandbox and wait until it is ready.
#[utoipa::path(post, operation_id = "create_sandbox", path = "/api/sandbox", tag = "sandboxes",
    params(CreateQuery, ("Idempotency-Key" = Option<String>, Header,
        description = "The same key with the same request returns the same sandbox, for a day or the configured time")),
    request_body = CreateSandbox,
    responses(
        (status = 201, description = "Ready", body = Sandbox),
        (status = 200, description = "A repeated request whose sandbox has ended since", body = Sandbox),
        (status = 202, description = "Starting, or waiting in the queue; `Location` is its URL",
            body = CreatePending)))]
async fn create(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<CreateQuery>,
    headers: HeaderMap,
    Json(request): Json<CreateSandbox>,
) -> Result<Response, ErrorResponse> {
    let wait_ms = wait_ms(query.wait, START_WAIT_S)?;
    let key = idempotency_key(&headers)?;
    let params = QueueParams { queue: query.queue.as_deref(), queue_id: query.queue_id.as_deref() };
    let made = match params.parse(&service)? {
        Some(queue) if wait_ms == 0 => service.create_or_queue(request, (caller, key, queue)).await?,
        queue => {
            let creating = service.clone();
            let made = run_queued(&service, queue, async move {
                let options = CreateOptions { caller: Some(&caller), key: key.as_deref(), queue };
                creating.create(&request, options, wait_ms).await
            });
            made.await?
        }
    };
    Ok(match made {
        CreateOutcome::Ready(sandbox) => {
            let location = [(LOCATION, sandbox.links.own.clone())];
            (StatusCode::CREATED, location, Answer(sandbox)).into_response()
        }
        CreateOutcome::Ended(sandbox) => {
            let location = [(LOCATION, sandbox.links.own.clone())];
            (StatusCode::OK, location, Answer(sandbox)).into_response()
        }
        CreateOutcome::Pending(sandbox) => {
            let location = [(LOCATION, sandbox.links.own.clone())];
            (StatusCode::ACCEPTED, location, Answer(CreatePending::Starting(sandbox))).into_response()
        }
        CreateOutcome::Queued(place) => {
            let location = [(LOCATION, place.location.clone())];
            (StatusCode::ACCEPTED, location, Answer(CreatePending::Queued(place))).into_response()
        }
    })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SandboxListQuery {
    /// A state, or `all`. Default: all that have not ended.
    status: Option<String>,
    agent_type: Option<String>,
    task_id: Option<String>,
    /// `NAME=VALUE`; may be repeated.
    #[serde(default)]
    label: Vec<String>,
    /// The cursor of the page, from `X-Next-Cursor`.
    #[param(pattern = "^sbx_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    cursor: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// List sandboxes.
#[utoipa::path(get, operation_id = "list_sandboxes", path = "/api/sandbox/list", tag = "sandboxes", params(SandboxListQuery),
    responses((status = 200, description = "Oldest first", body = Vec<SandboxSummary>,
        headers(("X-Next-Cursor" = String, description = "The cursor of the next page, if there is one")))))]
async fn list(
    State(service): State<Arc<Service>>,
    Query(query): Query<SandboxListQuery>,
) -> Result<Response, ErrorResponse> {
    let limit = limit(query.limit)?;
    let after = query.cursor.as_deref().map(str::parse::<SandboxId>).transpose();
    let after = after.map_err(|error| Failure::bad_input("cursor", error))?;
    let labels = query.label.iter().map(|given| label(given)).collect::<Result<_, _>>()?;
    let filter =
        SandboxQuery { status: query.status, agent_type: query.agent_type, labels, task_id: query.task_id };
    let page = service.list(&filter, after, limit).await?;
    let next = page.next.map(|id| [(NEXT_CURSOR, id.to_string())]);
    Ok((next, Answer(page.sandboxes)).into_response())
}

fn label(given: &str) -> Result<(String, String), Failure> {
    let pair = given.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| Failure::bad_input("label", format!("`{given}` is not NAME=VALUE")))
}

/// Totals over all sandboxes.
#[utoipa::path(get, operation_id = "sandbox_stats", path = "/api/sandbox/stats", tag = "sandboxes",
    responses((status = 200, description = "Current state", body = Stats)))]
async fn stats(State(service): State<Arc<Service>>) -> Result<Answer<Stats>, ErrorResponse> {
    Ok(Answer(service.stats().await?))
}

/// Show one sandbox in full, also after its end.
#[utoipa::path(get, operation_id = "get_sandbox", path = "/api/sandbox/{id}", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "Current state", body = Sandbox)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
) -> Result<Answer<Sandbox>, ErrorResponse> {
    Ok(Answer(service.sandbox(id).await?))
}

/// Measure the resource usage of a sandbox.
#[utoipa::path(get, operation_id = "sandbox_resources", path = "/api/sandbox/{id}/resources", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "Current usage, or the total after its end", body = Resources)))]
async fn resources(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
) -> Result<Answer<Resources>, ErrorResponse> {
    Ok(Answer(service.resources(id).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StateWaitQuery {
    /// A state, or `gone`. A running sandbox counts as ready.
    state: String,
    /// Seconds to wait.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// Wait until a sandbox is in a state.
#[utoipa::path(get, operation_id = "wait_for_sandbox", path = "/api/sandbox/{id}/wait", tag = "sandboxes", params(SandboxPath, StateWaitQuery),
    responses(
        (status = 200, description = "The state is reached", body = Sandbox),
        (status = 202, description = "Not reached within the wait", body = Sandbox)))]
async fn wait(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<StateWaitQuery>,
) -> Result<Response, ErrorResponse> {
    let wait_ms = wait_ms(query.wait, STOP_WAIT_S)?;
    Ok(match service.wait(id, WaitFor::parse(&query.state)?, wait_ms).await? {
        Some(sandbox) => Answer(sandbox).into_response(),
        None => (StatusCode::ACCEPTED, Answer(service.sandbox(id).await?)).into_response(),
    })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StopQuery {
    /// Kill its processes at once, without the grace period.
    #[serde(default, deserialize_with = "flag")]
    force: bool,
    /// Seconds to wait for the proof.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
    /// Also remove its record once it is proven gone.
    #[serde(default, deserialize_with = "flag")]
    forget: bool,
    /// Attest that a quarantined instance is gone, where no observation can prove it. The attestation is recorded
    /// with your token's name and the reason.
    #[serde(default, deserialize_with = "flag")]
    attest: bool,
    /// The reason of the attestation.
    #[param(min_length = 1, max_length = 1000)]
    reason: Option<String>,
}

const LONGEST_REASON: usize = 1_000;

impl StopQuery {
    /// The reason of an attestation, if one is requested.
    fn attestation_reason(&self) -> Result<Option<String>, Failure> {
        let bad = |why: &str| Err(Failure::bad_input("reason", why));
        match (self.attest, &self.reason) {
            (false, None) => Ok(None),
            (false, Some(_)) => bad("`reason` requires `attest=true`"),
            (true, Some(reason)) if (1..=LONGEST_REASON).contains(&reason.chars().count()) => {
                Ok(Some(reason.clone()))
            }
            (true, _) => bad("`attest` requires a reason of 1 to 1000 characters"),
        }
    }
}

/// Stop a sandbox and wait for the proof that it is gone. A repeated request returns the same receipt.
#[utoipa::path(delete, operation_id = "stop_sandbox", path = "/api/sandbox/{id}", tag = "sandboxes", params(SandboxPath, StopQuery),
    responses(
        (status = 200, description = "Proven gone", body = Receipt),
        (status = 202, description = "Being stopped; `location` is its URL", body = StopPending)))]
async fn stop(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<StopQuery>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ErrorResponse> {
    let wait_ms = wait_ms(query.wait, STOP_WAIT_S)?;
    let attested = query.attestation_reason()?;
    let stopped = run_to_completion(async move {
        if let Some(reason) = attested {
            service.attest(id, &caller, reason).await?;
        }
        if query.forget {
            service.forget(id, query.force, wait_ms).await
        } else {
            service.stop(id, query.force, wait_ms).await
        }
    });
    Ok(match stopped.await? {
        StopResult::Gone(receipt) => Answer(receipt).into_response(),
        StopResult::Pending(pending) => {
            (StatusCode::ACCEPTED, [(LOCATION, pending.location.clone())], Answer(pending)).into_response()
        }
    })
}
