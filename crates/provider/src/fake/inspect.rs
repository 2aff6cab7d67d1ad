//! The [`Inspect`] implementation of the fake: the probes of a real instance, answered from memory.

use std::time::Duration;

use async_trait::async_trait;
use pinfold_lifecycle::ResourceUsage;

use super::provider::FakeProvider;
use super::world::FakeInstance;
use super::{Call, Fault};
use crate::{Inspect, InstanceError, InstanceFault, InstanceId, ProbeReport, ProcessInfo, Provider};

const GONE: &str = "there is no keeper process";
const SILENT: &str = "the keeper does not answer";
const MISSING: &str = "/workspace is missing";

#[async_trait]
impl Inspect for FakeProvider {
    async fn examine(&self, instance: InstanceId) -> Vec<ProbeReport> {
        let plan = self.begin(Call::Probe).await;
        let now = self.now();
        let reports = match (self.contents().alive(instance, now), plan.fault) {
            (None, _) => failing(InstanceFault::KeeperGone, GONE, (InstanceFault::KeeperSilent, SILENT)),
            (Some(fake), Some(Fault::Fails)) => {
                let mut reports = passing(fake);
                for report in reports.iter_mut().filter(|report| report.probe.starts_with("files")) {
                    fail(report, InstanceFault::Filesystem, MISSING);
                }
                reports
            }
            (Some(fake), Some(Fault::HalfDone | Fault::ObserveFails)) => {
                let mut reports = passing(fake);
                for report in reports.iter_mut().skip(1) {
                    fail(report, InstanceFault::KeeperSilent, SILENT);
                }
                reports
            }
            (Some(fake), Some(Fault::AnswerLost) | None) => passing(fake),
        };
        self.answer(plan, reports).await
    }

    async fn total_usage(&self, instance: InstanceId) -> Option<ResourceUsage> {
        let used = self.usage(instance).await.ok()?;
        Some(ResourceUsage {
            cpu_ms: used.cpu_ms,
            memory_peak_bytes: used.memory_peak_bytes,
            io_read_bytes: used.io_read_bytes,
            io_written_bytes: used.io_written_bytes,
        })
    }

    async fn processes(&self, instance: InstanceId) -> Result<Vec<ProcessInfo>, InstanceError> {
        let now = self.now();
        match self.contents().alive(instance, now) {
            Some(fake) => Ok(fake.processes.values().flat_map(|process| process.processes()).collect()),
            None => Err(InstanceError::NoSuchInstance),
        }
    }
}

/// Names as in the Linux provider. The first is about process 1 itself.
fn passing(fake: &FakeInstance) -> Vec<ProbeReport> {
    let answers = [
        ("process 1", "alive".to_owned()),
        ("control ping", "the keeper answers".to_owned()),
        ("executions", format!("{} executions", fake.processes.len())),
        ("files and a command", "a file and a command work".to_owned()),
        ("files of /workspace", "the directory can be listed".to_owned()),
        ("disk", format!("{} bytes", fake.files.size())),
    ];
    let report =
        |(probe, answer)| ProbeReport { probe, passed: true, answer, took: Duration::ZERO, fault: None };
    answers.into_iter().map(report).collect()
}

fn failing(first: InstanceFault, why: &str, rest: (InstanceFault, &str)) -> Vec<ProbeReport> {
    let mut reports = passing(&FakeInstance::default());
    for (index, report) in reports.iter_mut().enumerate() {
        let (fault, why) = if index == 0 { (first, why) } else { rest };
        fail(report, fault, why);
    }
    reports
}

fn fail(report: &mut ProbeReport, fault: InstanceFault, why: &str) {
    report.passed = false;
    report.fault = Some(fault);
    why.clone_into(&mut report.answer);
}
