//! The alert about wrong tokens.

use hyper::Method;
use pinfold_alerts::Alert;
use pinfold_lifecycle::Timestamp;
use pinfold_store::{CountBatch, MINUTE_MS, floor_to_step};

use super::{above, fast_alerts, wait_for_state, with_alerts};
use crate::fixture::with_service_config;

#[tokio::test(flavor = "multi_thread")]
async fn many_wrong_tokens_fire() {
    let alert = Alert::WrongTokens;
    let rules = with_alerts(fast_alerts(&[(alert, above(3.0))]));
    with_service_config(rules, |fixture| async move {
        let before = wait_for_state(&fixture, alert, "inactive").await;
        // The minute may change in between, so each minute alone must have enough.
        for _ in 0..20 {
            let wrong = Some("pft_00000000000000000000000001_00");
            fixture.request_as(wrong, Method::GET, "/api/sandbox/stats", None).await;
            fixture.request_as(None, Method::GET, "/api/sandbox/stats", None).await;
        }

        let fired = wait_for_state(&fixture, alert, "firing").await;

        assert_eq!(before["value"], 0.0);
        let value = fired["value"].as_f64().unwrap();
        assert!((4.0..=20.0).contains(&value), "requests without a token are not counted: {value}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_of_earlier_minutes_do_not_fire() {
    let alert = Alert::WrongTokens;
    let rules = with_alerts(fast_alerts(&[(alert, above(3.0))]));
    with_service_config(rules, |fixture| async move {
        let now = floor_to_step(fixture.service.now(), MINUTE_MS).0;
        let ago = |minutes: u64| Timestamp(now.saturating_sub_unsigned(minutes * MINUTE_MS));
        let counted = |number: u64| [("pinfold_wrong_tokens".to_owned(), number)].into();
        let minutes = [(ago(3), counted(1_000)), (ago(0), counted(2))].into();
        let store = &fixture.service.host().store;
        store.add_counts(CountBatch { history_range: None, minutes }).await.unwrap();

        let state = super::state_of(&fixture, alert, 2.0).await;

        assert_eq!(state, "inactive");
    })
    .await;
}
