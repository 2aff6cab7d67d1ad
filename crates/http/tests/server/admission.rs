//! Admission limits under concurrent requests, over HTTP and with real sandboxes.

use std::sync::Arc;

use futures_util::future::join_all;
use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_http::ServerConfig;
use pinfold_lifecycle::AdmissionLimits;
use serde_json::json;

use crate::fixture::{Answer, Fixture};

const CLIENTS: usize = 64;
const LIMIT: usize = 8;
/// Sandboxes that exist during the whole race.
const OCCUPIED: usize = 3;
const ROUNDS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn racing_creates_never_exceed_the_sandbox_limit() {
    let admission = AdmissionLimits { sandboxes: Some(LIMIT as u64), ..AdmissionLimits::default() };
    let config = Config { admission, ..Config::default() };
    let fixture =
        Fixture::start_with_engine(tempfile::tempdir().unwrap(), ServerConfig::default(), config).await;
    let fixture = Arc::new(fixture);
    let raced = tokio::spawn(race(fixture.clone())).await;
    fixture.end().await;
    raced.unwrap();
}

async fn race(fixture: Arc<Fixture>) {
    for _ in 0..OCCUPIED {
        fixture.sandbox().await;
    }
    for round in 0..ROUNDS {
        let create = || async { fixture.post("/api/sandbox?wait=0", json!({})).await };
        let (answers, most) = tokio::join!(join_all((0..CLIENTS).map(|_| create())), watch(&fixture));
        // A sandbox that is ready by the time of the answer is reported with 201.
        let (admitted, refused): (Vec<&Answer>, Vec<&Answer>) =
            answers.iter().partition(|answer| matches!(answer.status, 201 | 202));

        assert_eq!(admitted.len(), LIMIT - OCCUPIED, "round {round}");
        assert!(most <= LIMIT as u64, "round {round}: {most} at once");
        for answer in refused {
            assert_eq!((answer.status, answer.code()), (429, ErrorCode::LimitReached), "round {round}");
            let reported = answer.json();
            assert_eq!(reported["error"]["details"]["limit"], LIMIT, "{reported}");
        }
        let ends = admitted.iter().map(|answer| {
            let id = answer.json()["id"].as_str().unwrap().to_owned();
            let fixture = fixture.clone();
            async move { fixture.delete(&format!("/api/sandbox/{id}?force=1")).await.status }
        });
        assert_eq!(join_all(ends).await, [200; LIMIT - OCCUPIED], "round {round}");
    }
}

/// The highest count observed during the race.
async fn watch(fixture: &Fixture) -> u64 {
    let mut most = 0;
    for _ in 0..3 {
        let stats = fixture.get("/api/sandbox/stats").await.json();
        let present = ["active", "provisioning", "terminating"].map(|it| stats[it].as_u64().unwrap());
        most = most.max(present.iter().sum());
    }
    most
}
