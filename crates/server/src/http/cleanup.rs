//! `/api/sandbox/cleanup`: now, in an emergency, what it came to, and when it is due.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupTurn};
use pinfold_engine::How;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::{Query, flag, number};
use super::groups::{Group, PATIENT, QUICK};
use super::paging::limit;
use super::sandboxes::seen_through;
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Admin, PATIENT).routes(routes!(cleanup)).routes(routes!(emergency)),
        Group::of(Role::Operator, QUICK).routes(routes!(runs)).routes(routes!(schedule)),
    ]
}

fn how(dry_run: bool) -> How {
    if dry_run { How::DryRun } else { How::Act }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CleanupQuery {
    /// Only say what would be done.
    #[serde(default, deserialize_with = "flag")]
    dry_run: bool,
    /// By which means, by default `scheduled`. An emergency has a request of its own.
    layer: Option<CleanupLayer>,
}

/// End what is stuck, or say what is.
#[utoipa::path(post, operation_id = "clean_up", path = "/api/sandbox/cleanup", tag = "server", params(CleanupQuery),
    responses((status = 200, description = "What was found and what became of it", body = CleanupResult)))]
async fn cleanup(
    State(service): State<Arc<Service>>,
    Query(query): Query<CleanupQuery>,
) -> Result<Answer<CleanupResult>, Failure> {
    let layer = query.layer.unwrap_or(CleanupLayer::Scheduled);
    if layer == CleanupLayer::Emergency {
        let why = "an emergency is asked for at `/api/sandbox/cleanup/emergency`";
        return Err(Failure::bad_input("layer", why));
    }
    seen_through(async move { service.clean_up(layer, how(query.dry_run)).await }).await.map(Answer)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EmergencyQuery {
    /// Only say what would be ended, and what kept.
    #[serde(default, deserialize_with = "flag")]
    dry_run: bool,
}

/// End every sandbox at once that is not critical.
#[utoipa::path(post, operation_id = "clean_up_in_emergency", path = "/api/sandbox/cleanup/emergency", tag = "server",
    params(EmergencyQuery),
    responses((status = 200, description = "What was ended, and what was kept and why", body = CleanupResult)))]
async fn emergency(
    State(service): State<Arc<Service>>,
    Query(query): Query<EmergencyQuery>,
) -> Result<Answer<CleanupResult>, Failure> {
    let how = how(query.dry_run);
    seen_through(async move { service.clean_up(CleanupLayer::Emergency, how).await }).await.map(Answer)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunsQuery {
    /// Only of this layer.
    layer: Option<CleanupLayer>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// What the last cleanups came to.
#[utoipa::path(get, operation_id = "list_cleanup_runs", path = "/api/sandbox/cleanup/runs", tag = "server",
    params(RunsQuery), responses((status = 200, description = "The newest first", body = Vec<CleanupRun>)))]
async fn runs(
    State(service): State<Arc<Service>>,
    Query(query): Query<RunsQuery>,
) -> Result<Answer<Vec<CleanupRun>>, Failure> {
    service.cleanup_runs(query.layer, limit(query.limit)?).await.map(Answer)
}

/// When each layer of cleanup is due, who is at it, and what it came to last.
#[utoipa::path(get, operation_id = "show_cleanup_schedule", path = "/api/sandbox/cleanup/schedule", tag = "server",
    responses((status = 200, description = "As of now", body = Vec<CleanupTurn>)))]
async fn schedule(State(service): State<Arc<Service>>) -> Result<Answer<Vec<CleanupTurn>>, Failure> {
    service.cleanup_schedule().await.map(Answer)
}
