//! `/api/alerts`: how alerts stand, what happened, who was told; to acknowledge, to silence, and to test.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::{Extension, Json as Answer};
use pinfold_api::{Alert, AlertDeliveries, AlertHistory, AlertList, AlertState, AlertTest, SilenceAlert};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::{Json, Query, number, part_of_path};
use super::groups::{Group, QUICK};
use super::paging::limit;
use super::sandboxes::seen_through;
use crate::service::Caller;
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, QUICK)
            .routes(routes!(list))
            .routes(routes!(history))
            .routes(routes!(deliveries)),
        Group::of(Role::Operator, QUICK).routes(routes!(acknowledge)).routes(routes!(silence, unsilence)),
        Group::of(Role::Admin, QUICK).routes(routes!(test)),
    ]
}

/// The part of the path that is called `alert`.
struct Name(String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        part_of_path(parts, state, "alert").await.map(Self)
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `Name` reads")]
struct AlertPath {
    /// Its name.
    #[param(pattern = "^[a-z_]{1,64}$")]
    alert: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those in this state.
    #[param(inline)]
    state: Option<AlertState>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HistoryQuery {
    /// Of this alert alone.
    name: Option<String>,
    /// What `next` said.
    #[serde(default, deserialize_with = "number")]
    before: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DeliveriesQuery {
    /// What `next` said.
    #[serde(default, deserialize_with = "number")]
    before: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// How every alert stands.
#[utoipa::path(get, operation_id = "list_alerts", path = "/api/alerts", tag = "alerts", params(ListQuery),
    responses((status = 200, description = "As of the last look", body = AlertList)))]
async fn list(
    State(service): State<Arc<Service>>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<AlertList>, Failure> {
    service.alerts(query.state).await.map(Answer)
}

/// What happened to alerts.
#[utoipa::path(get, operation_id = "read_alert_history", path = "/api/alerts/history", tag = "alerts", params(HistoryQuery),
    responses((status = 200, description = "The latest first", body = AlertHistory)))]
async fn history(
    State(service): State<Arc<Service>>,
    Query(query): Query<HistoryQuery>,
) -> Result<Answer<AlertHistory>, Failure> {
    let limit = limit(query.limit)?;
    service.alert_history(query.name.as_deref(), query.before, limit).await.map(Answer)
}

/// Who was told what, and what came of it.
#[utoipa::path(get, operation_id = "read_alert_deliveries", path = "/api/alerts/deliveries", tag = "alerts", params(DeliveriesQuery),
    responses((status = 200, description = "The latest first", body = AlertDeliveries)))]
async fn deliveries(
    State(service): State<Arc<Service>>,
    Query(query): Query<DeliveriesQuery>,
) -> Result<Answer<AlertDeliveries>, Failure> {
    service.alert_deliveries(query.before, limit(query.limit)?).await.map(Answer)
}

/// See to an alert that fires: nobody else is called about this firing.
#[utoipa::path(post, operation_id = "acknowledge_alert", path = "/api/alerts/{alert}/acknowledge", tag = "alerts", params(AlertPath),
    responses((status = 200, description = "As it stands now", body = Alert)))]
async fn acknowledge(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Name(name): Name,
) -> Result<Answer<Alert>, Failure> {
    seen_through(async move { service.acknowledge_alert(&name, &caller.name).await }).await.map(Answer)
}

/// Call nobody about an alert before a moment.
#[utoipa::path(post, operation_id = "silence_alert", path = "/api/alerts/{alert}/silence", tag = "alerts", params(AlertPath),
    request_body = SilenceAlert, responses((status = 200, description = "As it stands now", body = Alert)))]
async fn silence(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Name(name): Name,
    Json(asked): Json<SilenceAlert>,
) -> Result<Answer<Alert>, Failure> {
    seen_through(async move { service.silence_alert(&name, &asked, &caller.name).await }).await.map(Answer)
}

/// Call somebody about an alert again.
#[utoipa::path(delete, operation_id = "unsilence_alert", path = "/api/alerts/{alert}/silence", tag = "alerts", params(AlertPath),
    responses((status = 200, description = "As it stands now", body = Alert)))]
async fn unsilence(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Name(name): Name,
) -> Result<Answer<Alert>, Failure> {
    seen_through(async move { service.unsilence_alert(&name, &caller.name).await }).await.map(Answer)
}

/// Send a test message by every way that is configured.
#[utoipa::path(post, operation_id = "test_alerts", path = "/api/alerts/test", tag = "alerts",
    responses((status = 200, description = "What came of each", body = AlertTest)))]
async fn test(State(service): State<Arc<Service>>) -> Result<Answer<AlertTest>, Failure> {
    seen_through(async move { Ok(service.test_alerts().await) }).await.map(Answer)
}
