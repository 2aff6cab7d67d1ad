//! Quotas over HTTP: by token and by label, told with which of them it was.

use std::collections::BTreeMap;

use hyper::Method;
use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_lifecycle::{LabelQuotas, QuotaRules};
use serde_json::json;

use crate::ground::on_engine;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_and_a_team_get_what_they_may_and_are_told_what_they_have() {
    let team = LabelQuotas { each_value: Some(1), ..LabelQuotas::default() };
    let quotas = QuotaRules {
        tokens: BTreeMap::from([("operator".to_owned(), 1)]),
        each_token: None,
        labels: BTreeMap::from([("team".to_owned(), team)]),
    };
    on_engine(tempfile::tempdir().unwrap(), Config { quotas, ..Config::default() }, |ground| async move {
        let (id, secret) = ground.token("operator").await;
        let small = json!({ "limits": { "memory_mb": 64 } });
        let red = json!({ "limits": { "memory_mb": 64 }, "labels": { "team": "red" } });
        let create = |body| ground.ask_as(Some(&secret), Method::POST, "/api/sandbox", Some(body));

        let first = create(small.clone()).await;
        let second = create(small.clone()).await;

        assert_eq!((first.status, second.status, second.code()), (201, 429, ErrorCode::LimitReached));
        let told = json!({ "resource": "token", "token": id, "taken": 1, "limit": 1 });
        assert_eq!(second.json()["error"]["details"], told);
        assert!(second.header("retry-after").is_some());

        // Another token has no quota, but its team has.
        assert_eq!(ground.post("/api/sandbox", red.clone()).await.status, 201);
        let third = ground.post("/api/sandbox", red).await;
        let told = json!({ "resource": "label", "label": "team", "value": "red", "taken": 1, "limit": 1 });
        assert_eq!(third.json()["error"]["details"], told);

        let own = first.json()["id"].as_str().unwrap().to_owned();
        ground.delete(&format!("/api/sandbox/{own}")).await;
        assert_eq!(create(small).await.status, 201);
        assert_eq!(ground.disagreements(), [] as [String; 0]);
    })
    .await;
}
