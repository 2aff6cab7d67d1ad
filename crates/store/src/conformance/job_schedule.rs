//! Scheduled jobs: one node claims each run, an expired claim is taken over, and outcomes are read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};

use super::TestedStore;
use super::fixture::{NODE, NOON, OTHER_NODE};
use crate::{
    ClaimRun, ItemFailure, JobRun, JobSchedule, RUNS_KEPT, RunClaim, RunEnd, RunHolder, RunOutcome,
    RunReport, UnscheduledRun,
};

const JOB: &str = "sweep";
const HOLD_MS: u64 = 60_000;

async fn planned(tested: &dyn TestedStore) -> Arc<dyn JobSchedule> {
    let schedule = tested.job_schedule();
    schedule.plan_job(JOB, "*/5 * * * *", NOON).await.unwrap();
    schedule
}

fn claim_request(node: NodeId, now: Timestamp) -> ClaimRun {
    ClaimRun { job: JOB.into(), node, now, expires_at: now.after_ms(HOLD_MS) }
}

async fn taken(schedule: &Arc<dyn JobSchedule>, node: NodeId, now: Timestamp) -> RunClaim {
    schedule.claim_run(claim_request(node, now)).await.unwrap().expect("it is due")
}

fn nothing() -> RunOutcome {
    RunOutcome::Done(RunReport::default())
}

fn much() -> RunReport {
    RunReport {
        scanned: 5,
        found: 3,
        ended: 2,
        failed: 1,
        kept: 1,
        pruned: 7,
        reasons: BTreeMap::from([("silent".to_owned(), 3)]),
        ended_reasons: BTreeMap::from([("silent".to_owned(), 2)]),
        found_ids: [1, 2, 3].map(SandboxId).to_vec(),
        ended_ids: [1, 2].map(SandboxId).to_vec(),
        failures: vec![ItemFailure { sandbox: SandboxId(3), error: "still there".into() }],
    }
}

pub async fn a_job_is_due_at_its_time_and_not_before(tested: &dyn TestedStore) {
    let schedule = planned(tested).await;

    let early = schedule.claim_run(claim_request(NODE, Timestamp(NOON.0 - 1))).await.unwrap();
    let claim = taken(&schedule, NODE, NOON).await;
    let next = NOON.after_ms(300_000);
    let finished = schedule.finish_run(&claim, NOON.after_ms(5), next, nothing()).await.unwrap();
    let again = schedule.claim_run(claim_request(NODE, NOON.after_ms(299_999))).await.unwrap();

    assert_eq!((early, finished, again), (None, true, None));
    assert_eq!(taken(&schedule, OTHER_NODE, next).await.due_at, next);
    assert_eq!(
        schedule.claim_run(ClaimRun { job: "unheard of".into(), ..claim_request(NODE, next) }).await.unwrap(),
        None
    );
}

pub async fn of_many_claims_on_a_due_job_one_succeeds(tested: &dyn TestedStore) {
    let schedule = planned(tested).await;

    let racing = (0..16).map(|number| {
        let schedule = schedule.clone();
        tokio::spawn(async move { schedule.claim_run(claim_request(NodeId(number), NOON)).await.unwrap() })
    });
    let mut turns = Vec::new();
    for one in racing.collect::<Vec<_>>() {
        turns.extend(one.await.unwrap());
    }

    assert_eq!(turns.len(), 1);
    assert_eq!(schedule.runs(None, 10).await.unwrap().len(), 1);
}

pub async fn an_expired_run_is_taken_over_and_its_late_outcome_changes_nothing(tested: &dyn TestedStore) {
    let schedule = planned(tested).await;
    let expired = taken(&schedule, NODE, NOON).await;
    let over = NOON.after_ms(HOLD_MS);

    let early = schedule.claim_run(claim_request(OTHER_NODE, Timestamp(over.0 - 1))).await.unwrap();
    let claim = taken(&schedule, OTHER_NODE, over).await;
    let late = schedule.finish_run(&expired, over, over.after_ms(9), RunOutcome::Done(much())).await.unwrap();
    let held = schedule.extend_claim(&expired, over.after_ms(HOLD_MS)).await.unwrap();

    assert_eq!((early, late, held), (None, false, false));
    let job = schedule.jobs().await.unwrap().remove(0);
    assert_eq!(job.holder, Some(RunHolder { node: OTHER_NODE, until: over.after_ms(HOLD_MS) }));
    let runs = schedule.runs(Some(JOB), 10).await.unwrap();
    let ends: Vec<_> = runs.iter().map(|run| (run.id, run.ended.clone())).collect();
    assert_eq!(
        ends,
        [(claim.run, None), (expired.run, Some(RunEnd { at: over, outcome: RunOutcome::Lost }))]
    );
    assert!(schedule.finish_run(&claim, over, over.after_ms(9), nothing()).await.unwrap());
}

