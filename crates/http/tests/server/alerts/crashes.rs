//! Two servers on one store, and one killed between claiming a notification and delivering it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pinfold_alerts::Alert;
use pinfold_http::{Endpoint, ServerConfig, serve};
use pinfold_notify::AlertsConfig;
use pinfold_test_support::until_async;
use tokio::net::TcpListener;

use super::receiver::{Behaviour, Receiver};
use super::{ALWAYS, fast_alerts, with_alerts, with_webhook};
use crate::fixture::{Fixture, TEST_TIMEOUT, start_service_with_config};

/// Data directory and webhook address of the other process.
const SERVE_IN: &str = "PINFOLD_TEST_ALERTS_IN";
const CALL: &str = "PINFOLD_TEST_ALERTS_CALL";

fn config(url: &str) -> AlertsConfig {
    let all: Vec<_> = Alert::ALL.iter().map(|alert| (*alert, ALWAYS)).collect();
    let mut config = with_webhook(fast_alerts(&all), url);
    config.notification_policy.cooldown_ms = 300;
    config.notification_policy.escalate_after_ms = 3_600_000;
    config
}

/// The other process: this test program, started with only this test. It ends when killed, or after a minute.
#[tokio::test(flavor = "multi_thread")]
async fn helper_process_sends_alerts_for_another_test() {
    let Some(data) = std::env::var_os(SERVE_IN) else { return };
    let data = std::path::PathBuf::from(data);
    let (service, _) =
        start_service_with_config(&data, with_alerts(config(&std::env::var(CALL).unwrap()))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    std::fs::write(data.join("serves"), "").unwrap();
    let bounded = tokio::time::sleep(Duration::from_secs(60));
    serve(service, vec![Endpoint::plain(listener)], &ServerConfig::default(), bounded).await.unwrap();
}

struct Process(Child);

impl Process {
    async fn start(data: &Path, receiver: &Receiver) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "alerts::crashes::helper_process_sends_alerts_for_another_test"]);
        command.env(SERVE_IN, data).env(CALL, &receiver.url);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Self(command.spawn().unwrap());
        until_async("the other process serves", async || data.join("serves").exists()).await;
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_servers_sends_the_notification() {
    let test = async {
        let receiver = Receiver::start(&[]).await;
        let data = tempfile::tempdir().unwrap();
        let other = Process::start(data.path(), &receiver).await;
        let fixture = Fixture::start_with_service_config(
            data,
            ServerConfig::default(),
            with_alerts(config(&receiver.url)),
        )
        .await;

        let received = receiver.until(100, |_| true).await;
        drop(other);
        fixture.end().await;

        let mut reported: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for message in &received {
            let notice = message.json();
            let text = |key: &str| notice[key].as_str().unwrap().to_owned();
            let of_one = reported.entry(text("name")).or_default();
            of_one.push((text("at"), text("delivery_id")));
        }
        for (name, calls) in &mut reported {
            calls.sort();
            for pair in calls.windows(2) {
                assert_ne!(pair[0].1, pair[1].1, "{name}: one message was sent twice");
                let at = |call: &(String, String)| call.0.parse::<jiff::Timestamp>().unwrap();
                let apart = at(&pair[1]).as_millisecond() - at(&pair[0]).as_millisecond();
                assert!(apart >= 300, "{name} was sent twice within {apart} ms");
            }
        }
        assert!(reported.len() > 10, "{reported:?}");
    };
    tokio::time::timeout(TEST_TIMEOUT, test).await.expect("it took too long");
}

#[tokio::test(flavor = "multi_thread")]
async fn next_server_delivers_what_a_killed_one_had_claimed() {
    let test = async {
        let receiver = Receiver::start(&[Behaviour::Hangs; 8]).await;
        let data = tempfile::tempdir().unwrap();
        let doomed = Process::start(data.path(), &receiver).await;
        let claimed = receiver.until(1, |_| true).await.remove(0);

        drop(doomed);
        let fixture = Fixture::start_with_service_config(
            data,
            ServerConfig::default(),
            with_alerts(config(&receiver.url)),
        )
        .await;

        let id = claimed.header("x-pinfold-delivery").to_owned();
        let same = receiver.until(2, |it| it.header("x-pinfold-delivery") == id).await;
        assert_eq!(same[0].body, same[1].body);
        fixture.end().await;
    };
    tokio::time::timeout(TEST_TIMEOUT, test).await.expect("it took too long");
}
