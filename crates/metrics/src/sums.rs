//! Numbers by name that add up, whoever counted them. A name is that of a metric and its labels, with `|` between;
//! names that begin with `max.` keep the largest instead.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Begins the names whose numbers are not added up.
pub(crate) const MAX: &str = "max.";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sums(pub BTreeMap<String, u64>);

impl Sums {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn merge(&mut self, other: &Self) {
        for (name, number) in &other.0 {
            self.put(name, *number);
        }
    }

    /// One more of this.
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

    /// None: nobody counted any.
    #[must_use]
    pub fn known(&self, metric: &str, labels: &[&str]) -> Option<u64> {
        self.0.get(&named(metric, labels)).copied()
    }

    /// Of one metric, whatever its labels say.
    #[must_use]
    pub fn total(&self, metric: &str) -> u64 {
        self.of(metric).map(|(_, number)| number).fold(0, u64::saturating_add)
    }

    /// One metric by its labels, in their order.
    pub fn of<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = (Vec<&'a str>, u64)> {
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
    fn sums_add_up_and_the_largest_stays() {
        let mut one = Sums::default();
        one.add("executions", &["VALIDATION", "completed"], 2);
        one.add("max.memory", &[], 7);
        let mut other = Sums::default();
        other.add("executions", &["VALIDATION", "completed"], 3);
        other.add("executions", &["VALIDATION", "inactivity"], 1);
        other.add("max.memory", &[], 5);

        one.merge(&other);

        assert_eq!(one.get("executions", &["VALIDATION", "completed"]), 5);
        assert_eq!(one.total("executions"), 6);
        assert_eq!(one.get("max.memory", &[]), 7);
    }

    #[test]
    fn a_metric_is_not_one_whose_name_begins_like_it() {
        let mut sums = Sums::default();
        sums.count("executions", &["a"]);
        sums.count("executions_failed", &["a"]);

        assert_eq!(sums.of("executions").collect::<Vec<_>>(), [(vec!["a"], 1)]);
        assert_eq!(sums.known("executions_lost", &[]), None);
    }
}
