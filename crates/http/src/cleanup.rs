//! `/api/sandbox/cleanup`: run a cleanup, list past runs, show the schedule.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupSchedule};
use pinfold_engine::CleanupMode;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Query, flag, number};
use super::paging::limit;
use super::route_groups::{Group, LONG_TIMEOUT, SHORT_TIMEOUT};
use super::sandboxes::run_to_completion;
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Admin, LONG_TIMEOUT).routes(routes!(cleanup)).routes(routes!(emergency)),
        Group::of(Role::Operator, SHORT_TIMEOUT).routes(routes!(runs)).routes(routes!(schedule)),
    ]
}

fn how(dry_run: bool) -> CleanupMode {
    if dry_run { CleanupMode::DryRun } else { CleanupMode::Act }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CleanupQuery {
    /// Only report what would be done.
    #[serde(default, deserialize_with = "flag")]
    dry_run: bool,
    /// The cleanup layer, by default `scheduled`. An emergency cleanup has its own path.
    layer: Option<CleanupLayer>,
}

/// Stop stuck sandboxes, or report them.
#[utoipa::path(post, operation_id = "clean_up", path = "/api/sandbox/cleanup", tag = "server", params(CleanupQuery),
    responses((status = 200, description = "What was found and done", body = CleanupResult)))]
async fn cleanup(
    State(service): State<Arc<Service>>,
    Query(query): Query<CleanupQuery>,
) -> Result<Answer<CleanupResult>, ErrorResponse> {
    let layer = query.layer.unwrap_or(CleanupLayer::Scheduled);
    if layer == CleanupLayer::Emergency {
        let why = "use `/api/sandbox/cleanup/emergency` for an emergency cleanup";
        return Err(Failure::bad_input("layer", why).into());
    }
    Ok(Answer(run_to_completion(async move { service.clean_up(layer, how(query.dry_run)).await }).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EmergencyQuery {
    /// Only report what would be stopped and kept.
    #[serde(default, deserialize_with = "flag")]
    dry_run: bool,
}

/// Stop every sandbox that is not critical.
#[utoipa::path(post, operation_id = "clean_up_in_emergency", path = "/api/sandbox/cleanup/emergency", tag = "server",
    params(EmergencyQuery),
    responses((status = 200, description = "What was stopped, and what was kept and why", body = CleanupResult)))]
async fn emergency(
    State(service): State<Arc<Service>>,
    Query(query): Query<EmergencyQuery>,
) -> Result<Answer<CleanupResult>, ErrorResponse> {
    let how = how(query.dry_run);
    Ok(Answer(run_to_completion(async move { service.clean_up(CleanupLayer::Emergency, how).await }).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunsQuery {
    /// Only runs of this layer.
    layer: Option<CleanupLayer>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// List past cleanup runs.
#[utoipa::path(get, operation_id = "list_cleanup_runs", path = "/api/sandbox/cleanup/runs", tag = "server",
    params(RunsQuery), responses((status = 200, description = "Newest first", body = Vec<CleanupRun>)))]
async fn runs(
    State(service): State<Arc<Service>>,
    Query(query): Query<RunsQuery>,
) -> Result<Answer<Vec<CleanupRun>>, ErrorResponse> {
    Ok(Answer(service.cleanup_runs(query.layer, limit(query.limit)?).await?))
}

/// Show when each cleanup layer is due, which node runs it, and its last run.
#[utoipa::path(get, operation_id = "show_cleanup_schedule", path = "/api/sandbox/cleanup/schedule", tag = "server",
    responses((status = 200, description = "Current state", body = Vec<CleanupSchedule>)))]
async fn schedule(
    State(service): State<Arc<Service>>,
) -> Result<Answer<Vec<CleanupSchedule>>, ErrorResponse> {
    Ok(Answer(service.cleanup_schedule().await?))
}