pub async fn a_claim_can_be_extended(tested: &dyn TestedStore) {
    let schedule = planned(tested).await;
    let claim = taken(&schedule, NODE, NOON).await;

    let held = schedule.extend_claim(&claim, NOON.after_ms(2 * HOLD_MS)).await.unwrap();

    assert!(held);
    assert_eq!(
        schedule.claim_run(claim_request(OTHER_NODE, NOON.after_ms(2 * HOLD_MS - 1))).await.unwrap(),
        None
    );
    assert!(
        schedule.claim_run(claim_request(OTHER_NODE, NOON.after_ms(2 * HOLD_MS))).await.unwrap().is_some()
    );
}

pub async fn a_job_planned_again_keeps_its_due_time_unless_its_schedule_differs(tested: &dyn TestedStore) {
    let schedule = planned(tested).await;

    schedule.plan_job(JOB, "*/5 * * * *", NOON.after_ms(7)).await.unwrap();
    let same = schedule.jobs().await.unwrap().remove(0);
    schedule.plan_job(JOB, "0 * * * *", NOON.after_ms(9)).await.unwrap();
    let other = schedule.jobs().await.unwrap().remove(0);

    assert_eq!((same.due_at, same.holder, same.last_run), (NOON, None, None));
    assert_eq!((other.due_at, other.schedule.as_str()), (NOON.after_ms(9), "0 * * * *"));
}

pub async fn a_job_that_was_missed_many_times_runs_once(tested: &dyn TestedStore) {
    let schedule = planned(tested).await;
    let next_day = NOON.after_ms(24 * 3_600_000);

    let claim = taken(&schedule, NODE, next_day).await;
    schedule.finish_run(&claim, next_day, next_day.after_ms(300_000), nothing()).await.unwrap();

    assert_eq!(claim.due_at, NOON);
    assert_eq!(schedule.claim_run(claim_request(NODE, next_day)).await.unwrap(), None);
}

pub async fn a_run_is_read_back_with_its_report(tested: &dyn TestedStore) {
    let schedule = planned(tested).await;
    let claim = taken(&schedule, NODE, NOON).await;
    let failed = RunOutcome::Failed { error: "the disk is full".into(), report: much() };
    schedule.finish_run(&claim, NOON.after_ms(5), NOON.after_ms(300_000), failed.clone()).await.unwrap();
    let asked = UnscheduledRun {
        job: "by hand".into(),
        node: OTHER_NODE,
        started_at: NOON.after_ms(6),
        ended_at: NOON.after_ms(8),
        outcome: RunOutcome::Done(much()),
    };
    let id = schedule.add_run(asked.clone()).await.unwrap();

    let scheduled = JobRun {
        id: claim.run,
        job: JOB.into(),
        node: NODE,
        due_at: Some(NOON),
        started_at: NOON,
        ended: Some(RunEnd { at: NOON.after_ms(5), outcome: failed }),
    };
    let by_hand = JobRun {
        id,
        job: asked.job,
        node: OTHER_NODE,
        due_at: None,
        started_at: asked.started_at,
        ended: Some(RunEnd { at: asked.ended_at, outcome: asked.outcome }),
    };
    assert_eq!(schedule.runs(None, 10).await.unwrap(), [by_hand, scheduled.clone()]);
    assert_eq!(schedule.runs(Some(JOB), 10).await.unwrap(), std::slice::from_ref(&scheduled));
    assert_eq!(schedule.jobs().await.unwrap()[0].last_run, Some(scheduled));
}

pub async fn only_the_last_runs_of_each_job_are_kept(tested: &dyn TestedStore) {
    let schedule = tested.job_schedule();
    let run = |job: &str| UnscheduledRun {
        job: job.into(),
        node: NODE,
        started_at: NOON,
        ended_at: NOON,
        outcome: nothing(),
    };
    schedule.add_run(run("seldom")).await.unwrap();
    let first = schedule.add_run(run("often")).await.unwrap();

    for _ in 0..RUNS_KEPT {
        schedule.add_run(run("often")).await.unwrap();
    }

    let kept = schedule.runs(Some("often"), usize::MAX).await.unwrap();
    assert_eq!(kept.len(), RUNS_KEPT);
    assert!(kept.iter().all(|run| run.id > first));
    assert_eq!(schedule.runs(Some("seldom"), 10).await.unwrap().len(), 1);
}
