//! All metrics at one moment, in catalogue order, and the texts for Prometheus. Unknown values are omitted, never shown
//! as 0.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pinfold_lifecycle::{AdmissionRefusal, HostShortage, Totals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::catalogue::{self as names, CATALOGUE, CPU, HTTP, Kind, Metric};
use crate::cleanup::{FAILED, ITEMS, LAYERS, SUCCEEDED, last_run};
use crate::gauges::{AGES, Gauges, OLDER, bytes};
use crate::labels::CAUSES;
use crate::latency::float;
use crate::rates::{GONE, QUARANTINED};
use crate::{AgentTypes, Counters, Family, HistogramValue, Latency, Point, ProcessMetrics, Value, word};

/// Text formats that Prometheus reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// The format that every scraper and `promtool` read.
    Classic,
    OpenMetrics,
}

impl TextFormat {
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All metrics at one moment.
#[derive(Debug, Clone)]
pub struct Exposition {
    /// All counters since the beginning.
    pub counters: Counters,
    /// The agent types that are shown even before they were used.
    pub agent_types: AgentTypes,
    pub gauges: Gauges,
}

impl Exposition {
    pub fn text(self, meter: &ProcessMetrics, format: TextFormat) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Families(self.families(meter))));
        let mut entry = String::new();
        text::encode(&mut entry, &registry)?;
        Ok(match format {
            TextFormat::Classic => classic(&entry),
            TextFormat::OpenMetrics => entry,
        })
    }

    /// The metrics that have a value.
    #[must_use]
    pub fn families(&self, meter: &ProcessMetrics) -> Vec<Family> {
        let number = |(labels, value)| Point { labels, value: Value::Number(value) };
        let points = |metric: &Metric| -> Vec<Point> {
            match metric.kind {
                Kind::Counter => self.counters(metric).into_iter().map(number).collect(),
                Kind::Gauge => self.gauges(metric).into_iter().map(number).collect(),
                Kind::Histogram if metric.name == HTTP => meter.answers(),
                Kind::Histogram => self.histograms(metric),
            }
        };
        let families = CATALOGUE.iter().map(|metric| Family { metric, points: points(metric) });
        families.filter(|family| !family.points.is_empty()).collect()
    }

    fn counters(&self, metric: &Metric) -> Vec<(Vec<String>, f64)> {
        let Totals { created, destroyed, attested, .. } = self.gauges.totals;
        let plain = |value: u64| vec![(Vec::new(), float(value))];
        match metric.name {
            names::CREATED => plain(created),
            names::DESTROYED => plain(destroyed),
            names::ATTESTED => plain(attested),
            name => {
                let scale = if name == CPU { 1_000.0 } else { 1.0 };
                // Counters start at zero, because `increase()` needs a sample before the first event.
                let mut entry: BTreeMap<_, _> =
                    self.initial_labels(metric).into_iter().map(|it| (it, 0.0)).collect();
                entry.extend(
                    self.counters
                        .by_labels(name)
                        .map(|(labels, value)| (owned(labels), float(value) / scale)),
                );
                entry.into_iter().collect()
            }
        }
    }

    /// Label values that are shown from the beginning: those of closed lists.
    fn initial_labels(&self, metric: &Metric) -> Vec<Vec<String>> {
        let words = |label: &&str| -> Vec<String> {
            match *label {
                "agent_type" => self.agent_types.labels(),
                "cause" => CAUSES.iter().map(word).collect(),
                "kind" => ["probe", "ping"].map(str::to_owned).to_vec(),
                "verdict" => ["passed", "failed", "unknown"].map(str::to_owned).to_vec(),
                "outcome" if metric.name == names::STOP_ATTEMPTS => {
                    ["gone", "still_present", "unknown", "deadline_passed"].map(str::to_owned).to_vec()
                }
                "outcome" if metric.name == names::TIMEOUT_CLEANUPS => {
                    [GONE, QUARANTINED].map(str::to_owned).to_vec()
                }
                "outcome" => [SUCCEEDED, FAILED].map(str::to_owned).to_vec(),
                "layer" => LAYERS.map(str::to_owned).to_vec(),
                "reason" => AdmissionRefusal::WORDS
                    .into_iter()
                    .chain(HostShortage::WORDS)
                    .map(str::to_owned)
                    .collect(),
                "what" => ITEMS.map(str::to_owned).to_vec(),
                _ => Vec::new(),
            }
        };
        metric.labels.iter().fold(vec![Vec::new()], |all, label| {
            let words = words(label);
            let with = |initial_labels: &Vec<String>, word: &String| {
                [initial_labels.as_slice(), std::slice::from_ref(word)].concat()
            };
            all.iter()
                .flat_map(|initial_labels| words.iter().map(move |word| with(initial_labels, word)))
                .collect()
        })
    }

    fn gauges(&self, metric: &Metric) -> Vec<(Vec<String>, f64)> {
        let Gauges { by_status, by_age, totals, limits, .. } = &self.gauges;
        let known = |value: Option<f64>| value.map(|value| (Vec::new(), value)).into_iter().collect();
        match metric.name {
            names::SANDBOXES => {
                by_status.iter().map(|(status, number)| (vec![status.clone()], float(*number))).collect()
            }
            names::BY_AGE => {
                let ages = AGES.iter().map(|(_, age)| *age).chain([OLDER]);
                ages.zip(by_age).map(|(age, number)| (vec![age.to_owned()], float(*number))).collect()
            }
            names::CLEANUP_LAST => {
                let last = last_run();
                self.counters.by_labels(&last).map(|(labels, at)| (owned(labels), float(at))).collect()
            }
            names::ACTIVE => known(Some(float(self.gauges.active))),
            names::STUCK => known(Some(float(self.gauges.stuck))),
            names::ORPHANED => known(Some(float(self.gauges.orphaned))),
            names::POOLED => known(Some(float(totals.pooled))),
            names::LIMIT => known(limits.sandboxes.map(float)),
            names::MEMORY_ALLOCATED => known(Some(bytes(totals.taken.memory_mb))),
            names::MEMORY_LIMIT => known(limits.memory_mb.map(bytes)),
            names::MEMORY_FREE => known(self.gauges.memory_mb_left.map(bytes)),
            names::HOST_MEMORY => known(self.gauges.memory_mb_total.map(bytes)),
            names::DISK_ALLOCATED => known(Some(bytes(totals.taken.disk_mb))),
            names::DISK_LIMIT => known(limits.disk_mb.map(bytes)),
            names::DISK_FREE => known(self.gauges.disk_mb_left.map(bytes)),
            names::HOST_DISK => known(self.gauges.disk_mb_total.map(bytes)),
            names::PROCESSES_ALLOCATED => known(Some(float(totals.taken.processes))),
            names::PROCESSES_LIMIT => known(limits.processes.map(float)),
            names::PROCESSES_FREE => known(self.gauges.processes_left.map(float)),
            names::HOST_PROCESSES => known(self.gauges.processes_total.map(float)),
            names::STORE => known(self.gauges.store_bytes.map(float)),
            names::NODES => known(self.gauges.nodes.map(float)),
            _ => Vec::new(),
        }
    }

    fn histograms(&self, metric: &Metric) -> Vec<Point> {
        let timed = [
            Latency::Create,
            Latency::ExecStart,
            Latency::Stop,
            Latency::Cancel,
            Latency::Probe,
            Latency::Cleanup,
            Latency::Execution,
            Latency::Lifetime,
        ];
        let Some(what) = timed.into_iter().find(|what| metric.name == format!("{}_seconds", what.metric()))
        else {
            return Vec::new();
        };
        if metric.labels.is_empty() {
            return vec![timed_as(Vec::new(), self.counters.histogram(what, &[]))];
        }
        let sum = format!("{}.ms", what.metric());
        let mut entry: BTreeSet<_> = self.initial_labels(metric).into_iter().collect();
        entry.extend(self.counters.by_labels(&sum).map(|(labels, _)| owned(labels)));
        let times = |labels: &[String]| {
            let labels: Vec<_> = labels.iter().map(String::as_str).collect();
            self.counters.histogram(what, &labels)
        };
        entry.into_iter().map(|labels| timed_as(labels.clone(), times(&labels))).collect()
    }
}

