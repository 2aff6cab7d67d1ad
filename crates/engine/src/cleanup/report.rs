//! What a cleanup has seen and done, for whoever asked, for the log and for the store.

use std::collections::BTreeMap;

use pinfold_lifecycle::{Cause, Level, Receipt, Resource, SandboxId, Stuck, Timestamp};
use pinfold_store::{Figures, IDS_NAMED, ItemFailed};

use crate::{Disagreement, How, ReconcileReport};

/// The ways to clean up. Each finds by other means than the others, so that none of them has to be right alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// What is recorded, and whether what is at work gives a sign of life.
    Scheduled,
    /// The same for all that is old, and its body has to answer, whatever is recorded of it.
    ByAge,
    /// Where something runs short: what is past its time, and then what does nothing, the oldest first.
    Pressure,
    /// Every record against every body, and how each fares against what is recorded of it.
    Reconcile,
    /// Everything that is not critical. Only where somebody asks for it.
    Emergency,
}

impl Layer {
    /// Those that have their times.
    pub const IN_TURN: [Self; 4] = [Self::Scheduled, Self::ByAge, Self::Pressure, Self::Reconcile];

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

    /// What the store knows it by.
    #[must_use]
    pub fn chore(self) -> &'static str {
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
    pub layer: Layer,
    pub how: How,
    pub began_at: Timestamp,
    pub took_ms: u64,
    pub scanned: u64,
    pub found: Vec<Found>,
    /// Proven gone.
    pub ended: Vec<Ended>,
    pub failed: Vec<Failed>,
    pub kept: Vec<Kept>,
    /// Records, logs and artifacts that were past their time. In a dry run, that are.
    pub pruned: u64,
    /// What of that was logs and artifacts took so much. What records take is not known.
    pub pruned_bytes: u64,
    /// Under pressure: how much was taken of what, at last.
    pub levels: Vec<Level>,
    pub not_measured: Vec<Resource>,
    /// It had something to do, and the log tells of it.
    pub(super) begun: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub id: SandboxId,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Stuck(Stuck),
    /// Something runs short, and this one does nothing.
    Idle,
    Emergency,
    BodyWithoutRecord,
    RecordWithoutBody,
    UnreadableRecord,
    /// It does not fare as is recorded of it.
    StatusDisagrees,
}

