//! Metrics: history is counted once by any number of servers, and old minutes are merged, closed and dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_lifecycle::{SandboxId, Timestamp};

use super::TestedStore;
use super::fixture::{NOON, StoreFixture};
use crate::{CountBatch, CounterValues, MetricPoint, Seq};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 3_600_000;

fn sums(numbers: &[(&str, u64)]) -> CounterValues {
    numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

fn at_minute(number: u64) -> Timestamp {
    crate::floor_to_step(NOON, DAY).after_ms(number * MINUTE)
}

fn one_minute(minute: Timestamp, numbers: &[(&str, u64)]) -> BTreeMap<Timestamp, CounterValues> {
    BTreeMap::from([(minute, sums(numbers))])
}

fn gauges(value: f64) -> BTreeMap<String, f64> {
    BTreeMap::from([("active".to_owned(), value)])
}

async fn all(tested: &dyn TestedStore) -> Vec<MetricPoint> {
    tested.metrics().metric_points(Timestamp(0), Timestamp(i64::MAX)).await.unwrap()
}

pub async fn counts_are_added_to_the_totals_and_to_their_minutes(tested: &dyn TestedStore) {
    let metrics = tested.metrics();
    for (minute, numbers) in
        [(0, [("a", 2), ("max.b", 9)]), (0, [("a", 3), ("max.b", 4)]), (1, [("a", 5), ("c", 1)])]
    {
        let count = CountBatch { history_range: None, minutes: one_minute(at_minute(minute), &numbers) };
        assert!(metrics.add_counts(count).await.unwrap());
    }

    let minutes = all(tested).await;

    assert_eq!(metrics.metric_totals().await.unwrap(), sums(&[("a", 10), ("c", 1), ("max.b", 9)]));
    let listed: Vec<_> = minutes.into_iter().map(|it| (it.at, it.step_ms, it.counters)).collect();
    let expected = [
        (at_minute(0), MINUTE, sums(&[("a", 5), ("max.b", 9)])),
        (at_minute(1), MINUTE, sums(&[("a", 5), ("c", 1)])),
    ];
    assert_eq!(listed, expected);
}

pub async fn of_many_servers_that_count_the_same_history_one_succeeds(tested: &dyn TestedStore) {
    let metrics = tested.metrics();
    assert_eq!(metrics.counted_up_to().await.unwrap(), Seq(0));
    let counting: Vec<_> = (0..8)
        .map(|_| {
            let metrics = Arc::clone(&metrics);
            tokio::spawn(async move {
                let minutes = one_minute(NOON, &[("a", 1)]);
                metrics
                    .add_counts(CountBatch { history_range: Some((Seq(0), Seq(7))), minutes })
                    .await
                    .unwrap()
            })
        })
        .collect();

    let mut done = 0;
    for counted in counting {
        done += u32::from(counted.await.unwrap());
    }

    assert_eq!((done, metrics.counted_up_to().await.unwrap()), (1, Seq(7)));
    assert_eq!(metrics.metric_totals().await.unwrap(), sums(&[("a", 1)]));
}

pub async fn gauges_of_a_minute_are_recorded_once(tested: &dyn TestedStore) {
    let metrics = tested.metrics();
    let count = CountBatch { history_range: None, minutes: one_minute(at_minute(0), &[("a", 1)]) };
    metrics.add_counts(count).await.unwrap();

    assert!(metrics.record_gauges(at_minute(0).after_ms(300), gauges(4.0)).await.unwrap());
    assert!(!metrics.record_gauges(at_minute(0).after_ms(59_999), gauges(9.0)).await.unwrap());
    assert!(metrics.record_gauges(at_minute(1), gauges(6.0)).await.unwrap());

    let seen: Vec<_> = all(tested).await.iter().map(|it| it.gauges["active"].mean()).collect();
    assert_eq!(seen, [4.0, 6.0]);
    assert_eq!(all(tested).await[0].counters, sums(&[("a", 1)]));
}

pub async fn old_minutes_are_merged_into_quarters_of_an_hour(tested: &dyn TestedStore) {
    let metrics = tested.metrics();
    for minute in 0..45 {
        let minutes = one_minute(at_minute(minute), &[("a", 1), ("max.b", minute)]);
        metrics.add_counts(CountBatch { history_range: None, minutes }).await.unwrap();
        metrics
            .record_gauges(at_minute(minute), gauges(f64::from(u32::try_from(minute).unwrap())))
            .await
            .unwrap();
    }

    metrics.downsample(at_minute(30)).await.unwrap();
    metrics.downsample(at_minute(30)).await.unwrap();

    let thinned = all(tested).await;
    let quarters: Vec<_> = thinned.iter().filter(|it| it.step_ms == 15 * MINUTE).collect();
    assert_eq!((thinned.len(), quarters.len()), (17, 2));
    assert_eq!(quarters[1].counters, sums(&[("a", 15), ("max.b", 29)]));
    assert_eq!((quarters[0].gauges["active"].mean(), quarters[1].gauges["active"].mean()), (7.0, 22.0));
    assert_eq!(metrics.metric_totals().await.unwrap()["a"], 45);
}

pub async fn closed_quarters_of_an_hour_never_change(tested: &dyn TestedStore) {
    let metrics = tested.metrics();
    for minute in 0..45 {
        let minutes = one_minute(at_minute(minute), &[("a", 1)]);
        metrics.add_counts(CountBatch { history_range: None, minutes }).await.unwrap();
    }

    metrics.close_quarter_hours(at_minute(44)).await.unwrap();
    let closed = metrics.metric_points(at_minute(0), at_minute(30)).await.unwrap();
    let late = CountBatch { history_range: None, minutes: one_minute(at_minute(3), &[("a", 100)]) };
    assert!(metrics.add_counts(late).await.unwrap());
    assert!(metrics.record_gauges(at_minute(3), gauges(4.0)).await.unwrap());
    metrics.close_quarter_hours(at_minute(15)).await.unwrap();
    let after = all(tested).await;

    assert_eq!(closed.iter().map(|it| it.counters["a"]).collect::<Vec<_>>(), [15, 15]);
    assert_eq!(after[..2], closed);
    let first_open = (after[2].at, after[2].counters["a"], after[2].gauges["active"].mean());
    assert_eq!(first_open, (at_minute(30), 101, 4.0), "nothing is lost");
    assert_eq!(metrics.metric_totals().await.unwrap()["a"], 145);
}

pub async fn only_closed_points_are_dropped(tested: &dyn TestedStore) {
    let metrics = tested.metrics();
    assert_eq!(metrics.oldest_metric_point().await.unwrap(), None);
    for minute in [3, 20, 40] {
        metrics.record_gauges(at_minute(minute), gauges(1.0)).await.unwrap();
    }
    metrics.drop_closed_points(at_minute(45)).await.unwrap();
    assert_eq!(
        (all(tested).await.len(), metrics.oldest_metric_point().await.unwrap()),
        (3, Some(at_minute(3)))
    );

    metrics.close_quarter_hours(at_minute(30)).await.unwrap();
    metrics.drop_closed_points(at_minute(15)).await.unwrap();
    let rest = all(tested).await;
    metrics.drop_closed_points(at_minute(45)).await.unwrap();

    assert_eq!(rest.iter().map(|it| it.at).collect::<Vec<_>>(), [at_minute(15), at_minute(40)]);
    assert_eq!(metrics.oldest_metric_point().await.unwrap(), Some(at_minute(40)));
}

pub async fn metric_points_are_found_by_their_time(tested: &dyn TestedStore) {
    let metrics = tested.metrics();
    for minute in 0..5 {
        metrics.record_gauges(at_minute(minute), gauges(1.0)).await.unwrap();
    }

    let found = metrics.metric_points(at_minute(1), at_minute(3)).await.unwrap();

    assert_eq!(found.iter().map(|it| it.at).collect::<Vec<_>>(), [at_minute(1), at_minute(2)]);
}

pub async fn history_up_to_a_number_returns_the_last_records_before_it(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.create_ready(2).await;
    fixture.end(1).await;
    let all = fixture.store.history(Some(SandboxId(1)), Seq(0), 100).await.unwrap();
    let place = all.len() - 2;

    let found = tested.metrics().history_up_to(SandboxId(1), all[place].seq, 3).await.unwrap();

    assert_eq!(found, all[place - 2..=place]);
}
