//! Quotas: what one token or one value of a label may have, whichever engine is asked.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateAsk};
use pinfold_lifecycle::{Asker, LabelQuotas, QuotaRules, Scarcity, Spec, TokenId};
use pinfold_store::CreateError;

use crate::stage::Stage;

fn rules() -> Config {
    let team = LabelQuotas { each_value: Some(2), ..LabelQuotas::default() };
    let quotas = QuotaRules {
        tokens: BTreeMap::from([("ci".to_owned(), 3)]),
        each_token: None,
        labels: BTreeMap::from([("team".to_owned(), team)]),
    };
    Config { quotas, ..Config::default() }
}

fn by(token: u128, name: &str, team: Option<&str>) -> CreateAsk {
    let labels = team.map(|team| ("team".to_owned(), team.to_owned())).into_iter().collect();
    let asked_by = Some(Asker { token: TokenId(token), name: name.to_owned() });
    CreateAsk { spec: Spec { labels, asked_by, ..Spec::default() }, ..CreateAsk::default() }
}

#[tokio::test(start_paused = true)]
async fn a_token_gets_as_many_as_it_may_in_a_burst_and_others_are_not_held_up() {
    let stage = Stage::new();
    let (one, other) = (stage.begin_with(rules()).await, stage.begin_with(rules()).await);

    let burst = (0..20).map(|turn| if turn % 2 == 0 { &one } else { &other });
    let answers = join_all(burst.map(|engine| engine.create(by(1, "ci", None)))).await;
    let another = one.create(by(2, "alice", None)).await;

    let (admitted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((admitted.len(), refused.len()), (3, 17));
    let told = Scarcity::Token { token: TokenId(1), taken: 3, limit: 3 };
    for answer in refused {
        assert!(matches!(answer, Err(AdmitError::Create(CreateError::Scarce(scarcity))) if scarcity == told));
    }
    assert!(another.is_ok());
    stage.stop(&one, *admitted[0].as_ref().unwrap()).await;
    assert!(other.create(by(1, "ci", None)).await.is_ok());
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn each_value_of_a_label_has_a_quota_of_its_own() {
    let stage = Stage::new();
    let engine = stage.begin_with(rules()).await;

    for team in ["red", "red", "blue"] {
        engine.create(by(1, "alice", Some(team))).await.unwrap();
    }

    let red = engine.create(by(1, "alice", Some("red"))).await;
    let (label, value) = ("team".to_owned(), "red".to_owned());
    let told = Scarcity::Label { label, value, taken: 2, limit: 2 };
    assert!(matches!(red, Err(AdmitError::Create(CreateError::Scarce(scarcity))) if scarcity == told));
    assert!(engine.create(by(1, "alice", Some("blue"))).await.is_ok());
}