impl Why {
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Stuck(Stuck::NeverReady { .. }) => "never_ready",
            Self::Stuck(Stuck::Failed { .. }) => "failed",
            Self::Stuck(Stuck::Overdue { .. }) => "overdue",
            Self::Stuck(Stuck::Silent { .. }) => "silent",
            Self::Idle => "idle",
            Self::Emergency => "emergency",
            Self::BodyWithoutRecord => "body_without_record",
            Self::RecordWithoutBody => "record_without_body",
            Self::UnreadableRecord => "unreadable_record",
            Self::StatusDisagrees => "status_disagrees",
        }
    }

    /// What it is ended for. None: reconciling decides.
    pub(super) fn cause(&self) -> Option<Cause> {
        match self {
            Self::Stuck(stuck) => Some(stuck.cause()),
            Self::Idle | Self::Emergency => Some(Cause::EvictedEmergency),
            Self::BodyWithoutRecord
            | Self::RecordWithoutBody
            | Self::UnreadableRecord
            | Self::StatusDisagrees => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub id: SandboxId,
    /// None: not even its record is there any more.
    pub proof: Option<(Cause, Box<Receipt>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub id: SandboxId,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub id: SandboxId,
    pub why: Spared,
}

/// Why one was not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spared {
    Critical,
    /// Nobody could look, and what is not known is not taken for dead.
    NotMeasured {
        why: String,
    },
    /// Between the look and the end it was well again.
    Recovered,
    /// It is being ended already, by its own deadlines.
    Ending,
    /// Its body could not be proven gone: it is looked at again and again.
    Quarantined,
    /// It waits in the pool, and is nobody's sandbox.
    Pooled,
    /// Its record cannot be read. Reconciling puts it into quarantine.
    Unreadable,
}

impl Spared {
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
    pub(super) fn begin(layer: Layer, how: How, began_at: Timestamp) -> Self {
        Self {
            layer,
            how,
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
            begun: false,
        }
    }

    pub(super) fn acts(&self) -> bool {
        self.how == How::Act
    }

    pub(super) fn find(&mut self, id: SandboxId, why: Why) {
        self.found.push(Found { id, why });
    }

    pub(super) fn keep(&mut self, id: SandboxId, why: Spared) {
        self.kept.push(Kept { id, why });
    }

    /// What reconciling has found. What follows from it goes on by itself.
    pub(super) fn take_in(&mut self, compared: &ReconcileReport) {
        self.scanned = compared.records as u64;
        for body in &compared.bodies_without_record {
            self.find(body.sandbox, Why::BodyWithoutRecord);
        }
        for id in &compared.records_without_body {
            self.find(*id, Why::RecordWithoutBody);
        }
        for id in &compared.unreadable_records {
            self.find(*id, Why::UnreadableRecord);
        }
    }

    /// A body that is not there fails its probe too, and was told of already.
    pub(super) fn take_in_disagreements(&mut self, disagreements: &[Disagreement]) {
        for Disagreement { sandbox, .. } in disagreements {
            if self.found.iter().all(|found| found.id != *sandbox) {
                self.find(*sandbox, Why::StatusDisagrees);
            }
        }
    }

    pub(super) fn tell_beginning(&mut self) {
        self.begun = true;
        tracing::info!(layer = self.layer.word(), dry_run = !self.acts(), "Sandbox cleanup started");
    }

    pub(super) fn tell_found(&self) {
        let (layer, found) = (self.layer.word(), self.found.len());
        tracing::info!(layer, scanned = self.scanned, found, "Found {found} sandboxes to cleanup");
    }

    /// Where nothing ran short there is nothing to tell, minute after minute.
    pub(super) fn tell_end(&self) {
        let Self { layer, took_ms, pruned, pruned_bytes, .. } = self;
        let (layer, cleaned, failed, kept) =
            (layer.word(), self.ended.len(), self.failed.len(), self.kept.len());
        if self.begun {
            tracing::info!(layer, cleaned, failed, kept, pruned, pruned_bytes, took_ms, "Cleanup completed");
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let why: BTreeMap<_, _> = self.found.iter().map(|found| (found.id, found.why.word())).collect();
        let ended = self.ended.iter().filter_map(|ended| why.get(&ended.id).copied());
        let failure = |failed: &Failed| ItemFailed { sandbox: failed.id, why: failed.why.clone() };
        Figures {
            scanned: self.scanned,
            found: self.found.len() as u64,
            ended: self.ended.len() as u64,
            failed: self.failed.len() as u64,
            kept: self.kept.len() as u64,
            pruned: self.pruned,
            reasons: counted(self.found.iter().map(|found| found.why.word())),
            ended_reasons: counted(ended),
            found_ids: self.found.iter().map(|found| found.id).take(IDS_NAMED).collect(),
            ended_ids: self.ended.iter().map(|ended| ended.id).take(IDS_NAMED).collect(),
            failures: self.failed.iter().map(failure).take(IDS_NAMED).collect(),
        }
    }
}

fn counted(reasons: impl Iterator<Item = &'static str>) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for reason in reasons {
        *counted.entry(reason.to_owned()).or_default() += 1;
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_reason_it_is_told_how_many_were_found_and_ended() {
        let mut report = CleanupReport::begin(Layer::Scheduled, How::Act, Timestamp(0));
        let never_ready = Why::Stuck(Stuck::NeverReady { since: Timestamp(0) });
        let whys = [never_ready, never_ready, Why::Idle, Why::Emergency];
        for (number, why) in whys.into_iter().enumerate() {
            report.find(SandboxId(number as u128), why);
        }

        report.ended = [1, 2].map(|number| Ended { id: SandboxId(number), proof: None }).to_vec();

        let figures = report.figures();
        let of = |counts: &[(&str, u64)]| counts.iter().map(|(why, it)| ((*why).to_owned(), *it)).collect();
        assert_eq!(figures.reasons, of(&[("never_ready", 2), ("idle", 1), ("emergency", 1)]));
        assert_eq!(figures.ended_reasons, of(&[("never_ready", 1), ("idle", 1)]));
    }
}
