//! Health and metrics for a dashboard match exactly what was run.

use std::collections::BTreeMap;

use pinfold_alerts::{Alert, Rule};
use pinfold_api::{
    AlertSeverity, Cause, HealthMetrics, HealthState, Indicator, LimitsRequest, ResourceUsage,
};
use pinfold_client::Client;
use pinfold_engine::Config;
use pinfold_lifecycle::AdmissionLimits;
use pinfold_test_support::until_some;

use super::{HEAVY, assert_close, ms_between, run, sandbox, sh, small};
use crate::alerts::{fast_alerts, with_alerts};
use crate::fixture::{rules, with_engine_config, with_server, with_service_config};

fn mean(metrics: impl Iterator<Item = u64> + Clone) -> f64 {
    metrics.clone().sum::<u64>() as f64 / metrics.count() as f64
}

fn cpu_ms(used: &ResourceUsage) -> u64 {
    used.cpu_ms.unwrap()
}

fn peak(used: &ResourceUsage) -> u64 {
    used.memory_peak_bytes.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_status_reporting() {
    let rule = Rule { minimum: 4, ..Alert::SandboxFailureRateCritical.definition().rule };
    let rules = with_alerts(fast_alerts(&[(Alert::SandboxFailureRateCritical, rule)]));
    with_service_config(rules, |fixture| async move {
        let client = fixture.client();
        let id = sandbox(&client, small()).await;

        let well = client.health().await.unwrap();
        let metrics = client.metrics(None).await.unwrap().health;
        sh(&client, &id, "true").await;
        for _ in 0..3 {
            fixture.lose_execution().await;
        }
        let ill = until_some("an alert fires", || async {
            let health = client.health().await.unwrap();
            health.alerts.as_ref().is_some_and(|alerts| !alerts.is_empty()).then_some(health)
        })
        .await;

        for part in [&well.store, &well.provider, &well.cleanup] {
            assert_eq!((part.status, part.message.as_ref()), (HealthState::Ok, None), "{well:#?}");
        }
        assert_eq!((well.status, well.nodes, well.alerts), (HealthState::Ok, Some(1), Some(vec![])));
        assert_eq!((well.indicator, well.stuck, well.orphaned), (Indicator::Healthy, Some(0), Some(0)));
        assert_eq!(well.failure_rate, None, "no execution has ended");
        assert_eq!(well.sandboxes.map(|stats| (stats.active, stats.ready)), Some((1, 1)));
        assert!(well.memory_mb_left > Some(0) && well.disk_mb_left > Some(0));
        assert_eq!((metrics.indicator, metrics.failure_rate), (Indicator::Healthy, None));
        let alerts = ill.alerts.unwrap();
        assert_eq!((alerts.len(), alerts[0].name.as_str()), (1, "sandbox_failure_rate_critical"));
        assert_eq!((alerts[0].severity, ill.indicator), (AlertSeverity::Critical, Indicator::Critical));
        assert_eq!((ill.stuck, ill.orphaned, ill.failure_rate), (Some(0), Some(0), Some(0.75)));
        assert_eq!(ill.status, HealthState::Ok, "the server itself works");
        let reported = client.metrics(None).await.unwrap().health;
        let expected = HealthMetrics {
            indicator: Indicator::Critical,
            active: 1,
            stuck: 0,
            orphaned: 0,
            failure_rate: Some(0.75),
        };
        assert_eq!(reported, expected);
    })
    .await;
}

/// Executions and success rate by agent type.
async fn ran(client: &Client) -> BTreeMap<String, (u64, Option<f64>)> {
    let reported = client.metrics(None).await.unwrap().by_agent_type;
    reported.into_iter().map(|(name, it)| (name, (it.executions, it.success_rate))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_collection_by_agent_type() {
    with_server(|fixture| async move {
        let client = fixture.client();

        let before = ran(&client).await;
        for (agent_type, script) in [
            ("VALIDATION", "true"),
            ("VALIDATION", "exit 1"),
            ("ELICITATION", "true"),
            ("ELICITATION", "true"),
            ("HASTY", "sleep 60"),
        ] {
            run(&client, agent_type, script).await;
        }
        let id = sandbox(&client, small()).await;
        sh(&client, &id, "true").await;
        let after = ran(&client).await;

        assert_eq!(before, BTreeMap::new());
        let expected = [
            ("ELICITATION", (2, Some(1.0))),
            ("HASTY", (1, Some(0.0))),
            ("VALIDATION", (2, Some(0.5))),
            ("none", (1, Some(1.0))),
        ];
        assert_eq!(after, expected.map(|(name, it)| (name.to_owned(), it)).into());
        let text = String::from_utf8(fixture.get("/metrics").await.bytes.to_vec()).unwrap();
        for (agent_type, cause, count) in [
            ("VALIDATION", "completed", 1),
            ("VALIDATION", "exit_nonzero", 1),
            ("ELICITATION", "completed", 2),
            ("HASTY", "time_limit", 1),
        ] {
            let line = format!(
                "pinfold_executions_total{{agent_type=\"{agent_type}\",cause=\"{cause}\"}} {count}.0\n"
            );
            assert!(text.contains(&line), "{line}: {text}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overview_metrics_provision() {
    with_server(|fixture| async move {
        let client = fixture.client();
        sandbox(&client, small()).await;
        let stopped = sandbox(&client, small()).await;
        client.stop(&stopped, Some(0), 60).await.unwrap();
        let mut lives = vec![client.resources(&stopped).await.unwrap().duration_ms];
        for (agent_type, script) in [("VALIDATION", "true"), ("VALIDATION", "exit 2"), ("HASTY", "sleep 60")]
        {
            let ended = run(&client, agent_type, script).await;
            lives.push(client.resources(&ended.sandbox_id).await.unwrap().duration_ms);
        }

        let reported = client.metrics(Some("10m")).await.unwrap();

        let overview = &reported.overview;
        assert_eq!((reported.window_seconds, overview.active, overview.total), (600, 1, 5));
        assert_eq!((overview.completed, overview.failed), (1, 2), "a stopped run is neither");
        assert_eq!((overview.failure_rate, overview.timeout_rate), (Some(0.0), Some(1.0 / 3.0)));
        assert_close(overview.average_lifetime_seconds, mean(lives.into_iter()) / 1e3, 0.001);
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn agent_type_metrics_provision() {
        with_server(|fixture| async move {
            let client = fixture.client();
            let runs = [
                run(&client, "TEST_WRITER", "sleep 0.4").await,
                run(&client, "TEST_WRITER", HEAVY).await,
                run(&client, "TEST_WRITER", "exit 1").await,
            ];
            let other = run(&client, "ELICITATION", "true").await;

            let reported = client.metrics(None).await.unwrap().by_agent_type;

            assert_eq!(reported.keys().collect::<Vec<_>>(), ["ELICITATION", "TEST_WRITER"]);
            let writers = &reported["TEST_WRITER"];
            assert_eq!(writers.executions, 3);
            assert_eq!((writers.success_rate, writers.failure_rate), (Some(2.0 / 3.0), Some(0.0)));
            let lasted: i64 = runs
                .iter()
                .map(|run| ms_between(run.started_at.as_ref().unwrap(), run.ended_at.as_ref().unwrap()))
                .sum();
            assert_close(writers.average_execution_seconds, lasted as f64 / 3e3, 0.005);
            assert_close(
                writers.average_cpu_seconds,
                mean(runs.iter().map(|run| cpu_ms(&run.usage))) / 1e3,
                1e-6,
            );
            assert_close(
                writers.average_memory_peak_bytes,
                mean(runs.iter().map(|run| peak(&run.usage))),
                1.0,
            );
            assert_close(reported["ELICITATION"].average_memory_peak_bytes, peak(&other.usage) as f64, 1.0);
            assert_eq!(other.cause, Some(Cause::Completed));
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn resource_utilization_metrics_provision() {
        let admission = AdmissionLimits {
            sandboxes: Some(4),
            memory_mb: Some(1_024),
            disk_mb: None,
            processes: Some(1_000),
        };
        with_engine_config(Config { admission, ..Config::default() }, rules(), |fixture| async move {
            let client = fixture.client();
            let spec =
                LimitsRequest { memory_mb: Some(256), processes: Some(100), ..LimitsRequest::default() };
            sandbox(&client, spec).await;
            let used = [run(&client, "VALIDATION", "true").await, run(&client, "VALIDATION", HEAVY).await];
            let used = used.map(|run| run.usage);

            let reported = client.metrics(None).await.unwrap().utilisation;

            let (cpu, peaks) = (used.iter().map(cpu_ms), used.iter().map(peak));
            assert_close(reported.cpu_seconds_total, cpu.clone().sum::<u64>() as f64 / 1e3, 1e-9);
            assert_close(reported.cpu_seconds_average, mean(cpu) / 1e3, 1e-9);
            assert_eq!(reported.memory_peak_bytes_total, Some(peaks.clone().sum()));
            assert_close(reported.memory_peak_bytes_average, mean(peaks.clone()), 1e-3);
            assert_eq!(reported.memory_peak_bytes_max, peaks.max());
            assert_eq!((reported.sandboxes_share, reported.memory_share), (Some(0.25), Some(0.25)));
            assert_eq!((reported.processes_share, reported.disk_share), (Some(0.1), None));
            assert_eq!(reported.network_requests, Some(0), "there is no network");
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn resource_utilization_tracking_over_time() {
        with_server(|fixture| async move {
            let client = fixture.client();
            let utilisation = || async { client.metrics(None).await.unwrap().utilisation };

            let at_first = utilisation().await;
            let light = run(&client, "VALIDATION", "true").await.usage;
            let then = utilisation().await;
            let heavy = run(&client, "VALIDATION", HEAVY).await.usage;
            let at_last = utilisation().await;

            assert_eq!(
                (at_first.cpu_seconds_total, at_first.memory_peak_bytes_max),
                (None, None),
                "not known"
            );
            assert_close(then.cpu_seconds_total, cpu_ms(&light) as f64 / 1e3, 1e-9);
            assert_close(at_last.cpu_seconds_total, (cpu_ms(&light) + cpu_ms(&heavy)) as f64 / 1e3, 1e-9);
            assert!(cpu_ms(&heavy) >= cpu_ms(&light) + 50, "{light:?} {heavy:?}");
            assert_eq!(then.memory_peak_bytes_max, light.memory_peak_bytes);
            assert_eq!(at_last.memory_peak_bytes_max, heavy.memory_peak_bytes);
            assert!(peak(&heavy) >= peak(&light) + 20_000_000, "{light:?} {heavy:?}");
            for (metric, all) in [("created", 2.0), ("executions", 2.0), ("ended", 2.0)] {
                let history = client.metrics_history(metric, None, None).await.unwrap();
                let reported: f64 = history.points.iter().filter_map(|point| point.value).sum();
                assert_eq!(reported, all, "{history:#?}");
                assert!(history.points.iter().all(|point| point.step_seconds == 60), "{history:#?}");
            }
            let measured = async |metric: &str| -> Vec<f64> {
                let history = client.metrics_history(metric, None, None).await.unwrap();
                history.points.iter().filter_map(|point| point.value).collect()
            };
            let used: f64 = measured("cpu_seconds").await.iter().sum();
            assert_close(Some(used), (cpu_ms(&light) + cpu_ms(&heavy)) as f64 / 1e3, 1e-9);
            let largest = measured("memory_peak_bytes_max").await.into_iter().fold(0.0, f64::max);
            assert_close(Some(largest), peak(&heavy) as f64, 1e-3);
        })
        .await;
    }
}
