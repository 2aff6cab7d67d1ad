//! `/api/sandbox`: make, list, look at, wait for and end sandboxes.

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

use super::extract::{Id, Json, Query, flag, number};
use super::groups::{Group, LARGE_BODY, LONGEST_WAIT_S, PATIENT, QUICK};
use super::paging::limit;
use super::queue::{LeavesWithCaller, Queueing};
use crate::service::{Asking, Caller, Creation, Stopped, WaitFor, Wanted};
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, QUICK)
            .routes(routes!(list))
            .routes(routes!(stats))
            .routes(routes!(show))
            .routes(routes!(resources)),
        Group::of(Role::Viewer, PATIENT).routes(routes!(wait)),
        Group::of(Role::Operator, PATIENT).with_bodies(LARGE_BODY).routes(routes!(create)),
        Group::of(Role::Operator, PATIENT).routes(routes!(stop)),
    ]
}

const START_WAIT_S: u64 = 60;
const STOP_WAIT_S: u64 = 30;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Id` reads")]
pub(super) struct SandboxPath {
    /// The sandbox.
    #[param(pattern = "^sbx_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    id: String,
}

/// Seconds as milliseconds, within what a request may take.
pub(super) fn wait_ms(asked: Option<u64>, otherwise: u64) -> Result<u64, Failure> {
    match asked.unwrap_or(otherwise) {
        seconds if seconds <= LONGEST_WAIT_S => Ok(seconds * 1_000),
        _ => Err(Failure::bad_input("wait", format!("0 to {LONGEST_WAIT_S} seconds are allowed"))),
    }
}

/// The key by which a request can be repeated.
pub(super) fn given_key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let given = headers.get(IDEMPOTENCY_KEY).map(|key| key.to_str().map(str::to_owned));
    given.transpose().map_err(|error| Failure::bad_input(IDEMPOTENCY_KEY, error))
}

/// Work that is seen through also when whoever asked for it has gone.
pub(super) async fn seen_through<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(work.with_current_context()).await.unwrap_or_else(|error| Err(Failure::internal(error)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CreateQuery {
    /// How many seconds to wait until it is ready.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
    /// Where there is no room, how long to wait for it in the queue: seconds, or such as `30s`, `5m`. With `wait=0` the
    /// answer says which place it has, and does not wait.
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    queue: Option<String>,
    /// An id of your own for the place in the queue, so that you can look at it while this waits.
    #[param(pattern = "^que_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    ticket: Option<String>,
}

/// Make a sandbox, and wait until it is ready.
#[utoipa::path(post, operation_id = "create_sandbox", path = "/api/sandbox", tag = "sandboxes",
    params(CreateQuery, ("Idempotency-Key" = Option<String>, Header,
        description = "The same key with the same wish gives the same sandbox for a day, or for as long as the server is told to remember it")),
    request_body = CreateSandbox,
    responses(
        (status = 201, description = "It is ready", body = Sandbox),
        (status = 202, description = "It is being made, or waits for room; `Location` says where to look",
            body = CreatePending)))]
async fn create(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<CreateQuery>,
    headers: HeaderMap,
    Json(wish): Json<CreateSandbox>,
) -> Result<Response, Failure> {
    let wait_ms = wait_ms(query.wait, START_WAIT_S)?;
    let key = given_key(&headers)?;
    let queueing = Queueing { queue: query.queue.as_deref(), ticket: query.ticket.as_deref() };
    let made = match queueing.ask(&service)? {
        Some(queue) if wait_ms == 0 => service.create_or_queue(wish, (caller, key, queue)).await?,
        queue => {
            let leaving = LeavesWithCaller::of(&service, queue);
            let made = seen_through(async move {
                let asking = Asking { caller: Some(&caller), key: key.as_deref(), queue };
                service.create(&wish, asking, wait_ms).await
            });
            let made = made.await;
            leaving.answered();
            made?
        }
    };
    Ok(match made {
        Creation::Ready(sandbox) => {
            let location = [(LOCATION, sandbox.links.own.clone())];
            (StatusCode::CREATED, location, Answer(sandbox)).into_response()
        }
        Creation::Pending(sandbox) => {
            let location = [(LOCATION, sandbox.links.own.clone())];
            (StatusCode::ACCEPTED, location, Answer(CreatePending::Starting(sandbox))).into_response()
        }
        Creation::Queued(place) => {
            let location = [(LOCATION, place.location.clone())];
            (StatusCode::ACCEPTED, location, Answer(CreatePending::Queued(place))).into_response()
        }
    })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// A state, or `all`. Without it: what has not ended.
    status: Option<String>,
    agent_type: Option<String>,
    task_id: Option<String>,
    /// `NAME=VALUE`; may be given again.
    #[serde(default)]
    label: Vec<String>,
    /// Where the page begins: what `X-Next-Cursor` said.
    #[param(pattern = "^sbx_[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    cursor: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// List sandboxes.
#[utoipa::path(get, operation_id = "list_sandboxes", path = "/api/sandbox/list", tag = "sandboxes", params(ListQuery),
    responses((status = 200, description = "In the order of their making", body = Vec<SandboxSummary>,
        headers(("X-Next-Cursor" = String, description = "Where the next page begins, if there is one")))))]
async fn list(
    State(service): State<Arc<Service>>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    let limit = limit(query.limit)?;
    let after = query.cursor.as_deref().map(str::parse::<SandboxId>).transpose();
    let after = after.map_err(|error| Failure::bad_input("cursor", error))?;
    let labels = query.label.iter().map(|given| label(given)).collect::<Result<_, _>>()?;
    let wanted =
        Wanted { status: query.status, agent_type: query.agent_type, labels, task_id: query.task_id };
    let page = service.list(&wanted, after, limit).await?;
    let next = page.next.map(|id| [(NEXT_CURSOR, id.to_string())]);
    Ok((next, Answer(page.sandboxes)).into_response())
}

fn label(given: &str) -> Result<(String, String), Failure> {
    let pair = given.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| Failure::bad_input("label", format!("`{given}` is not NAME=VALUE")))
}

/// What all sandboxes come to.
#[utoipa::path(get, operation_id = "sandbox_stats", path = "/api/sandbox/stats", tag = "sandboxes",
    responses((status = 200, description = "As of now", body = Stats)))]
async fn stats(State(service): State<Arc<Service>>) -> Result<Answer<Stats>, Failure> {
    service.stats().await.map(Answer)
}

/// Everything about one sandbox, also after its end.
#[utoipa::path(get, operation_id = "get_sandbox", path = "/api/sandbox/{id}", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "As of now", body = Sandbox)))]
async fn show(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
) -> Result<Answer<Sandbox>, Failure> {
    service.sandbox(id).await.map(Answer)
}

/// What a sandbox uses, measured now.
#[utoipa::path(get, operation_id = "sandbox_resources", path = "/api/sandbox/{id}/resources", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "Measured from its processes, or what they used in all", body = Resources)))]
async fn resources(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
) -> Result<Answer<Resources>, Failure> {
    service.resources(id).await.map(Answer)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WaitQuery {
    /// A state, or `gone`. What has become ready counts as ready while it works.
    state: String,
    /// How many seconds to wait.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// Wait until a sandbox is in a state.
#[utoipa::path(get, operation_id = "wait_for_sandbox", path = "/api/sandbox/{id}/wait", tag = "sandboxes", params(SandboxPath, WaitQuery),
    responses(
        (status = 200, description = "It is", body = Sandbox),
        (status = 202, description = "It is not yet", body = Sandbox)))]
async fn wait(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<WaitQuery>,
) -> Result<Response, Failure> {
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
    /// End it at once instead of asking its processes first.
    #[serde(default, deserialize_with = "flag")]
    force: bool,
    /// How many seconds to wait for the proof.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
    /// Forget its record, too, once it is proven gone.
    #[serde(default, deserialize_with = "flag")]
    forget: bool,
    /// Give your word that a quarantined body is gone, where no look can prove it. It is recorded, with your token's
    /// name and the reason.
    #[serde(default, deserialize_with = "flag")]
    attest: bool,
    /// Why you can give it.
    #[param(min_length = 1, max_length = 1000)]
    reason: Option<String>,
}

const LONGEST_REASON: usize = 1_000;

impl StopQuery {
    /// The reason, where somebody gives their word.
    fn attested(&self) -> Result<Option<String>, Failure> {
        let bad = |why: &str| Err(Failure::bad_input("reason", why));
        match (self.attest, &self.reason) {
            (false, None) => Ok(None),
            (false, Some(_)) => bad("it is for `attest`"),
            (true, Some(reason)) if (1..=LONGEST_REASON).contains(&reason.chars().count()) => {
                Ok(Some(reason.clone()))
            }
            (true, _) => bad("say why you can give your word, in 1 to 1000 characters"),
        }
    }
}

/// End a sandbox, and wait for the proof that it is gone. Asking again gives the same receipt.
#[utoipa::path(delete, operation_id = "stop_sandbox", path = "/api/sandbox/{id}", tag = "sandboxes", params(SandboxPath, StopQuery),
    responses(
        (status = 200, description = "It is proven gone", body = Receipt),
        (status = 202, description = "It is being ended; `location` says where to look", body = StopPending)))]
async fn stop(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
    Query(query): Query<StopQuery>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Failure> {
    let wait_ms = wait_ms(query.wait, STOP_WAIT_S)?;
    let attested = query.attested()?;
    let stopped = seen_through(async move {
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
        Stopped::Gone(receipt) => Answer(receipt).into_response(),
        Stopped::Pending(pending) => {
            (StatusCode::ACCEPTED, [(LOCATION, pending.location.clone())], Answer(pending)).into_response()
        }
    })
}
