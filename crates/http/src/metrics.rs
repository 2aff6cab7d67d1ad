//! Metrics: `/metrics` for Prometheus, `/api/sandbox/metrics` and `…/history` as JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, VARY};
use axum::response::IntoResponse;
use pinfold_api::{Metrics, MetricsHistory};
use pinfold_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::accept::text_format;
use super::error_response::ErrorResponse;
use super::extract::Query;
use super::route_groups::{Group, SHORT_TIMEOUT};
use pinfold_service::{Failure, Service};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::of(Role::Viewer, SHORT_TIMEOUT)
            .routes(routes!(prometheus))
            .routes(routes!(metrics))
            .routes(routes!(history)),
    ]
}

/// All metrics for Prometheus: in its text format, or as OpenMetrics if `Accept` prefers that.
#[utoipa::path(get, operation_id = "prometheus_metrics", path = "/metrics", tag = "server",
    responses((status = 200, description = "All metrics",
        content((String = "text/plain"), (String = "application/openmetrics-text")))))]
async fn prometheus(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ErrorResponse> {
    let format = text_format(&headers);
    let text = service.exposition(format).await?;
    Ok(([(CONTENT_TYPE, format.content_type()), (VARY, "accept")], text))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MetricsQuery {
    /// The time window: a number with `s`, `m`, `h` or `d`, from one minute to seven days. Default: `1h`.
    #[param(pattern = "^[1-9][0-9]{0,5}[smhd]$", example = "5m")]
    window: Option<String>,
}

/// Metrics over all sandboxes: overview, agent types, utilisation, health, cleanup, latencies, rates and ages.
#[utoipa::path(get, operation_id = "sandbox_metrics", path = "/api/sandbox/metrics", tag = "sandboxes", params(MetricsQuery),
    responses((status = 200, description = "Current metrics; unknown values are null", body = Metrics)))]
async fn metrics(
    State(service): State<Arc<Service>>,
    Query(query): Query<MetricsQuery>,
) -> Result<Answer<Metrics>, ErrorResponse> {
    let window = query.window.as_deref().map(window).transpose()?.unwrap_or(HOUR);
    Ok(Answer(service.metrics(window).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MetricsHistoryQuery {
    /// A metric name such as `active` or `failure_rate`; the error for an unknown name lists all names.
    #[param(example = "active")]
    metric: String,
    /// RFC 3339. Default: an hour before `to`.
    #[param(format = DateTime)]
    from: Option<String>,
    /// RFC 3339. Default: now.
    #[param(format = DateTime)]
    to: Option<String>,
}

/// One metric over time: per minute for the last day, per quarter of an hour for the last week.
#[utoipa::path(get, operation_id = "sandbox_metrics_history", path = "/api/sandbox/metrics/history", tag = "sandboxes",
    params(MetricsHistoryQuery),
    responses((status = 200, description = "Oldest first", body = MetricsHistory)))]
async fn history(
    State(service): State<Arc<Service>>,
    Query(query): Query<MetricsHistoryQuery>,
) -> Result<Answer<MetricsHistory>, ErrorResponse> {
    let MetricsHistoryQuery { metric, from, to } = query;
    Ok(Answer(service.metrics_history(&metric, from.as_deref(), to.as_deref()).await?))
}

fn window(given: &str) -> Result<Duration, Failure> {
    let invalid = || Failure::bad_input("window", "must be a number with `s`, `m`, `h` or `d`, such as `5m`");
    let unit = given.chars().next_back().ok_or_else(invalid)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(invalid()),
    };
    let digits = given.strip_suffix(unit).unwrap_or_default();
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number = digits.parse::<u32>().ok().filter(|_| is_plain && digits.len() <= 6);
    number.map(|number| Duration::from_secs(u64::from(number) * seconds)).ok_or_else(invalid)
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
