//! Admin operations: `…/probe`, `…/examine`, `…/touch`, `/api/sandbox/audit`, `/reconcile`, `/health`, and
//! `/api/audit`.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use pinfold_api::{AuditPage, ConsistencyReport, Examination, Health, ProbeResult, Sandbox};
use pinfold_engine::ReconcileMode;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Query, SandboxRef, number};
use super::paging::limit;
use super::route_groups::{Group, LONG_TIMEOUT, SHORT_TIMEOUT};
use super::sandboxes::{SandboxPath, run_to_completion, wait_ms};
use pinfold_service::Service;

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, SHORT_TIMEOUT).routes(routes!(health)),
        Group::of(Role::Operator, SHORT_TIMEOUT).routes(routes!(probe)).routes(routes!(touch)),
        Group::of(Role::Operator, LONG_TIMEOUT)
            .routes(routes!(examine))
            .routes(routes!(compare))
            .routes(routes!(reconcile)),
        Group::of(Role::Admin, SHORT_TIMEOUT).routes(routes!(audit)),
    ]
}

/// Health: whether an operator needs to act (`indicator`), whether the store and the host answer (`status`), firing
/// alerts and totals. Unknown values are `unknown` or null.
#[utoipa::path(get, operation_id = "health", path = "/api/sandbox/health", tag = "server",
    responses((status = 200, description = "Current health", body = Health)))]
async fn health(State(service): State<Arc<Service>>) -> Answer<Health> {
    Answer(service.health().await)
}

/// Probe exec, files and control of a sandbox now.
#[utoipa::path(post, operation_id = "probe_sandbox", path = "/api/sandbox/{id}/probe", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "The result", body = ProbeResult)))]
async fn probe(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
) -> Result<Answer<ProbeResult>, ErrorResponse> {
    Ok(Answer(service.probe(id).await?))
}

/// Examine a sandbox: its record, deadlines, probes that do not change it, and diagnosed problems.
#[utoipa::path(post, operation_id = "examine_sandbox", path = "/api/sandbox/{id}/examine", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "The findings", body = Examination)))]
async fn examine(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
) -> Result<Answer<Examination>, ErrorResponse> {
    Ok(Answer(service.examine(id).await?))
}

/// Restart the idle timer of a sandbox. Its maximum life does not change.
#[utoipa::path(post, operation_id = "touch_sandbox", path = "/api/sandbox/{id}/touch", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "Current state", body = Sandbox)))]
async fn touch(
    State(service): State<Arc<Service>>,
    SandboxRef(id): SandboxRef,
) -> Result<Answer<Sandbox>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.touch(id).await }).await?))
}

/// Compare records with instances, and change nothing.
#[utoipa::path(post, operation_id = "audit_sandboxes", path = "/api/sandbox/audit", tag = "server",
    responses((status = 200, description = "The findings", body = ConsistencyReport)))]
async fn compare(State(service): State<Arc<Service>>) -> Result<Answer<ConsistencyReport>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.compare(ReconcileMode::DryRun).await }).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReconcileQuery {
    /// Seconds to wait until every sandbox is proven working or gone. Default: 0.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// Compare records with instances, and repair differences.
#[utoipa::path(post, operation_id = "reconcile_sandboxes", path = "/api/sandbox/reconcile", tag = "server", params(ReconcileQuery),
    responses((status = 200, description = "The findings, which are being repaired", body = ConsistencyReport)))]
async fn reconcile(
    State(service): State<Arc<Service>>,
    Query(query): Query<ReconcileQuery>,
) -> Result<Answer<ConsistencyReport>, ErrorResponse> {
    let wait_ms = wait_ms(query.wait, 0)?;
    Ok(Answer(run_to_completion(async move { service.reconcile(wait_ms).await }).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// The sequence number of the last entry that was read.
    #[serde(default, deserialize_with = "number")]
    after: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// Read the audit log: every request that could change something or was refused for its role.
#[utoipa::path(get, operation_id = "read_audit", path = "/api/audit", tag = "server", params(AuditQuery),
    responses((status = 200, description = "Oldest first", body = AuditPage)))]
async fn audit(
    State(service): State<Arc<Service>>,
    Query(query): Query<AuditQuery>,
) -> Result<Answer<AuditPage>, ErrorResponse> {
    Ok(Answer(service.audit_log(query.after.unwrap_or(0), limit(query.limit)?).await?))
}
