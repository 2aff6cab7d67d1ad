//! Alerts: concurrent changes exclude each other, history is kept, and each delivery has one claim.

use std::sync::Arc;

use pinfold_lifecycle::Timestamp;

use super::TestedStore;
use super::fixture::NOON;
use crate::{
    AlertChange, AlertRow, AlertStore, Delivery, DeliveryClaim, DeliveryResult, DeliveryState,
    NewAlertRecord, NewDelivery, Retention,
};

fn state(name: &str, version: i64, state: &str) -> AlertRow {
    AlertRow { name: name.to_owned(), version, state: state.to_owned() }
}

fn happened(number: u64) -> NewAlertRecord {
    let name = if number.is_multiple_of(2) { "even" } else { "odd" };
    NewAlertRecord { at: NOON.after_ms(number), name: name.to_owned(), entry: number.to_string() }
}

fn new(id: &str, target: &str) -> NewDelivery {
    NewDelivery {
        id: id.to_owned(),
        at: NOON,
        name: "alert".to_owned(),
        target: target.to_owned(),
        notice: format!("notice of {id}"),
    }
}

fn to_deliver(deliveries: Vec<NewDelivery>) -> AlertChange {
    AlertChange { deliveries, ..AlertChange::default() }
}

async fn claim(alerts: &Arc<dyn AlertStore>, token: &str, now: Timestamp) -> Vec<Delivery> {
    let until = now.after_ms(100);
    let claim =
        DeliveryClaim { claim_id: token.to_owned(), target: "slack".to_owned(), now, until, limit: 10 };
    alerts.claim_deliveries(claim).await.unwrap()
}

async fn settle(alerts: &Arc<dyn AlertStore>, token: &str, state: DeliveryState) -> bool {
    let (id, token, last) = ("one".to_owned(), token.to_owned(), "answered".to_owned());
    alerts.finish_delivery(DeliveryResult { id, claim_id: token, state, result: last }).await.unwrap()
}

pub async fn a_change_of_alerts_is_read_back_as_it_was(tested: &dyn TestedStore) {
    let alerts = tested.alerts();

    let states = vec![state("b", 0, "first"), state("a", 0, "other")];
    assert!(alerts.change_alerts(AlertChange { states, ..AlertChange::default() }).await.unwrap());
    let states = vec![state("b", 1, "second")];
    assert!(alerts.change_alerts(AlertChange { states, ..AlertChange::default() }).await.unwrap());

    assert_eq!(alerts.alert_states().await.unwrap(), [state("a", 1, "other"), state("b", 2, "second")]);
}

pub async fn of_many_changes_on_one_version_of_an_alert_one_succeeds(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    let change = |number: u64| {
        let alerts = alerts.clone();
        async move {
            let states = vec![state("a", 0, &number.to_string())];
            let deliveries = vec![new(&number.to_string(), "slack")];
            alerts.change_alerts(AlertChange { states, records: vec![], deliveries }).await.unwrap()
        }
    };

    let racing: Vec<_> = (0..8).map(|number| tokio::spawn(change(number))).collect();
    let mut succeeded = 0;
    for one in racing {
        succeeded += usize::from(one.await.unwrap());
    }

    assert_eq!((succeeded, alerts.deliveries(None, 10).await.unwrap().len()), (1, 1));
}

pub async fn a_refused_change_of_alerts_writes_nothing(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    let states = vec![state("a", 0, "first")];
    alerts.change_alerts(AlertChange { states, ..AlertChange::default() }).await.unwrap();

    let states = vec![state("b", 0, "new"), state("a", 7, "wrong")];
    let (happened, deliveries) = (vec![happened(1)], vec![new("one", "slack")]);
    let succeeded =
        alerts.change_alerts(AlertChange { states, records: happened, deliveries }).await.unwrap();

    assert!(!succeeded);
    assert_eq!(alerts.alert_states().await.unwrap(), [state("a", 1, "first")]);
    assert_eq!(alerts.alert_history(None, None, 10).await.unwrap(), []);
    assert_eq!(alerts.deliveries(None, 10).await.unwrap(), []);
}

pub async fn alert_history_is_read_latest_first(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    let all = (0..6).map(happened).collect();
    alerts.change_alerts(AlertChange { records: all, ..AlertChange::default() }).await.unwrap();

    let listed = |records: &[crate::AlertRecord]| -> Vec<NewAlertRecord> {
        records.iter().map(|record| record.record.clone()).collect()
    };
    let first = alerts.alert_history(None, None, 2).await.unwrap();
    let rest = alerts.alert_history(None, Some(first[1].seq), 10).await.unwrap();
    let odd = alerts.alert_history(Some("odd".to_owned()), None, 10).await.unwrap();

    assert_eq!(listed(&first), [happened(5), happened(4)]);
    assert_eq!(listed(&rest), [3, 2, 1, 0].map(happened));
    assert_eq!(listed(&odd), [5, 3, 1].map(happened));
}

