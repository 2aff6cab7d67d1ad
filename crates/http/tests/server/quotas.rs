//! Quotas by token and by label, over HTTP.

use std::collections::BTreeMap;

use hyper::Method;
use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_lifecycle::{LabelQuotas, QuotaRules};
use serde_json::json;

use crate::fixture::with_engine;

#[tokio::test(flavor = "multi_thread")]
async fn token_and_label_quotas_are_enforced_and_reported() {
    let team = LabelQuotas { each_value: Some(1), ..LabelQuotas::default() };
    let quotas = QuotaRules {
        tokens: BTreeMap::from([("operator".to_owned(), 1)]),
        each_token: None,
        labels: BTreeMap::from([("team".to_owned(), team)]),
    };
    with_engine(tempfile::tempdir().unwrap(), Config { quotas, ..Config::default() }, |fixture| async move {
        let (id, secret) = fixture.token("operator").await;
        let small = json!({ "limits": { "memory_mb": 64 } });
        let red = json!({ "limits": { "memory_mb": 64 }, "labels": { "team": "red" } });
        let create = |body| fixture.request_as(Some(&secret), Method::POST, "/api/sandbox", Some(body));

        let first = create(small.clone()).await;
        let second = create(small.clone()).await;

        assert_eq!((first.status, second.status, second.code()), (201, 429, ErrorCode::LimitReached));
        let reported = json!({ "resource": "token", "token": id, "taken": 1, "limit": 1 });
        assert_eq!(second.json()["error"]["details"], reported);
        assert!(second.header("retry-after").is_some());

        // Another token has no quota, but its team label has.
        assert_eq!(fixture.post("/api/sandbox", red.clone()).await.status, 201);
        let third = fixture.post("/api/sandbox", red).await;
        let reported =
            json!({ "resource": "label", "label": "team", "value": "red", "taken": 1, "limit": 1 });
        assert_eq!(third.json()["error"]["details"], reported);

        let own = first.json()["id"].as_str().unwrap().to_owned();
        fixture.delete(&format!("/api/sandbox/{own}")).await;
        assert_eq!(create(small).await.status, 201);
        assert_eq!(fixture.disagreements(), [] as [String; 0]);
    })
    .await;
}
