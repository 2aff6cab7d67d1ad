//! Checks that a cleanup ended exactly the stuck sandboxes, each with its own cause and a receipt.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use pinfold_api::{CleanupLayer, CleanupOutcome, CleanupRun};
use pinfold_lifecycle::{Cause, Finding, Life, SandboxId};
use pinfold_store::{RunOutcome, RunReport};

use crate::fixture::Fixture;
use crate::sandboxes::Sandboxes;

const WAYS: [&str; 4] = ["failed", "never_ready", "overdue", "silent"];

impl Fixture {
    pub async fn check_ended_exactly_the_stuck(&self, sandboxes: &Sandboxes, run: &CleanupRun) -> Result<()> {
        check_run_record(sandboxes, run)?;
        let (run_report, stuck) = (self.run_report().await?, sandboxes.stuck.keys().copied().collect());
        let (found, ended) = (set_of(&run_report.found_ids), set_of(&run_report.ended_ids));
        ensure!(found == stuck, "it found {found:?}, and {stuck:?} were stuck");
        ensure!(ended == stuck, "it ended {ended:?}, and {stuck:?} were stuck");
        for (id, cause) in &sandboxes.stuck {
            self.check_proven_gone(*id, *cause).await?;
        }
        let instances: BTreeMap<_, _> = self.instances().await?.into_iter().collect();
        let working = sandboxes.working.iter().map(|id| (*id, true)).collect();
        ensure!(instances == working, "the instances are {instances:?}, but {working:?} were working");
        for id in &sandboxes.working {
            ensure!(self.stored(*id).await?.sandbox.executions.len() == 1, "{id} has no execution any more");
        }
        Ok(())
    }

    async fn check_proven_gone(&self, id: SandboxId, cause: Cause) -> Result<()> {
        let life = self.stored(id).await?.sandbox.life;
        let Life::Ended { cause: ended, receipt, .. } = life else { bail!("{id} has not ended") };
        ensure!(ended == cause, "{id} was ended for {ended:?} and not for {cause:?}");
        let is_absent = receipt.checks.iter().all(|check| check.result == Finding::Absent);
        ensure!(is_absent, "{id} is not proven gone: {receipt:?}");
        Ok(())
    }

    /// Only the store has the ids of the ended sandboxes.
    async fn run_report(&self) -> Result<RunReport> {
        let runs = self.service.host().store.runs(None, 10).await?;
        let [run] = &runs[..] else { bail!("expected one run: {runs:?}") };
        match &run.ended.as_ref().context("the run has no end")?.outcome {
            RunOutcome::Done(run_report) => Ok(run_report.clone()),
            other => bail!("the run ended with {other:?}"),
        }
    }
}

/// Checks the run's record as the API shows it.
fn check_run_record(sandboxes: &Sandboxes, run: &CleanupRun) -> Result<()> {
    let is_scheduled = run.layer == CleanupLayer::Scheduled && run.due_at.is_some();
    ensure!(is_scheduled && run.outcome == CleanupOutcome::Done, "not a completed scheduled run: {run:?}");
    let (stuck, all) =
        (sandboxes.stuck.len() as u64, (sandboxes.working.len() + sandboxes.stuck.len()) as u64);
    let counted = (run.scanned, run.found, run.ended, run.failed, run.kept);
    ensure!(counted == (all, stuck, stuck, 0, 0), "{stuck} of {all} were stuck: {run:?}");
    let reasons = WAYS.map(|way| (way.to_owned(), stuck / WAYS.len() as u64));
    ensure!(run.reasons == BTreeMap::from(reasons), "other reasons: {:?}", run.reasons);
    Ok(())
}

fn set_of(ids: &[SandboxId]) -> BTreeSet<SandboxId> {
    ids.iter().copied().collect()
}