pub async fn a_delivery_has_one_claim_at_a_time(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    alerts.change_alerts(to_deliver(vec![new("one", "slack"), new("two", "slack")])).await.unwrap();

    let first = claim(&alerts, "first", NOON).await;
    let second = claim(&alerts, "second", NOON.after_ms(99)).await;

    assert_eq!(
        first.iter().map(|it| it.new.clone()).collect::<Vec<_>>(),
        [new("one", "slack"), new("two", "slack")]
    );
    assert_eq!(second, []);
    assert_eq!(alerts.next_delivery("slack").await.unwrap(), Some(NOON.after_ms(100)));
}

pub async fn a_delivery_with_an_expired_claim_is_claimed_again_under_its_id(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    alerts.change_alerts(to_deliver(vec![new("one", "slack")])).await.unwrap();
    claim(&alerts, "first", NOON).await;

    let again = claim(&alerts, "second", NOON.after_ms(100)).await;

    assert_eq!((again.len(), again[0].new.id.as_str()), (1, "one"));
    let failed = DeliveryState::Waiting { until: NOON };
    assert!(!settle(&alerts, "first", failed).await, "an expired claim wrote a result");
    assert!(settle(&alerts, "second", failed).await);
}

pub async fn a_failed_delivery_waits_for_its_retry_time(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    alerts.change_alerts(to_deliver(vec![new("one", "slack")])).await.unwrap();
    claim(&alerts, "first", NOON).await;

    let until = NOON.after_ms(50);
    assert!(settle(&alerts, "first", DeliveryState::Waiting { until }).await);

    assert_eq!(alerts.next_delivery("slack").await.unwrap(), Some(until));
    assert_eq!(claim(&alerts, "second", NOON.after_ms(49)).await, []);
    let again = claim(&alerts, "third", until).await;
    assert_eq!((again[0].attempts, again[0].last_result.as_deref()), (1, Some("answered")));
}

pub async fn a_delivery_is_finished_once(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    alerts.change_alerts(to_deliver(vec![new("one", "slack")])).await.unwrap();
    claim(&alerts, "first", NOON).await;
    claim(&alerts, "second", NOON.after_ms(100)).await;

    // The notice was sent before its claim expired, and its success was reported late. It still counts.
    let delivered = DeliveryState::Delivered { at: NOON.after_ms(101) };
    assert!(settle(&alerts, "first", delivered).await);
    assert!(!settle(&alerts, "second", DeliveryState::GivenUp { at: NOON.after_ms(102) }).await);

    let all = alerts.deliveries(None, 10).await.unwrap();
    assert_eq!((all[0].state, all[0].attempts), (delivered, 1));
    assert_eq!(alerts.next_delivery("slack").await.unwrap(), None);
}

pub async fn a_delivery_is_claimed_for_its_own_target(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    alerts.change_alerts(to_deliver(vec![new("one", "email"), new("two", "slack")])).await.unwrap();

    let claimed = claim(&alerts, "first", NOON).await;

    assert_eq!(claimed.iter().map(|it| it.new.id.as_str()).collect::<Vec<_>>(), ["two"]);
    assert_eq!(alerts.next_delivery("webhook").await.unwrap(), None);
}

pub async fn alert_history_is_kept_as_long_as_the_history(tested: &dyn TestedStore) {
    let alerts = tested.alerts();
    let young = NewDelivery { at: NOON.after_ms(3), ..new("young", "slack") };
    let change = AlertChange {
        states: vec![state("a", 0, "kept")],
        records: (0..4).map(happened).collect(),
        deliveries: vec![new("old", "slack"), young.clone()],
    };
    alerts.change_alerts(change).await.unwrap();

    let history_before = NOON.after_ms(2);
    let retention = Retention { records_before: NOON, history_before, now: history_before };
    tested.store().prune(retention, 10).await.unwrap();

    let left = alerts.alert_history(None, None, 10).await.unwrap();
    assert_eq!(left.iter().map(|it| it.record.clone()).collect::<Vec<_>>(), [3, 2].map(happened));
    let left = alerts.deliveries(None, 10).await.unwrap();
    assert_eq!(left.iter().map(|it| it.new.clone()).collect::<Vec<_>>(), [young]);
    assert_eq!(alerts.alert_states().await.unwrap(), [state("a", 1, "kept")]);
}