/// OpenMetrics as classic text: there a counter's type and help carry the name of its samples, and there is no end mark.
fn classic(open_metrics: &str) -> String {
    let is_counter = |name: &str| {
        CATALOGUE.iter().any(|metric| metric.name == name && matches!(metric.kind, Kind::Counter))
    };
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let about = ["# HELP ", "# TYPE "].into_iter().find(|keyword| line.starts_with(keyword));
        match about.and_then(|keyword| Some((keyword, line.strip_prefix(keyword)?.split_once(' ')?))) {
            Some((keyword, (name, rest))) if is_counter(name) => {
                text.extend([keyword, name, "_total ", rest, "\n"]);
            }
            _ if line.starts_with("# EOF") || line.starts_with("# UNIT ") => {}
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

fn timed_as(labels: Vec<String>, times: impl Into<HistogramValue>) -> Point {
    Point { labels, value: Value::Histogram(times.into()) }
}

fn owned(labels: Vec<&str>) -> Vec<String> {
    labels.into_iter().map(str::to_owned).collect()
}

/// Rust values as label values and numbers of the text format.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut entry = encoder.encode_descriptor(family.metric.name, &family.help(), None, kind)?;
            for Point { labels, value } in &family.points {
                if labels.is_empty() {
                    encode(&mut entry, kind, value)?;
                } else {
                    let labels = labels.iter().map(String::as_str);
                    let pairs: Vec<_> = family.metric.labels.iter().copied().zip(labels).collect();
                    encode(&mut entry.encode_family(&pairs)?, kind, value)?;
                }
            }
        }
        Ok(())
    }
}

fn encode(entry: &mut MetricEncoder<'_>, kind: MetricType, value: &Value) -> Result<(), fmt::Error> {
    match value {
        Value::Number(number) if matches!(kind, MetricType::Counter) => {
            entry.encode_counter::<NoLabelSet, _, f64>(number, None)
        }
        Value::Number(number) => entry.encode_gauge(number),
        Value::Histogram(times) => {
            let bounds = HistogramValue::bounds().chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(times.buckets).collect();
            entry.encode_histogram::<NoLabelSet>(times.sum_seconds, times.count(), &buckets, None)
        }
    }
}

#[cfg(test)]
mod tests;
