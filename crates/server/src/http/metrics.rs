//! Figures: `/metrics` for Prometheus, `/api/sandbox/metrics` and `…/history` for everybody else.

use std::sync::Arc;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use pinfold_api::{Metrics, MetricsHistory};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::extract::Query;
use super::groups::{Group, QUICK};
use crate::{Failure, Service};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, QUICK)
            .routes(routes!(prometheus))
            .routes(routes!(metrics))
            .routes(routes!(history)),
    ]
}

/// Figures for Prometheus, in the text of OpenMetrics.
#[utoipa::path(get, operation_id = "prometheus_metrics", path = "/metrics", tag = "server",
    responses((status = 200, description = "All there is to tell", body = String,
        content_type = "application/openmetrics-text")))]
async fn prometheus(State(service): State<Arc<Service>>) -> Result<impl IntoResponse, Failure> {
    let told = service.exposition().await?;
    Ok(([(CONTENT_TYPE, pinfold_metrics::CONTENT_TYPE)], told))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MetricsQuery {
    /// How far back: a number with `s`, `m`, `h` or `d`, from one minute to seven days. Without it: `1h`.
    #[param(pattern = "^[1-9][0-9]{0,5}[smhd]$", example = "5m")]
    window: Option<String>,
}

/// What all sandboxes come to: overview, by type of agent, utilisation, health, cleanup, latencies, rates and ages.
#[utoipa::path(get, operation_id = "sandbox_metrics", path = "/api/sandbox/metrics", tag = "sandboxes", params(MetricsQuery),
    responses((status = 200, description = "As of now; what is not known is null", body = Metrics)))]
async fn metrics(
    State(service): State<Arc<Service>>,
    Query(query): Query<MetricsQuery>,
) -> Result<Answer<Metrics>, Failure> {
    let window = query.window.as_deref().map(window).transpose()?.unwrap_or(HOUR);
    service.metrics(window).await.map(Answer)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HistoryQuery {
    /// Such as `active` or `failure_rate`; a name that is not known is refused with all that are.
    #[param(example = "active")]
    metric: String,
    /// RFC 3339. Without it: an hour before `to`.
    #[param(format = DateTime)]
    from: Option<String>,
    /// RFC 3339. Without it: now.
    #[param(format = DateTime)]
    to: Option<String>,
}

/// One figure over time: minutes of the last day, quarters of hours of the last week.
#[utoipa::path(get, operation_id = "sandbox_metrics_history", path = "/api/sandbox/metrics/history", tag = "sandboxes",
    params(HistoryQuery),
    responses((status = 200, description = "The oldest first", body = MetricsHistory)))]
async fn history(
    State(service): State<Arc<Service>>,
    Query(query): Query<HistoryQuery>,
) -> Result<Answer<MetricsHistory>, Failure> {
    let HistoryQuery { metric, from, to } = query;
    service.metrics_history(&metric, from.as_deref(), to.as_deref()).await.map(Answer)
}

fn window(given: &str) -> Result<Duration, Failure> {
    let wrong = || Failure::bad_input("window", "a number with `s`, `m`, `h` or `d` is needed, such as `5m`");
    let unit = given.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let digits = given.strip_suffix(unit).unwrap_or_default();
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number = digits.parse::<u32>().ok().filter(|_| is_plain && digits.len() <= 6);
    number.map(|number| Duration::from_secs(u64::from(number) * seconds)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_number_with_a_unit() {
        for (given, seconds) in [("60s", 60), ("5m", 300), ("1h", 3_600), ("7d", 604_800), ("168h", 604_800)]
        {
            assert_eq!(window(given).unwrap(), Duration::from_secs(seconds), "{given}");
        }
        for given in ["", "m", "5", "-5m", "+5m", "05m", "5 m", "5M", "1.5h", "9999999s"] {
            assert!(window(given).is_err(), "{given}");
        }
    }
}
