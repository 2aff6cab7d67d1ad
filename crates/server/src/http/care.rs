//! Looking after sandboxes: `…/probe`, `…/examine`, `…/touch`, `/api/sandbox/audit`, `/reconcile`, `/health`, and `/api/audit`.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use pinfold_api::{AuditPage, Comparison, Examination, Health, ProbeResult, Sandbox};
use pinfold_engine::Reconcile;
use pinfold_lifecycle::SandboxId;
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::{Id, Query, number};
use super::groups::{Group, PATIENT, QUICK};
use super::paging::limit;
use super::sandboxes::{SandboxPath, seen_through, wait_ms};
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, QUICK).routes(routes!(health)),
        Group::of(Role::Operator, QUICK).routes(routes!(probe)).routes(routes!(touch)),
        Group::of(Role::Operator, PATIENT)
            .routes(routes!(examine))
            .routes(routes!(compare))
            .routes(routes!(reconcile)),
        Group::of(Role::Admin, QUICK).routes(routes!(audit)),
    ]
}

/// Whether somebody has to see to something (`indicator`), whether the store and the host answer (`status`), what fires,
/// and what all sandboxes come to. What cannot be found out is `unknown` or null.
#[utoipa::path(get, operation_id = "health", path = "/api/sandbox/health", tag = "server",
    responses((status = 200, description = "As of now, well or not", body = Health)))]
async fn health(State(service): State<Arc<Service>>) -> Answer<Health> {
    Answer(service.health().await)
}

/// Try commands, files and control of a sandbox now.
#[utoipa::path(post, operation_id = "probe_sandbox", path = "/api/sandbox/{id}/probe", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "What it came to", body = ProbeResult)))]
async fn probe(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
) -> Result<Answer<ProbeResult>, Failure> {
    service.probe(id).await.map(Answer)
}

/// Look at a sandbox closely: what is recorded, what is due, each thing that can be tried without harm, and what to do.
#[utoipa::path(post, operation_id = "examine_sandbox", path = "/api/sandbox/{id}/examine", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "What was found", body = Examination)))]
async fn examine(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
) -> Result<Answer<Examination>, Failure> {
    service.examine(id).await.map(Answer)
}

/// Keep an idle sandbox: its idleness is counted anew. Its longest life stays what it is.
#[utoipa::path(post, operation_id = "touch_sandbox", path = "/api/sandbox/{id}/touch", tag = "sandboxes", params(SandboxPath),
    responses((status = 200, description = "As of now", body = Sandbox)))]
async fn touch(
    State(service): State<Arc<Service>>,
    Id(id): Id<SandboxId>,
) -> Result<Answer<Sandbox>, Failure> {
    seen_through(async move { service.touch(id).await }).await.map(Answer)
}

/// Compare what is recorded with what is there, and change nothing.
#[utoipa::path(post, operation_id = "audit_sandboxes", path = "/api/sandbox/audit", tag = "server",
    responses((status = 200, description = "What was found", body = Comparison)))]
async fn compare(State(service): State<Arc<Service>>) -> Result<Answer<Comparison>, Failure> {
    seen_through(async move { service.compare(Reconcile::DryRun).await }).await.map(Answer)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReconcileQuery {
    /// How many seconds to wait until all is proven to work or proven gone. Without it: none.
    #[param(maximum = 3600)]
    #[serde(default, deserialize_with = "number")]
    wait: Option<u64>,
}

/// Compare what is recorded with what is there, and repair the difference.
#[utoipa::path(post, operation_id = "reconcile_sandboxes", path = "/api/sandbox/reconcile", tag = "server", params(ReconcileQuery),
    responses((status = 200, description = "What was found, and is being repaired", body = Comparison)))]
async fn reconcile(
    State(service): State<Arc<Service>>,
    Query(query): Query<ReconcileQuery>,
) -> Result<Answer<Comparison>, Failure> {
    let wait_ms = wait_ms(query.wait, 0)?;
    seen_through(async move { service.reconcile(wait_ms).await }).await.map(Answer)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// The number of the last entry that was read.
    #[serde(default, deserialize_with = "number")]
    after: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// Who asked for what: every request that may have changed something, or was refused to its token.
#[utoipa::path(get, operation_id = "read_audit", path = "/api/audit", tag = "server", params(AuditQuery),
    responses((status = 200, description = "The oldest first", body = AuditPage)))]
async fn audit(
    State(service): State<Arc<Service>>,
    Query(query): Query<AuditQuery>,
) -> Result<Answer<AuditPage>, Failure> {
    service.audit(query.after.unwrap_or(0), limit(query.limit)?).await.map(Answer)
}
