//! Two servers on one store, and one that is killed between the claim and the delivery.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pinfold_alerts::Alert;
use pinfold_server::alerts::AlertsConfig;
use pinfold_server::http::{Door, ServerConfig, serve};
use tokio::net::TcpListener;

use super::receiver::{Manner, Receiver};
use super::{ALWAYS, hasty, to_webhook, under};
use crate::ground::{Ground, PATIENCE, service_under};

/// Where the other process serves, and whom it calls.
const SERVE_IN: &str = "PINFOLD_TEST_ALERTS_IN";
const CALL: &str = "PINFOLD_TEST_ALERTS_CALL";

fn config(url: &str) -> AlertsConfig {
    let all: Vec<_> = Alert::ALL.iter().map(|alert| (*alert, ALWAYS)).collect();
    let mut config = to_webhook(hasty(&all), url);
    config.habits.cooldown_ms = 300;
    config.habits.escalate_after_ms = 3_600_000;
    config
}

/// The other process: this very program, asked for this alone. It ends only when it is killed, or after its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_calls_whom_another_test_wants_it_to() {
    let Some(data) = std::env::var_os(SERVE_IN) else { return };
    let data = std::path::PathBuf::from(data);
    let (service, _) = service_under(&data, under(config(&std::env::var(CALL).unwrap()))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    std::fs::write(data.join("serves"), "").unwrap();
    let bounded = tokio::time::sleep(Duration::from_secs(60));
    serve(service, vec![Door::plain(listener)], &ServerConfig::default(), bounded).await.unwrap();
}

struct Process(Child);

impl Process {
    async fn begin(data: &Path, receiver: &Receiver) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "alerts::crashes::a_process_calls_whom_another_test_wants_it_to"]);
        command.env(SERVE_IN, data).env(CALL, &receiver.url);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Self(command.spawn().unwrap());
        let serves = async {
            while !data.join("serves").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), serves).await.expect("it does not serve");
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
async fn of_two_servers_on_one_store_one_calls() {
    let test = async {
        let receiver = Receiver::begin(&[]).await;
        let data = tempfile::tempdir().unwrap();
        let other = Process::begin(data.path(), &receiver).await;
        let ground = Ground::begin_under(data, ServerConfig::default(), under(config(&receiver.url))).await;

        let got = receiver.until(100, |_| true).await;
        drop(other);
        ground.end().await;

        let mut told: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for message in &got {
            let notice = message.json();
            let text = |key: &str| notice[key].as_str().unwrap().to_owned();
            let of_one = told.entry(text("name")).or_default();
            of_one.push((text("at"), text("delivery_id")));
        }
        for (name, calls) in &mut told {
            calls.sort();
            for pair in calls.windows(2) {
                assert_ne!(pair[0].1, pair[1].1, "{name}: one message was sent twice");
                let at = |call: &(String, String)| call.0.parse::<jiff::Timestamp>().unwrap();
                let apart = at(&pair[1]).as_millisecond() - at(&pair[0]).as_millisecond();
                assert!(apart >= 300, "{name} was told twice within {apart} ms");
            }
        }
        assert!(told.len() > 10, "{told:?}");
    };
    tokio::time::timeout(PATIENCE, test).await.expect("it took too long");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_had_claimed_is_delivered_by_the_next_one_under_its_id() {
    let test = async {
        let receiver = Receiver::begin(&[Manner::Hangs; 8]).await;
        let data = tempfile::tempdir().unwrap();
        let doomed = Process::begin(data.path(), &receiver).await;
        let claimed = receiver.until(1, |_| true).await.remove(0);

        drop(doomed);
        let ground = Ground::begin_under(data, ServerConfig::default(), under(config(&receiver.url))).await;

        let id = claimed.header("x-pinfold-delivery").to_owned();
        let same = receiver.until(2, |it| it.header("x-pinfold-delivery") == id).await;
        assert_eq!(same[0].body, same[1].body);
        ground.end().await;
    };
    tokio::time::timeout(PATIENCE, test).await.expect("it took too long");
}
