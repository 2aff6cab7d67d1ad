//! Whether a turn of cleanup ended those that were stuck, each for its own reason and with a proof, and nobody else.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use pinfold_api::{CleanupLayer, CleanupOutcome, CleanupRun};
use pinfold_lifecycle::{Cause, Finding, Life, SandboxId};
use pinfold_store::{CameTo, Chores, Figures};

use crate::crowd::Crowd;
use crate::ground::Ground;

const WAYS: [&str; 4] = ["failed", "never_ready", "overdue", "silent"];

impl Ground {
    pub async fn has_ended_exactly_the_stuck(&self, crowd: &Crowd, run: &CleanupRun) -> Result<()> {
        tells_of_exactly_the_stuck(crowd, run)?;
        let (figures, stuck) = (self.figures().await?, crowd.stuck.keys().copied().collect());
        let (found, ended) = (set_of(&figures.found_ids), set_of(&figures.ended_ids));
        ensure!(found == stuck, "it found {found:?}, and {stuck:?} were stuck");
        ensure!(ended == stuck, "it ended {ended:?}, and {stuck:?} were stuck");
        for (id, cause) in &crowd.stuck {
            self.is_proven_gone(*id, *cause).await?;
        }
        let bodies: BTreeMap<_, _> = self.bodies().await?.into_iter().collect();
        let at_work = crowd.at_work.iter().map(|id| (*id, true)).collect();
        ensure!(bodies == at_work, "the bodies are {bodies:?}, and {at_work:?} were at work");
        for id in &crowd.at_work {
            ensure!(self.stored(*id).await?.sandbox.executions.len() == 1, "{id} does not work any more");
        }
        Ok(())
    }

    async fn is_proven_gone(&self, id: SandboxId, cause: Cause) -> Result<()> {
        let life = self.stored(id).await?.sandbox.life;
        let Life::Ended { cause: ended, receipt, .. } = life else { bail!("{id} has not ended") };
        ensure!(ended == cause, "{id} was ended for {ended:?} and not for {cause:?}");
        let is_absent = receipt.checks.iter().all(|check| check.result == Finding::Absent);
        ensure!(is_absent, "{id} is not proven gone: {receipt:?}");
        Ok(())
    }

    /// The ids of those that were ended are for the store alone.
    async fn figures(&self) -> Result<Figures> {
        let runs = self.service.host().store.runs(None, 10).await?;
        let [run] = &runs[..] else { bail!("there was not one turn: {runs:?}") };
        match &run.ended.as_ref().context("the turn has no end")?.came_to {
            CameTo::Done(figures) => Ok(figures.clone()),
            other => bail!("the turn came to {other:?}"),
        }
    }
}

/// By its record, as everybody can read it.
fn tells_of_exactly_the_stuck(crowd: &Crowd, run: &CleanupRun) -> Result<()> {
    let is_scheduled = run.layer == CleanupLayer::Scheduled && run.due_at.is_some();
    ensure!(is_scheduled && run.outcome == CleanupOutcome::Done, "no scheduled turn that is done: {run:?}");
    let (stuck, all) = (crowd.stuck.len() as u64, (crowd.at_work.len() + crowd.stuck.len()) as u64);
    let counted = (run.scanned, run.found, run.ended, run.failed, run.kept);
    ensure!(counted == (all, stuck, stuck, 0, 0), "{stuck} of {all} were stuck: {run:?}");
    let reasons = WAYS.map(|way| (way.to_owned(), stuck / WAYS.len() as u64));
    ensure!(run.reasons == BTreeMap::from(reasons), "other reasons: {:?}", run.reasons);
    Ok(())
}

fn set_of(ids: &[SandboxId]) -> BTreeSet<SandboxId> {
    ids.iter().copied().collect()
}
