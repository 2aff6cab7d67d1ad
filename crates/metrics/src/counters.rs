//! Counters by name, which can be added across processes and minutes. A name is the metric and its label values,
//! separated by `|`. Names that begin with `max.` keep the largest value instead.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Prefix of names that keep the largest value.
pub(crate) const MAX: &str = "max.";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(pub BTreeMap<String, u64>);

impl Counters {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn merge(&mut self, other: &Self) {
        for (name, number) in &other.0 {
            self.put(name, *number);
        }
    }

    /// Adds one.
    pub fn count(&mut self, metric: &str, labels: &[&str]) {
        self.add(metric, labels, 1);
    }

    pub fn add(&mut self, metric: &str, labels: &[&str], number: u64) {
        self.put(&named(metric, labels), number);
    }

    #[must_use]
    pub fn get(&self, metric: &str, labels: &[&str]) -> u64 {
        self.0.get(&named(metric, labels)).copied().unwrap_or(0)
    }

    /// `None`: never counted.
    #[must_use]
    pub fn get_known(&self, metric: &str, labels: &[&str]) -> Option<u64> {
        self.0.get(&named(metric, labels)).copied()
    }

    /// Sum over all label values of a metric.
    #[must_use]
    pub fn total(&self, metric: &str) -> u64 {
        self.by_labels(metric).map(|(_, number)| number).fold(0, u64::saturating_add)
    }

    /// The values of one metric by its label values, in order.
    pub fn by_labels<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = (Vec<&'a str>, u64)> {
        let later = self.0.range(metric.to_owned()..);
        later.take_while(move |(name, _)| name.starts_with(metric)).filter_map(move |(name, number)| {
            let rest = &name[metric.len()..];
            match rest.strip_prefix('|') {
                Some(labels) => Some((labels.split('|').collect(), *number)),
                None if rest.is_empty() => Some((Vec::new(), *number)),
                None => None,
            }
        })
    }

    fn put(&mut self, name: &str, number: u64) {
        let held = self.0.entry(name.to_owned()).or_default();
        *held = if name.starts_with(MAX) { number.max(*held) } else { held.saturating_add(number) };
    }
}

fn named(metric: &str, labels: &[&str]) -> String {
    let mut name = metric.to_owned();
    for label in labels {
        name.push('|');
        name.push_str(label);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_maxima_keep_the_largest() {
        let mut one = Counters::default();
        one.add("executions", &["VALIDATION", "completed"], 2);
        one.add("max.memory", &[], 7);
        let mut other = Counters::default();
        other.add("executions", &["VALIDATION", "completed"], 3);
        other.add("executions", &["VALIDATION", "inactivity"], 1);
        other.add("max.memory", &[], 5);

        one.merge(&other);

        assert_eq!(one.get("executions", &["VALIDATION", "completed"]), 5);
        assert_eq!(one.total("executions"), 6);
        assert_eq!(one.get("max.memory", &[]), 7);
    }

    #[test]
    fn metric_with_the_same_prefix_is_not_included() {
        let mut counters = Counters::default();
        counters.count("executions", &["a"]);
        counters.count("executions_failed", &["a"]);

        assert_eq!(counters.by_labels("executions").collect::<Vec<_>>(), [(vec!["a"], 1)]);
        assert_eq!(counters.get_known("executions_lost", &[]), None);
    }
}
