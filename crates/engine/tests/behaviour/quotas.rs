//! Quotas per token and per label value, across engines.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateRequest};
use pinfold_lifecycle::{AdmissionRefusal, LabelQuotas, QuotaRules, Requester, Spec, TokenId};
use pinfold_store::CreateError;

use crate::fixture::Fixture;

fn rules() -> Config {
    let team = LabelQuotas { each_value: Some(2), ..LabelQuotas::default() };
    let quotas = QuotaRules {
        tokens: BTreeMap::from([("ci".to_owned(), 3)]),
        each_token: None,
        labels: BTreeMap::from([("team".to_owned(), team)]),
    };
    Config { quotas, ..Config::default() }
}

fn by(token: u128, name: &str, team: Option<&str>) -> CreateRequest {
    let labels = team.map(|team| ("team".to_owned(), team.to_owned())).into_iter().collect();
    let requested_by = Some(Requester { token: TokenId(token), name: name.to_owned() });
    CreateRequest {
        spec: Spec { labels, requested_by, ..Spec::default() }.into(),
        ..CreateRequest::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_one_token_is_limited_by_its_quota_and_does_not_delay_others() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.start_engine_with(rules()).await, fixture.start_engine_with(rules()).await);

    let burst = (0..20).map(|turn| if turn % 2 == 0 { &one } else { &other });
    let answers = join_all(burst.map(|engine| engine.create(by(1, "ci", None)))).await;
    let another = one.create(by(2, "alice", None)).await;

    let (admitted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((admitted.len(), refused.len()), (3, 17));
    let reported = AdmissionRefusal::Token { token: TokenId(1), taken: 3, limit: 3 };
    for answer in refused {
        assert!(
            matches!(answer, Err(AdmitError::Create(CreateError::AdmissionRefused(scarcity))) if scarcity == reported)
        );
    }
    assert!(another.is_ok());
    fixture.stop(&one, *admitted[0].as_ref().unwrap()).await;
    assert!(other.create(by(1, "ci", None)).await.is_ok());
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn each_value_of_a_label_has_a_quota_of_its_own() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(rules()).await;

    for team in ["red", "red", "blue"] {
        engine.create(by(1, "alice", Some(team))).await.unwrap();
    }

    let red = engine.create(by(1, "alice", Some("red"))).await;
    let (label, value) = ("team".to_owned(), "red".to_owned());
    let reported = AdmissionRefusal::Label { label, value, taken: 2, limit: 2 };
    assert!(
        matches!(red, Err(AdmitError::Create(CreateError::AdmissionRefused(scarcity))) if scarcity == reported)
    );
    assert!(engine.create(by(1, "alice", Some("blue"))).await.is_ok());
}
