//! The text that Prometheus reads, in the order of the catalogue. What is not known is left out, never told as 0.

use std::collections::BTreeMap;
use std::fmt;

use pinfold_lifecycle::Totals;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::catalogue::{self as names, CATALOGUE, CPU, HTTP, Kind, Metric, Scope};
use crate::cleaned::{FAILED, ITEMS, LAYERS, SUCCEEDED, last_run};
use crate::labels::CAUSES;
use crate::latency::{BOUNDS_MS, Histogram, float};
use crate::standing::{AGES, OLDER, Standing, bytes};
use crate::{AgentTypes, Latency, Meter, Sums, word};

/// What the text is sent as.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All there is to tell at one moment.
#[derive(Debug, Clone)]
pub struct Exposition {
    /// Everything that was ever counted.
    pub sums: Sums,
    /// Those that are told from the beginning.
    pub agent_types: AgentTypes,
    pub standing: Standing,
}

impl Exposition {
    pub fn text(self, meter: &Meter) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        meter.register(&mut registry);
        let mut told = String::new();
        text::encode(&mut told, &registry)?;
        Ok(told)
    }

    fn counters(&self, metric: &Metric) -> Vec<(Vec<String>, f64)> {
        let Totals { created, destroyed, attested, .. } = self.standing.totals;
        let plain = |value: u64| vec![(Vec::new(), float(value))];
        match metric.name {
            names::CREATED => plain(created),
            names::DESTROYED => plain(destroyed),
            names::ATTESTED => plain(attested),
            name => {
                let scale = if name == CPU { 1_000.0 } else { 1.0 };
                // Who asks how much a counter has grown has to see it before it does.
                let mut told: BTreeMap<_, _> = self.begun(metric).into_iter().map(|it| (it, 0.0)).collect();
                told.extend(self.sums.of(name).map(|(labels, value)| (owned(labels), float(value) / scale)));
                told.into_iter().collect()
            }
        }
    }

    /// The labels that are told from the beginning: all of closed lists.
    fn begun(&self, metric: &Metric) -> Vec<Vec<String>> {
        let words = |label: &&str| -> Vec<String> {
            match *label {
                "agent_type" => self.agent_types.labels(),
                "cause" => CAUSES.iter().map(word).collect(),
                "kind" => ["probe", "ping"].map(str::to_owned).to_vec(),
                "verdict" => ["passed", "failed", "unknown"].map(str::to_owned).to_vec(),
                "outcome" if metric.name == names::STOP_ATTEMPTS => {
                    ["gone", "still_present", "unknown", "deadline_passed"].map(str::to_owned).to_vec()
                }
                "outcome" => [SUCCEEDED, FAILED].map(str::to_owned).to_vec(),
                "layer" => LAYERS.map(str::to_owned).to_vec(),
                "reason" => ["sandboxes", "memory", "disk", "processes"].map(str::to_owned).to_vec(),
                "what" => ITEMS.map(str::to_owned).to_vec(),
                _ => Vec::new(),
            }
        };
        metric.labels.iter().fold(vec![Vec::new()], |all, label| {
            let words = words(label);
            let with =
                |begun: &Vec<String>, word: &String| [begun.as_slice(), std::slice::from_ref(word)].concat();
            all.iter().flat_map(|begun| words.iter().map(move |word| with(begun, word))).collect()
        })
    }

    fn gauges(&self, metric: &Metric) -> Vec<(Vec<String>, f64)> {
        let Standing { by_status, by_age, totals, limits, .. } = &self.standing;
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
                self.sums.of(&last).map(|(labels, at)| (owned(labels), float(at))).collect()
            }
            names::ACTIVE => known(Some(float(self.standing.active))),
            names::STUCK => known(Some(float(self.standing.stuck))),
            names::ORPHANED => known(Some(float(self.standing.orphaned))),
            names::POOLED => known(Some(float(totals.pooled))),
            names::LIMIT => known(limits.sandboxes.map(float)),
            names::MEMORY_PROMISED => known(Some(bytes(totals.taken.memory_mb))),
            names::MEMORY_LIMIT => known(limits.memory_mb.map(bytes)),
            names::MEMORY_LEFT => known(self.standing.memory_mb_left.map(bytes)),
            names::DISK_PROMISED => known(Some(bytes(totals.taken.disk_mb))),
            names::DISK_LIMIT => known(limits.disk_mb.map(bytes)),
            names::DISK_LEFT => known(self.standing.disk_mb_left.map(bytes)),
            names::PROCESSES_PROMISED => known(Some(float(totals.taken.processes))),
            names::PROCESSES_LIMIT => known(limits.processes.map(float)),
            names::PROCESSES_LEFT => known(self.standing.processes_left.map(float)),
            names::STORE => known(self.standing.store_bytes.map(float)),
            names::NODES => known(self.standing.nodes.map(float)),
            _ => Vec::new(),
        }
    }

    fn histograms(&self, metric: &Metric) -> Vec<(Vec<String>, Histogram)> {
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
            return vec![(Vec::new(), self.sums.times(what, &[]))];
        }
        let sum = format!("{}.ms", what.metric());
        let labels = self.sums.of(&sum).map(|(labels, _)| labels);
        labels.map(|labels| (owned(labels.clone()), self.sums.times(what, &labels))).collect()
    }
}

fn owned(labels: Vec<&str>) -> Vec<String> {
    labels.into_iter().map(str::to_owned).collect()
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in CATALOGUE.iter().filter(|metric| metric.name != HTTP) {
            match metric.kind {
                Kind::Counter => {
                    told(&mut encoder, metric, MetricType::Counter, self.counters(metric), |to, value| {
                        to.encode_counter::<NoLabelSet, _, f64>(&value, None)
                    })?
                }
                Kind::Gauge => {
                    told(&mut encoder, metric, MetricType::Gauge, self.gauges(metric), |to, value| {
                        to.encode_gauge(&value)
                    })?
                }
                Kind::Histogram => {
                    told(
                        &mut encoder,
                        metric,
                        MetricType::Histogram,
                        self.histograms(metric),
                        |to, value| {
                            let bounds =
                                BOUNDS_MS.iter().map(|ms| float(*ms) / 1_000.0).chain([f64::INFINITY]);
                            let buckets: Vec<_> = bounds.zip(value.buckets).collect();
                            let sum = float(value.sum_ms) / 1_000.0;
                            to.encode_histogram::<NoLabelSet>(sum, value.count(), &buckets, None)
                        },
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// One metric with all its labels. One of which nothing is known is not told at all.
fn told<T>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    kind: MetricType,
    values: Vec<(Vec<String>, T)>,
    encode: impl Fn(&mut MetricEncoder<'_>, T) -> Result<(), fmt::Error>,
) -> Result<(), fmt::Error> {
    if values.is_empty() {
        return Ok(());
    }
    let whose = match metric.scope {
        Scope::Fleet => "of all servers on the store",
        Scope::Process => "of this process",
    };
    let help = format!("{} ({whose})", metric.help);
    let mut told = encoder.encode_descriptor(metric.name, &help, None, kind)?;
    for (labels, value) in values {
        if labels.is_empty() {
            encode(&mut told, value)?;
        } else {
            let pairs: Vec<_> =
                metric.labels.iter().copied().zip(labels.iter().map(String::as_str)).collect();
            encode(&mut told.encode_family(&pairs)?, value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
