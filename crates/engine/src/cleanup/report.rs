//! The report of a cleanup run, for the caller, the log and the store.

use std::collections::BTreeMap;

use pinfold_lifecycle::{Cause, Receipt, Resource, ResourceLevel, SandboxId, Stuck, Timestamp};
use pinfold_store::{ItemFailure, MAX_IDS_PER_RUN, RunReport};

use crate::{CleanupMode, ReconcileReport, StatusMismatch};

/// The layers of cleanup. Each finds sandboxes by different means, so none has to be right alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CleanupLayer {
    /// By recorded state, and by activity for busy sandboxes.
    Scheduled,
    /// Like `Scheduled` for old sandboxes, whose instances must also pass a probe.
    ByAge,
    /// When a resource is scarce: stale data, then idle sandboxes, oldest first.
    Pressure,
    /// Compares all records with all instances, and recorded with probed health.
    Reconcile,
    /// Every sandbox that is not critical. Only on request.
    Emergency,
}

impl CleanupLayer {
    /// The layers that run on a schedule.
    pub const SCHEDULED_LAYERS: [Self; 4] = [Self::Scheduled, Self::ByAge, Self::Pressure, Self::Reconcile];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::ByAge => "by_age",
            Self::Pressure => "pressure",
            Self::Reconcile => "reconcile",
            Self::Emergency => "emergency",
        }
    }

    /// The job name in the store.
    #[must_use]
    pub fn job_name(self) -> &'static str {
        match self {
            Self::Scheduled => "cleanup.scheduled",
            Self::ByAge => "cleanup.by_age",
            Self::Pressure => "cleanup.pressure",
            Self::Reconcile => "cleanup.reconcile",
            Self::Emergency => "cleanup.emergency",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupReport {
    pub layer: CleanupLayer,
    pub mode: CleanupMode,
    pub began_at: Timestamp,
    pub took_ms: u64,
    pub scanned: u64,
    pub found: Vec<FoundSandbox>,
    /// Sandboxes proven gone.
    pub ended: Vec<EndedSandbox>,
    pub failed: Vec<FailedSandbox>,
    pub kept: Vec<KeptSandbox>,
    /// Records, logs and artifacts deleted because they were past retention; in a dry run, those that would be.
    pub pruned: u64,
    /// Size of the deleted logs and artifacts. The size of records is not measured.
    pub pruned_bytes: u64,
    /// Utilisation measured last, in the pressure layer.
    pub levels: Vec<ResourceLevel>,
    pub not_measured: Vec<Resource>,
    /// `log_start` was called, so the end is logged too.
    pub(super) logged_start: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSandbox {
    pub id: SandboxId,
    pub why: CleanupReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupReason {
    Stuck(Stuck),
    /// A resource is scarce and this sandbox is idle.
    Idle,
    Emergency,
    InstanceWithoutRecord,
    RecordWithoutInstance,
    UnreadableRecord,
    /// The recorded status contradicts a probe.
    StatusDisagrees,
}

impl CleanupReason {
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Stuck(Stuck::NeverReady { .. }) => "never_ready",
            Self::Stuck(Stuck::Failed { .. }) => "failed",
            Self::Stuck(Stuck::Overdue { .. }) => "overdue",
            Self::Stuck(Stuck::Silent { .. }) => "silent",
            Self::Idle => "idle",
            Self::Emergency => "emergency",
            Self::InstanceWithoutRecord => "instance_without_record",
            Self::RecordWithoutInstance => "record_without_instance",
            Self::UnreadableRecord => "unreadable_record",
            Self::StatusDisagrees => "status_disagrees",
        }
    }

    /// The cause recorded for the stop. None: reconciliation decides.
    pub(super) fn cause(&self) -> Option<Cause> {
        match self {
            Self::Stuck(stuck) => Some(stuck.cause()),
            Self::Idle | Self::Emergency => Some(Cause::EvictedEmergency),
            Self::InstanceWithoutRecord
            | Self::RecordWithoutInstance
            | Self::UnreadableRecord
            | Self::StatusDisagrees => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSandbox {
    pub id: SandboxId,
    /// None: the record is gone too.
    pub proof: Option<(Cause, Box<Receipt>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedSandbox {
    pub id: SandboxId,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSandbox {
    pub id: SandboxId,
    pub why: KeepReason,
}

/// Why a sandbox was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepReason {
    Critical,
    /// It could not be observed. Unknown is never taken for dead.
    NotMeasured {
        why: String,
    },
    /// It recovered between the sweep and its end.
    Recovered,
    /// It is already ending by its own deadlines.
    Ending,
    /// Its instance could not be proven gone; quarantine keeps observing it.
    Quarantined,
    /// It is in the warm pool, unclaimed.
    Pooled,
    /// Its record cannot be read. Reconciliation quarantines it.
    Unreadable,
}

impl KeepReason {
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::NotMeasured { .. } => "not_measured",
            Self::Recovered => "recovered",
            Self::Ending => "ending",
            Self::Quarantined => "quarantined",
            Self::Pooled => "pooled",
            Self::Unreadable => "unreadable",
        }
    }
}

impl CleanupReport {
    pub(super) fn begin(layer: CleanupLayer, mode: CleanupMode, began_at: Timestamp) -> Self {
        Self {
            layer,
            mode,
            began_at,
            took_ms: 0,
            scanned: 0,
            found: Vec::new(),
            ended: Vec::new(),
            failed: Vec::new(),
            kept: Vec::new(),
            pruned: 0,
            pruned_bytes: 0,
            levels: Vec::new(),
            not_measured: Vec::new(),
            logged_start: false,
        }
    }

    pub(super) fn acts(&self) -> bool {
        self.mode == CleanupMode::Act
    }

    pub(super) fn find(&mut self, id: SandboxId, why: CleanupReason) {
        self.found.push(FoundSandbox { id, why });
    }

    pub(super) fn keep(&mut self, id: SandboxId, why: KeepReason) {
        self.kept.push(KeptSandbox { id, why });
    }

    /// Adds the findings of a reconciliation, which handles them itself.
    pub(super) fn add_reconcile_report(&mut self, compared: &ReconcileReport) {
        self.scanned = compared.records as u64;
        for instance in &compared.instances_without_record {
            self.find(instance.sandbox, CleanupReason::InstanceWithoutRecord);
        }
        for id in &compared.records_without_instance {
            self.find(*id, CleanupReason::RecordWithoutInstance);
        }
        for id in &compared.unreadable_records {
            self.find(*id, CleanupReason::UnreadableRecord);
        }
    }

    /// Adds status mismatches. A missing instance also fails its probe and was already added.
    pub(super) fn add_status_mismatches(&mut self, disagreements: &[StatusMismatch]) {
        for StatusMismatch { sandbox, .. } in disagreements {
            if self.found.iter().all(|found| found.id != *sandbox) {
                self.find(*sandbox, CleanupReason::StatusDisagrees);
            }
        }
    }

    pub(super) fn log_start(&mut self) {
        self.logged_start = true;
        tracing::info!(layer = self.layer.word(), dry_run = !self.acts(), "Sandbox cleanup started");
    }

    pub(super) fn log_found(&self) {
        let (layer, found) = (self.layer.word(), self.found.len());
        tracing::info!(layer, scanned = self.scanned, found, "Found {found} sandboxes to cleanup");
    }

    /// Logs the end only if the start was logged: the pressure layer runs every minute and mostly finds
    /// nothing.
    pub(super) fn log_end(&self) {
        let Self { layer, took_ms, pruned, pruned_bytes, .. } = self;
        let (layer, cleaned, failed, kept) =
            (layer.word(), self.ended.len(), self.failed.len(), self.kept.len());
        if self.logged_start {
            tracing::info!(layer, cleaned, failed, kept, pruned, pruned_bytes, took_ms, "Cleanup completed");
        }
    }

    pub(super) fn run_report(&self) -> RunReport {
        let why: BTreeMap<_, _> = self.found.iter().map(|found| (found.id, found.why.word())).collect();
        let ended = self.ended.iter().filter_map(|ended| why.get(&ended.id).copied());
        let failure = |failed: &FailedSandbox| ItemFailure { sandbox: failed.id, error: failed.why.clone() };
        RunReport {
            scanned: self.scanned,
            found: self.found.len() as u64,
            ended: self.ended.len() as u64,
            failed: self.failed.len() as u64,
            kept: self.kept.len() as u64,
            pruned: self.pruned,
            reasons: count_reasons(self.found.iter().map(|found| found.why.word())),
            ended_reasons: count_reasons(ended),
            found_ids: self.found.iter().map(|found| found.id).take(MAX_IDS_PER_RUN).collect(),
            ended_ids: self.ended.iter().map(|ended| ended.id).take(MAX_IDS_PER_RUN).collect(),
            failures: self.failed.iter().map(failure).take(MAX_IDS_PER_RUN).collect(),
        }
    }
}

fn count_reasons(reasons: impl Iterator<Item = &'static str>) -> BTreeMap<String, u64> {
    let mut count_reasons = BTreeMap::new();
    for reason in reasons {
        *count_reasons.entry(reason.to_owned()).or_default() += 1;
    }
    count_reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_report_counts_found_and_ended_per_reason() {
        let mut report = CleanupReport::begin(CleanupLayer::Scheduled, CleanupMode::Act, Timestamp(0));
        let never_ready = CleanupReason::Stuck(Stuck::NeverReady { since: Timestamp(0) });
        let whys = [never_ready, never_ready, CleanupReason::Idle, CleanupReason::Emergency];
        for (number, why) in whys.into_iter().enumerate() {
            report.find(SandboxId(number as u128), why);
        }

        report.ended = [1, 2].map(|number| EndedSandbox { id: SandboxId(number), proof: None }).to_vec();

        let run_report = report.run_report();
        let of = |counts: &[(&str, u64)]| counts.iter().map(|(why, it)| ((*why).to_owned(), *it)).collect();
        assert_eq!(run_report.reasons, of(&[("never_ready", 2), ("idle", 1), ("emergency", 1)]));
        assert_eq!(run_report.ended_reasons, of(&[("never_ready", 1), ("idle", 1)]));
    }
}
