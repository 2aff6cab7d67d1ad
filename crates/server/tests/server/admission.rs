//! Limits that hold for all who ask at once, over HTTP and with real sandboxes.

use std::sync::Arc;

use futures_util::future::join_all;
use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_lifecycle::AdmissionLimits;
use pinfold_server::http::ServerConfig;
use serde_json::json;

use crate::ground::{Answer, Ground};

const CLIENTS: usize = 64;
const PLACES: usize = 8;
/// Places that somebody has all the time.
const TAKEN: usize = 3;
const ROUNDS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_race_for_the_last_places_get_all_of_them_and_no_more() {
    let admission = AdmissionLimits { sandboxes: Some(PLACES as u64), ..AdmissionLimits::default() };
    let config = Config { admission, ..Config::default() };
    let ground = Ground::begin_with(tempfile::tempdir().unwrap(), ServerConfig::default(), config).await;
    let ground = Arc::new(ground);
    let raced = tokio::spawn(race(ground.clone())).await;
    ground.end().await;
    raced.unwrap();
}

async fn race(ground: Arc<Ground>) {
    for _ in 0..TAKEN {
        ground.sandbox().await;
    }
    for round in 0..ROUNDS {
        let asked = || async { ground.post("/api/sandbox?wait=0", json!({})).await };
        let (answers, most) = tokio::join!(join_all((0..CLIENTS).map(|_| asked())), watch(&ground));
        let (admitted, refused): (Vec<&Answer>, Vec<&Answer>) =
            answers.iter().partition(|answer| answer.status == 202);

        assert_eq!(admitted.len(), PLACES - TAKEN, "round {round}");
        assert!(most <= PLACES as u64, "round {round}: {most} at once");
        for answer in refused {
            assert_eq!((answer.status, answer.code()), (429, ErrorCode::LimitReached), "round {round}");
            let told = answer.json();
            assert_eq!(told["error"]["details"]["limit"], PLACES, "{told}");
        }
        let ends = admitted.iter().map(|answer| {
            let id = answer.json()["id"].as_str().unwrap().to_owned();
            let ground = ground.clone();
            async move { ground.delete(&format!("/api/sandbox/{id}?force=1")).await.status }
        });
        assert_eq!(join_all(ends).await, [200; PLACES - TAKEN], "round {round}");
    }
}

/// The most that were there at once, in a few looks beside the race.
async fn watch(ground: &Ground) -> u64 {
    let mut most = 0;
    for _ in 0..3 {
        let stats = ground.get("/api/sandbox/stats").await.json();
        let present = ["active", "provisioning", "terminating"].map(|it| stats[it].as_u64().unwrap());
        most = most.max(present.iter().sum());
    }
    most
}
