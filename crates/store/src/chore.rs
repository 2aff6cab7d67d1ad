//! What is done at its times, whoever is there to do it: each chore with its next time and who is at it, and what its
//! last runs came to. Beside [`crate::Store`], which engines use for sandboxes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Where chores are remembered. The same promises hold as for [`crate::Store`].
#[async_trait]
pub trait Chores: Send + Sync + 'static {
    /// Makes a chore known. One that is known with the same schedule keeps its time.
    async fn plan(&self, chore: &str, schedule: &str, due_at: Timestamp) -> Result<(), StoreError>;

    /// All of them, by name.
    async fn chores(&self) -> Result<Vec<Chore>, StoreError>;

    /// Takes the turn of a chore that is due, unless somebody is at it. Of any number that try, one gets it. Whoever
    /// held it for longer than was said is taken for dead, and its run for lost.
    async fn take(&self, ask: TakeTurn) -> Result<Option<Turn>, StoreError>;

    /// Holds a turn for longer. False: it is somebody else's by now.
    async fn hold(&self, turn: &Turn, until: Timestamp) -> Result<bool, StoreError>;

    /// Writes what a turn came to, and when the next one is due. False: it is somebody else's by now, and nothing was
    /// written.
    async fn finish(
        &self,
        turn: &Turn,
        at: Timestamp,
        next_due: Timestamp,
        came_to: CameTo,
    ) -> Result<bool, StoreError>;

    /// Writes a run that was nobody's turn: somebody asked for it.
    async fn add_run(&self, run: NewRun) -> Result<RunId, StoreError>;

    /// The last runs of one chore or of all, the newest first. Of each chore, [`RUNS_KEPT`] are kept.
    async fn runs(&self, chore: Option<&str>, limit: usize) -> Result<Vec<Run>, StoreError>;
}

/// Of one chore.
pub const RUNS_KEPT: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chore {
    pub name: String,
    /// As it was planned last.
    pub schedule: String,
    pub due_at: Timestamp,
    pub held: Option<Held>,
    /// The last run that was a turn of it, the one under way included.
    pub last_run: Option<Run>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub by: NodeId,
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeTurn {
    pub chore: String,
    pub node: NodeId,
    pub now: Timestamp,
    pub hold_until: Timestamp,
}

/// The right to do a chore now. Its number tells it from every other turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub chore: String,
    pub run: RunId,
    pub due_at: Timestamp,
}

/// Grows with every run, across all chores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    pub chore: String,
    pub node: NodeId,
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    pub came_to: CameTo,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub chore: String,
    pub node: NodeId,
    /// When it should have begun. None: somebody asked for it.
    pub due_at: Option<Timestamp>,
    pub began_at: Timestamp,
    /// None: it is under way.
    pub ended: Option<RunEnded>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnded {
    pub at: Timestamp,
    pub came_to: CameTo,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameTo {
    Done(Figures),
    /// It could not be done at all, or not to its end.
    Failed {
        error: String,
        figures: Figures,
    },
    /// Whoever was at it held it for too long, and another took its place.
    Lost,
}

/// What a run has seen and done. Ids are named up to [`IDS_NAMED`] of each kind, and counted beyond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Figures {
    pub scanned: u64,
    pub found: u64,
    pub ended: u64,
    pub failed: u64,
    pub kept: u64,
    /// Records that were past retention, and under pressure old logs and artifacts too.
    pub pruned: u64,
    /// How many were found for which reason.
    pub reasons: BTreeMap<String, u64>,
    /// How many of those were ended. Runs of earlier versions do not tell.
    pub ended_reasons: BTreeMap<String, u64>,
    pub found_ids: Vec<SandboxId>,
    pub ended_ids: Vec<SandboxId>,
    pub failures: Vec<ItemFailed>,
}

/// Of each kind, in one run.
pub const IDS_NAMED: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemFailed {
    pub sandbox: SandboxId,
    pub why: String,
}

impl CameTo {
    /// None: it is not known.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Done(figures) | Self::Failed { figures, .. } => Some(figures),
            Self::Lost => None,
        }
    }

    /// Whoever judges a run goes by this. One that got through and could not end all that it found is none.
    #[must_use]
    pub fn is_success(&self) -> bool {
        match self {
            Self::Done(figures) => figures.failed == 0,
            Self::Failed { .. } | Self::Lost => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_an_earlier_version_can_be_read_and_tells_no_reasons_of_ends() {
        let earlier = r#"{"done":{"scanned":4,"found":2,"ended":2,"reasons":{"silent":2}}}"#;

        let CameTo::Done(figures) = serde_json::from_str(earlier).unwrap() else { panic!("it was done") };

        assert_eq!((figures.ended, figures.reasons["silent"]), (2, 2));
        assert_eq!(figures.ended_reasons, BTreeMap::new());
    }

    #[test]
    fn a_run_is_a_success_when_it_came_to_its_end_and_could_end_all_that_it_found() {
        let done = |ended, failed| CameTo::Done(Figures { found: 2, ended, failed, ..Figures::default() });
        let broken = CameTo::Failed { error: "the disk is full".into(), figures: Figures::default() };

        let verdicts = [done(2, 0), done(1, 1), broken, CameTo::Lost].map(|it| it.is_success());

        assert_eq!(verdicts, [true, false, false, false]);
    }
}
