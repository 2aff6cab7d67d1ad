//! Alerts about capacity: a disk that fills up, and an exhausted limit.

use pinfold_alerts::{Alert, Rule};
use pinfold_engine::Config;
use pinfold_http::ServerConfig;
use pinfold_lifecycle::AdmissionLimits;

use super::{fast_alerts, sustained_briefly, wait_for_state, with_alerts};
use crate::fixture::{Fixture, with_engine_config, with_fixture};
use crate::on_linux::full_disk::{SmallDisk, fill};

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_quota_fires_until_a_sandbox_is_gone() {
    let alert = Alert::QuotaExceeded;
    let admission = AdmissionLimits { sandboxes: Some(1), ..AdmissionLimits::default() };
    let engine = Config { admission, ..Config::default() };
    let rules = with_alerts(fast_alerts(&[(alert, sustained_briefly(alert.definition().rule))]));

    with_engine_config(engine, rules, |fixture| async move {
        let sandbox = fixture.sandbox().await;
        let reported = wait_for_state(&fixture, alert, "firing").await;
        fixture.delete(&format!("/api/sandbox/{sandbox}?force=1")).await;

        assert_eq!(reported["value"], 1.0);
        wait_for_state(&fixture, alert, "resolved").await;
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn host_short_of_resources_fires_until_there_is_room() {
        let alert = Alert::ResourcePressure;
        // Other processes may use much of this machine's memory, but hardly this much.
        let rule = sustained_briefly(Rule { threshold: 0.95, ..alert.definition().rule });
        let disk = SmallDisk::mount();
        let ballast = disk.at.join("ballast");
        let data = tempfile::tempdir_in(&disk.at).unwrap();
        let fixture = Fixture::start_with_service_config(
            data,
            ServerConfig::default(),
            with_alerts(fast_alerts(&[(alert, rule)])),
        )
        .await;

        with_fixture(fixture, |fixture| async move {
            let before = wait_for_state(&fixture, alert, "inactive").await;
            fill(&ballast, 4);
            let reported = wait_for_state(&fixture, alert, "firing").await;
            std::fs::remove_file(&ballast).unwrap();

            assert!(before["value"].as_f64() < reported["value"].as_f64(), "{before} {reported}");
            wait_for_state(&fixture, alert, "resolved").await;
        })
        .await;
    }
}
