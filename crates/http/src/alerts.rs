//! `/api/alerts`: states, history and deliveries; acknowledge, silence and test.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::{Extension, Json as Answer};
use pinfold_api::{Alert, AlertDeliveries, AlertHistory, AlertList, AlertState, AlertTest, SilenceAlert};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::error_response::ErrorResponse;
use super::extract::{Json, Query, number, path_param};
use super::paging::limit;
use super::route_groups::{Group, SHORT_TIMEOUT};
use super::sandboxes::run_to_completion;
use pinfold_service::Caller;
use pinfold_service::Service;

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, SHORT_TIMEOUT)
            .routes(routes!(list))
            .routes(routes!(history))
            .routes(routes!(deliveries)),
        Group::of(Role::Operator, SHORT_TIMEOUT)
            .routes(routes!(acknowledge))
            .routes(routes!(silence, unsilence)),
        Group::of(Role::Admin, SHORT_TIMEOUT).routes(routes!(test)),
    ]
}

/// The path parameter `alert`.
struct AlertName(String);

impl<S: Send + Sync> FromRequestParts<S> for AlertName {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Ok(path_param(parts, state, "alert").await.map(Self)?)
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents `AlertName`")]
struct AlertPath {
    /// The alert's name.
    #[param(pattern = "^[a-z_]{1,64}$")]
    alert: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AlertListQuery {
    /// Only alerts in this state.
    #[param(inline)]
    state: Option<AlertState>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AlertHistoryQuery {
    /// Only entries of this alert.
    name: Option<String>,
    /// The `next` of the previous page.
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
    /// The `next` of the previous page.
    #[serde(default, deserialize_with = "number")]
    before: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// List all alerts with their states.
#[utoipa::path(get, operation_id = "list_alerts", path = "/api/alerts", tag = "alerts", params(AlertListQuery),
    responses((status = 200, description = "As of the last evaluation", body = AlertList)))]
async fn list(
    State(service): State<Arc<Service>>,
    Query(query): Query<AlertListQuery>,
) -> Result<Answer<AlertList>, ErrorResponse> {
    Ok(Answer(service.alerts(query.state).await?))
}

/// Read the alert history.
#[utoipa::path(get, operation_id = "read_alert_history", path = "/api/alerts/history", tag = "alerts", params(AlertHistoryQuery),
    responses((status = 200, description = "Newest first", body = AlertHistory)))]
async fn history(
    State(service): State<Arc<Service>>,
    Query(query): Query<AlertHistoryQuery>,
) -> Result<Answer<AlertHistory>, ErrorResponse> {
    let limit = limit(query.limit)?;
    Ok(Answer(service.alert_history(query.name.as_deref(), query.before, limit).await?))
}

/// List notifications and their delivery results.
#[utoipa::path(get, operation_id = "read_alert_deliveries", path = "/api/alerts/deliveries", tag = "alerts", params(DeliveriesQuery),
    responses((status = 200, description = "Newest first", body = AlertDeliveries)))]
async fn deliveries(
    State(service): State<Arc<Service>>,
    Query(query): Query<DeliveriesQuery>,
) -> Result<Answer<AlertDeliveries>, ErrorResponse> {
    Ok(Answer(service.alert_deliveries(query.before, limit(query.limit)?).await?))
}

/// Acknowledge a firing alert: no further notifications about this firing.
#[utoipa::path(post, operation_id = "acknowledge_alert", path = "/api/alerts/{alert}/acknowledge", tag = "alerts", params(AlertPath),
    responses((status = 200, description = "Current state", body = Alert)))]
async fn acknowledge(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    AlertName(name): AlertName,
) -> Result<Answer<Alert>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.acknowledge_alert(&name, &caller.name).await }).await?))
}

/// Silence an alert until a given time.
#[utoipa::path(post, operation_id = "silence_alert", path = "/api/alerts/{alert}/silence", tag = "alerts", params(AlertPath),
    request_body = SilenceAlert, responses((status = 200, description = "Current state", body = Alert)))]
async fn silence(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    AlertName(name): AlertName,
    Json(silence): Json<SilenceAlert>,
) -> Result<Answer<Alert>, ErrorResponse> {
    Ok(Answer(
        run_to_completion(async move { service.silence_alert(&name, &silence, &caller.name).await }).await?,
    ))
}

/// End the silence of an alert.
#[utoipa::path(delete, operation_id = "unsilence_alert", path = "/api/alerts/{alert}/silence", tag = "alerts", params(AlertPath),
    responses((status = 200, description = "Current state", body = Alert)))]
async fn unsilence(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    AlertName(name): AlertName,
) -> Result<Answer<Alert>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { service.unsilence_alert(&name, &caller.name).await }).await?))
}

/// Send a test notification to every configured target.
#[utoipa::path(post, operation_id = "test_alerts", path = "/api/alerts/test", tag = "alerts",
    responses((status = 200, description = "The result of each target", body = AlertTest)))]
async fn test(State(service): State<Arc<Service>>) -> Result<Answer<AlertTest>, ErrorResponse> {
    Ok(Answer(run_to_completion(async move { Ok(service.test_alerts().await) }).await?))
}
