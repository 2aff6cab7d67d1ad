//! Alerts about what there is too little of: on a disk that fills up, and under a limit that is reached.

use pinfold_alerts::{Alert, Rule};
use pinfold_engine::Config;
use pinfold_lifecycle::AdmissionLimits;
use pinfold_server::http::ServerConfig;

use super::{before_long, hasty, under, until_it_is};
use crate::full_disk::{SmallDisk, fill};
use crate::ground::{Ground, on_ground, on_server_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_runs_short_is_told_of_until_there_is_room() {
    let alert = Alert::ResourcePressure;
    // Whoever else works on this machine may have taken much of its memory, but hardly that much.
    let rule = before_long(Rule { threshold: 0.95, ..alert.definition().rule });
    let disk = SmallDisk::mount();
    let ballast = disk.at.join("ballast");
    let data = tempfile::tempdir_in(&disk.at).unwrap();
    let ground = Ground::begin_under(data, ServerConfig::default(), under(hasty(&[(alert, rule)]))).await;

    on_ground(ground, |ground| async move {
        let before = until_it_is(&ground, alert, "inactive").await;
        fill(&ballast, 4);
        let told = until_it_is(&ground, alert, "firing").await;
        std::fs::remove_file(&ballast).unwrap();

        assert!(before["value"].as_f64() < told["value"].as_f64(), "{before} {told}");
        until_it_is(&ground, alert, "resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_is_told_of_until_somebody_has_gone() {
    let alert = Alert::QuotaExceeded;
    let admission = AdmissionLimits { sandboxes: Some(1), ..AdmissionLimits::default() };
    let engine = Config { admission, ..Config::default() };
    let rules = under(hasty(&[(alert, before_long(alert.definition().rule))]));

    on_server_of(engine, rules, |ground| async move {
        let sandbox = ground.sandbox().await;
        let told = until_it_is(&ground, alert, "firing").await;
        ground.delete(&format!("/api/sandbox/{sandbox}?force=1")).await;

        assert_eq!(told["value"], 1.0);
        until_it_is(&ground, alert, "resolved").await;
    })
    .await;
}
