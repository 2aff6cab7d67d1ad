//! Promises about figures: what is counted is counted once, whoever counts; minutes become quarters of hours,
//! and go when they are closed.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_lifecycle::{SandboxId, Timestamp};

use super::Subject;
use super::world::{NOON, World};
use crate::{Count, Measured, Seq, Sums};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 3_600_000;

fn sums(numbers: &[(&str, u64)]) -> Sums {
    numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

fn at_minute(number: u64) -> Timestamp {
    crate::step_of(NOON, DAY).after_ms(number * MINUTE)
}

fn one_minute(minute: Timestamp, numbers: &[(&str, u64)]) -> BTreeMap<Timestamp, Sums> {
    BTreeMap::from([(minute, sums(numbers))])
}

fn gauges(value: f64) -> BTreeMap<String, f64> {
    BTreeMap::from([("active".to_owned(), value)])
}

async fn all(subject: &dyn Subject) -> Vec<Measured> {
    subject.measures().measured(Timestamp(0), Timestamp(i64::MAX)).await.unwrap()
}

pub async fn what_is_counted_adds_up_in_all_and_in_its_minute(subject: &dyn Subject) {
    let measures = subject.measures();
    for (minute, numbers) in
        [(0, [("a", 2), ("max.b", 9)]), (0, [("a", 3), ("max.b", 4)]), (1, [("a", 5), ("c", 1)])]
    {
        let count = Count { span: None, minutes: one_minute(at_minute(minute), &numbers) };
        assert!(measures.count(count).await.unwrap());
    }

    let minutes = all(subject).await;

    assert_eq!(measures.counted().await.unwrap(), sums(&[("a", 10), ("c", 1), ("max.b", 9)]));
    let told: Vec<_> = minutes.into_iter().map(|it| (it.at, it.step_ms, it.sums)).collect();
    let expected = [
        (at_minute(0), MINUTE, sums(&[("a", 5), ("max.b", 9)])),
        (at_minute(1), MINUTE, sums(&[("a", 5), ("c", 1)])),
    ];
    assert_eq!(told, expected);
}

pub async fn of_many_who_count_the_same_history_one_does(subject: &dyn Subject) {
    let measures = subject.measures();
    assert_eq!(measures.counted_to().await.unwrap(), Seq(0));
    let counting: Vec<_> = (0..8)
        .map(|_| {
            let measures = Arc::clone(&measures);
            tokio::spawn(async move {
                let minutes = one_minute(NOON, &[("a", 1)]);
                measures.count(Count { span: Some((Seq(0), Seq(7))), minutes }).await.unwrap()
            })
        })
        .collect();

    let mut done = 0;
    for counted in counting {
        done += u32::from(counted.await.unwrap());
    }

    assert_eq!((done, measures.counted_to().await.unwrap()), (1, Seq(7)));
    assert_eq!(measures.counted().await.unwrap(), sums(&[("a", 1)]));
}

pub async fn a_minute_is_looked_at_once(subject: &dyn Subject) {
    let measures = subject.measures();
    let count = Count { span: None, minutes: one_minute(at_minute(0), &[("a", 1)]) };
    measures.count(count).await.unwrap();

    assert!(measures.sample(at_minute(0).after_ms(300), gauges(4.0)).await.unwrap());
    assert!(!measures.sample(at_minute(0).after_ms(59_999), gauges(9.0)).await.unwrap());
    assert!(measures.sample(at_minute(1), gauges(6.0)).await.unwrap());

    let seen: Vec<_> = all(subject).await.iter().map(|it| it.gauges["active"].mean()).collect();
    assert_eq!(seen, [4.0, 6.0]);
    assert_eq!(all(subject).await[0].sums, sums(&[("a", 1)]));
}

pub async fn old_minutes_become_quarters_of_hours(subject: &dyn Subject) {
    let measures = subject.measures();
    for minute in 0..45 {
        let minutes = one_minute(at_minute(minute), &[("a", 1), ("max.b", minute)]);
        measures.count(Count { span: None, minutes }).await.unwrap();
        measures.sample(at_minute(minute), gauges(f64::from(u32::try_from(minute).unwrap()))).await.unwrap();
    }

    measures.thin_out(at_minute(30)).await.unwrap();
    measures.thin_out(at_minute(30)).await.unwrap();

    let thinned = all(subject).await;
    let quarters: Vec<_> = thinned.iter().filter(|it| it.step_ms == 15 * MINUTE).collect();
    assert_eq!((thinned.len(), quarters.len()), (17, 2));
    assert_eq!(quarters[1].sums, sums(&[("a", 15), ("max.b", 29)]));
    assert_eq!((quarters[0].gauges["active"].mean(), quarters[1].gauges["active"].mean()), (7.0, 22.0));
    assert_eq!(measures.counted().await.unwrap()["a"], 45);
}

pub async fn what_is_closed_is_quarters_of_hours_that_nothing_changes(subject: &dyn Subject) {
    let measures = subject.measures();
    for minute in 0..45 {
        let minutes = one_minute(at_minute(minute), &[("a", 1)]);
        measures.count(Count { span: None, minutes }).await.unwrap();
    }

    measures.close(at_minute(44)).await.unwrap();
    let closed = measures.measured(at_minute(0), at_minute(30)).await.unwrap();
    let late = Count { span: None, minutes: one_minute(at_minute(3), &[("a", 100)]) };
    assert!(measures.count(late).await.unwrap());
    assert!(measures.sample(at_minute(3), gauges(4.0)).await.unwrap());
    measures.close(at_minute(15)).await.unwrap();
    let after = all(subject).await;

    assert_eq!(closed.iter().map(|it| it.sums["a"]).collect::<Vec<_>>(), [15, 15]);
    assert_eq!(after[..2], closed);
    let first_open = (after[2].at, after[2].sums["a"], after[2].gauges["active"].mean());
    assert_eq!(first_open, (at_minute(30), 101, 4.0), "nothing is lost");
    assert_eq!(measures.counted().await.unwrap()["a"], 145);
}

pub async fn only_what_is_closed_is_dropped(subject: &dyn Subject) {
    let measures = subject.measures();
    assert_eq!(measures.oldest_measured().await.unwrap(), None);
    for minute in [3, 20, 40] {
        measures.sample(at_minute(minute), gauges(1.0)).await.unwrap();
    }
    measures.drop_closed(at_minute(45)).await.unwrap();
    assert_eq!(
        (all(subject).await.len(), measures.oldest_measured().await.unwrap()),
        (3, Some(at_minute(3)))
    );

    measures.close(at_minute(30)).await.unwrap();
    measures.drop_closed(at_minute(15)).await.unwrap();
    let rest = all(subject).await;
    measures.drop_closed(at_minute(45)).await.unwrap();

    assert_eq!(rest.iter().map(|it| it.at).collect::<Vec<_>>(), [at_minute(15), at_minute(40)]);
    assert_eq!(measures.oldest_measured().await.unwrap(), Some(at_minute(40)));
}

pub async fn what_was_measured_is_found_by_its_time(subject: &dyn Subject) {
    let measures = subject.measures();
    for minute in 0..5 {
        measures.sample(at_minute(minute), gauges(1.0)).await.unwrap();
    }

    let found = measures.measured(at_minute(1), at_minute(3)).await.unwrap();

    assert_eq!(found.iter().map(|it| it.at).collect::<Vec<_>>(), [at_minute(1), at_minute(2)]);
}

pub async fn the_last_records_up_to_a_place_are_those_before_it(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.live(2).await;
    world.end(1).await;
    let all = world.store.history(Some(SandboxId(1)), Seq(0), 100).await.unwrap();
    let place = all.len() - 2;

    let found = subject.measures().records_up_to(SandboxId(1), all[place].seq, 3).await.unwrap();

    assert_eq!(found, all[place - 2..=place]);
}
