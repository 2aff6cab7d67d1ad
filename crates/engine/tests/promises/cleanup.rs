//! What is stuck is found and ended, each on its own, and what is at work is left to it, however old it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_engine::{
    Cleaner, CleanupReport, Config, CreateAsk, Engine, Failed, How, Kept, Layer, PoolPlan, Spared, StaleData,
};
use pinfold_lifecycle::{AdmissionLimits, Cause, Cleared, Finding, Policy, Resource, SandboxId, Spec, State};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CameTo, Chores, Store};

use crate::seams::{fault, hangs, slow};
use crate::stage::{MINUTE, SECOND, Stage, body_of};

const DAY: u64 = 24 * 60 * MINUTE;

/// Nothing but the cleanup ends it.
pub(crate) fn patient() -> Policy {
    Policy {
        start_ms: DAY,
        unhealthy_age_ms: 30 * DAY,
        probe_every_ms: DAY,
        evidence_ms: DAY,
        idle_ms: Some(DAY),
        max_life_ms: 30 * DAY,
        ..Policy::default()
    }
}

async fn begin(stage: &Stage) -> (Engine, Arc<Cleaner>) {
    begin_with(stage, Config { poll_ms: 10 * SECOND, ..Config::default() }).await
}

/// Only what is asked for is done, and nobody compares records with bodies meanwhile.
async fn begin_with(stage: &Stage, config: Config) -> (Engine, Arc<Cleaner>) {
    let mut config = config;
    config.cleanup.settle_ms = 100 * DAY;
    config.reconcile_every_ms = 100 * DAY;
    let engine = stage.begin_with(config).await;
    let cleaner = engine.keep_clean(stage.store.clone(), None);
    (engine, cleaner)
}

async fn working(stage: &Stage, engine: &Engine, spec: Spec, command: &str) -> SandboxId {
    let ask = CreateAsk { spec, policy: patient(), key: None, queue: None };
    let id = engine.create(ask).await.unwrap();
    stage.wait_ready(engine, id).await.unwrap();
    stage.run(engine, id, command).await;
    id
}

async fn silent(stage: &Stage, engine: &Engine) -> SandboxId {
    working(stage, engine, Spec::default(), "hang").await
}

fn critical() -> Spec {
    Spec { critical: true, ..Spec::default() }
}

fn found(report: &CleanupReport) -> BTreeMap<SandboxId, &'static str> {
    report.found.iter().map(|found| (found.id, found.why.word())).collect()
}

fn causes(report: &CleanupReport) -> BTreeMap<SandboxId, Cause> {
    let cause = |proof: &Option<(Cause, _)>| proof.as_ref().unwrap().0;
    report.ended.iter().map(|ended| (ended.id, cause(&ended.proof))).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_stuck_is_ended_and_what_is_at_work_is_not_however_old() {
    let stage = Stage::new();
    let (engine, cleaner) = begin(&stage).await;
    let unhealthy = stage.ready(&engine, Policy { probe_every_ms: 25 * MINUTE, ..patient() }).await;
    stage.run(&engine, unhealthy, "work 7200000 0").await;
    let overdue = stage.create(&engine, Policy { max_life_ms: 20 * MINUTE, ..patient() }).await;
    stage.wait_ready(&engine, overdue).await.unwrap();
    let lost_deadline = format!("UPDATE sandboxes SET next_deadline = NULL WHERE id = '{overdue}'");
    stage.store.tamper(&lost_deadline).unwrap();
    stage.weather.next(Call::Start, hangs());
    let never_ready = stage.create(&engine, patient()).await;
    stage.pass_ms(SECOND).await;
    let silent = silent(&stage, &engine).await;
    let spared = working(&stage, &engine, critical(), "hang").await;
    let chatty = working(&stage, &engine, Spec::default(), "work 7200000 0").await;
    let computing = working(&stage, &engine, Spec::default(), "compute").await;
    stage.weather.next(Call::Ping, fault(Fault::Fails));
    stage.weather.next(Call::Probe, fault(Fault::Fails));
    stage.pass_ms(31 * MINUTE).await;
    assert_eq!(stage.state(unhealthy).await, State::Unhealthy);

    let said = cleaner.clean_up(Layer::Scheduled, How::DryRun).await.unwrap();
    let report = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();
    let again = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();

    let expected = BTreeMap::from([
        (unhealthy, "failed"),
        (overdue, "overdue"),
        (never_ready, "never_ready"),
        (silent, "silent"),
    ]);
    assert_eq!(found(&report), expected);
    assert_eq!((&said.found, &said.kept, said.scanned), (&report.found, &report.kept, 7));
    assert_eq!((said.ended, said.failed), (vec![], vec![]), "a dry run ends nothing");
    let expected = BTreeMap::from([
        (unhealthy, Cause::ProbeFailed),
        (overdue, Cause::MaxLife),
        (never_ready, Cause::StartDeadline),
        (silent, Cause::Inactivity),
    ]);
    assert_eq!(causes(&report), expected);
    let proven = report.ended.iter().flat_map(|ended| &ended.proof.as_ref().unwrap().1.checks);
    assert!(proven.clone().count() > 0 && proven.into_iter().all(|check| check.result == Finding::Absent));
    assert_eq!(report.kept, [Kept { id: spared, why: Spared::Critical }]);
    assert_eq!((again.found, again.scanned), (vec![], 3));
    for id in [spared, chatty, computing] {
        assert_eq!(stage.sandbox(id).await.executions.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_looked_at_is_not_taken_for_silent() {
    let stage = Stage::new();
    let (engine, cleaner) = begin(&stage).await;
    let id = silent(&stage, &engine).await;
    stage.pass_ms(31 * MINUTE).await;
    stage.weather.always(Call::Observe, fault(Fault::LookFails));

    let blind = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();
    stage.weather.clear_up();
    let seeing = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();

    assert_eq!(blind.found, []);
    assert!(matches!(&blind.kept[..], [Kept { why: Spared::NotMeasured { .. }, .. }]), "{:?}", blind.kept);
    assert_eq!(found(&seeing), BTreeMap::from([(id, "silent")]));
}

#[tokio::test(start_paused = true)]
async fn one_that_answers_too_late_once_is_looked_at_again_in_the_same_turn() {
    let stage = Stage::new();
    let (engine, cleaner) = begin(&stage).await;
    let id = silent(&stage, &engine).await;
    stage.pass_ms(31 * MINUTE).await;
    stage.weather.next(Call::Observe, hangs());
    stage.weather.next(Call::Observe, fault(Fault::LookFails));

    let report = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();

    assert_eq!((found(&report), report.kept), (BTreeMap::from([(id, "silent")]), vec![]));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_the_processor_all_the_time_is_not_silent() {
    let stage = Stage::new();
    let (engine, cleaner) = begin(&stage).await;
    let starved = working(&stage, &engine, Spec::default(), "starve").await;
    let silent = silent(&stage, &engine).await;
    stage.pass_ms(31 * MINUTE).await;

    let report = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();

    assert_eq!(found(&report), BTreeMap::from([(silent, "silent")]));
    assert_eq!(stage.sandbox(starved).await.executions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cleanup_of_a_sandbox_that_is_already_gone_succeeds() {
    let stage = Stage::new();
    let mut config = Config { poll_ms: 10 * SECOND, ..Config::default() };
    config.cleanup.batch = 1;
    let (engine, cleaner) = begin_with(&stage, config).await;
    let (first, gone) = (silent(&stage, &engine).await, silent(&stage, &engine).await);
    stage.pass_ms(31 * MINUTE).await;
    stage.weather.next(Call::Stop, slow(10 * SECOND));

    // Both are found, and while the first one ends somebody has the other forgotten.
    let cleaning = cleaner.clean_up(Layer::Scheduled, How::Act);
    let forgetting = async {
        stage.pass_ms(5 * SECOND).await;
        engine.forget(gone).await.unwrap();
    };
    let (report, ()) = tokio::join!(cleaning, forgetting);
    let report = report.unwrap();

    assert_eq!(report.failed, []);
    let ended: Vec<_> = report.ended.iter().map(|ended| (ended.id, ended.proof.is_some())).collect();
    assert_eq!(ended, [(first, true), (gone, false)]);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_ended_fails_alone() {
    let stage = Stage::new();
    let mut config = Config { poll_ms: 10 * SECOND, ..Config::default() };
    config.cleanup.item_ms = 10 * SECOND;
    config.cleanup.batch = 2;
    let (engine, cleaner) = begin_with(&stage, config).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(silent(&stage, &engine).await);
    }
    stage.pass_ms(31 * MINUTE).await;
    stage.weather.next(Call::Stop, hangs());
    let began = stage.now();

    let report = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();

    assert_eq!((report.found.len(), report.ended.len()), (5, 4));
    assert!(matches!(&report.failed[..], [Failed { why, .. }] if why.contains("not proven gone")));
    assert!(stage.now() - began < 15 * SECOND);
    let figures = match &stage.store.runs(None, 1).await.unwrap()[0].ended.as_ref().unwrap().came_to {
        CameTo::Done(figures) => figures.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((figures.scanned, figures.found, figures.ended, figures.failed), (5, 5, 4, 1));
    assert_eq!(figures.failures[0].sandbox, report.failed[0].id);
    assert_eq!((figures.reasons["silent"], figures.ended_reasons["silent"]), (5, 4));
    assert_eq!(figures.found_ids, all);
}

#[tokio::test(start_paused = true)]
async fn more_sandboxes_than_one_page_holds_are_all_swept() {
    let stage = Stage::new();
    let (engine, cleaner) = begin(&stage).await;
    let mut all = Vec::new();
    for _ in 0..520 {
        all.push(stage.create(&engine, patient()).await);
    }
    for id in &all {
        stage.wait_ready(&engine, *id).await.unwrap();
    }

    let scheduled = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();
    let emergency = cleaner.clean_up(Layer::Emergency, How::Act).await.unwrap();

    assert_eq!((scheduled.scanned, scheduled.found.len()), (520, 0));
    assert_eq!((emergency.scanned, emergency.found.len(), emergency.ended.len()), (520, 520, 520));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_body_has_to_answer_whatever_is_recorded_of_it() {
    let stage = Stage::new();
    let (engine, cleaner) = begin(&stage).await;
    let dumb = working(&stage, &engine, Spec::default(), "work 7200000 0").await;
    let well = working(&stage, &engine, Spec::default(), "work 7200000 0").await;
    stage.pass_ms(11 * MINUTE).await;
    let young = working(&stage, &engine, Spec::default(), "work 7200000 0").await;
    stage.world.kill_body(body_of(&stage.sandbox(dumb).await), false);
    stage.world.kill_body(body_of(&stage.sandbox(young).await), false);

    let by_record = cleaner.clean_up(Layer::Scheduled, How::DryRun).await.unwrap();
    let by_age = cleaner.clean_up(Layer::ByAge, How::Act).await.unwrap();

    assert_eq!(by_record.found, []);
    assert_eq!(found(&by_age), BTreeMap::from([(dumb, "failed")]));
    assert_eq!(causes(&by_age), BTreeMap::from([(dumb, Cause::ProbeFailed)]));
    assert_eq!(stage.sandbox(well).await.executions.len(), 1);
}

/// Two files that are stale until somebody acts.
struct TwoFiles(AtomicU64);

#[async_trait]
impl StaleData for TwoFiles {
    async fn clear_stale(&self, how: How) -> Cleared {
        let cleaned = match how {
            How::DryRun => self.0.load(Ordering::Relaxed),
            How::Act => self.0.swap(0, Ordering::Relaxed),
        };
        Cleared { cleaned, bytes: 100 * cleaned, ..Cleared::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_tells_what_would_be_pruned_as_the_real_run_does() {
    for layer in [Layer::Pressure, Layer::Scheduled] {
        let stage = Stage::new();
        let admission = AdmissionLimits { sandboxes: Some(1), ..AdmissionLimits::default() };
        let keep_records_ms = 40 * MINUTE;
        let (engine, cleaner) =
            begin_with(&stage, Config { admission, keep_records_ms, ..Config::default() }).await;
        engine.knows_stale(Arc::new(TwoFiles(AtomicU64::new(2))));
        stage.pass_ms(3 * MINUTE).await;
        let old = stage.ready(&engine, patient()).await;
        stage.stop(&engine, old).await;
        stage.ready(&engine, patient()).await;
        // Old enough, and nobody has come to prune it by the way.
        stage.pass_ms(41 * MINUTE).await;

        let said = cleaner.clean_up(layer, How::DryRun).await.unwrap();
        let is_still_there = stage.store.load(old).await.unwrap().is_some();
        let done = cleaner.clean_up(layer, How::Act).await.unwrap();
        let again = cleaner.clean_up(layer, How::DryRun).await.unwrap();

        let expected = if layer == Layer::Pressure { (3, 200) } else { (1, 0) };
        let pruned = |report: &CleanupReport| (report.pruned, report.pruned_bytes);
        assert_eq!((pruned(&said), pruned(&done)), (expected, expected), "{layer:?}");
        assert!(is_still_there && stage.store.load(old).await.unwrap().is_none());
        assert_eq!(pruned(&again), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn where_something_runs_short_the_oldest_that_do_nothing_go_until_there_is_enough() {
    let stage = Stage::new();
    let admission = AdmissionLimits { sandboxes: Some(10), ..AdmissionLimits::default() };
    let config = Config { poll_ms: 10 * SECOND, admission, ..Config::default() };
    let (engine, cleaner) = begin_with(&stage, config).await;
    let kept = CreateAsk { spec: critical(), policy: patient(), key: None, queue: None };
    let kept = engine.create(kept).await.unwrap();
    let busy = silent(&stage, &engine).await;
    let mut idle = Vec::new();
    for _ in 0..6 {
        stage.pass_ms(SECOND).await;
        idle.push(stage.ready(&engine, patient()).await);
    }
    let early = cleaner.clean_up(Layer::Pressure, How::Act).await.unwrap();
    stage.pass_ms(2 * MINUTE).await;
    let another = stage.ready(&engine, patient()).await;

    let said = cleaner.clean_up(Layer::Pressure, How::DryRun).await.unwrap();
    let report = cleaner.clean_up(Layer::Pressure, How::Act).await.unwrap();
    let enough = cleaner.clean_up(Layer::Pressure, How::Act).await.unwrap();

    assert_eq!(early.ended, [], "all of them were used a moment ago");
    assert_eq!(found(&report), BTreeMap::from([(idle[0], "idle"), (idle[1], "idle")]));
    assert_eq!(said.found, report.found);
    assert_eq!(
        causes(&report),
        BTreeMap::from([(idle[0], Cause::EvictedEmergency), (idle[1], Cause::EvictedEmergency)])
    );
    let level = |report: &CleanupReport| {
        let level = report.levels.iter().find(|level| level.resource == Resource::Sandboxes).unwrap();
        (level.taken, level.of)
    };
    assert_eq!((level(&said), level(&report)), ((9, 10), (7, 10)));
    assert_eq!(enough.found, []);
    for id in [kept, busy, another] {
        assert!(!stage.sandbox(id).await.is_settled());
    }
}

#[tokio::test(start_paused = true)]
async fn an_emergency_ends_all_that_is_not_critical_and_says_what_it_kept() {
    let stage = Stage::new();
    let shape = Spec::default().shape();
    let pool = vec![PoolPlan { shape: shape.clone(), policy: Policy::default(), size: 1 }];
    let (engine, cleaner) = begin_with(&stage, Config { pool, ..Config::default() }).await;
    let young = working(&stage, &engine, Spec::default(), "work 7200000 0").await;
    let critical = working(&stage, &engine, critical(), "hang").await;
    let ending = silent(&stage, &engine).await;
    stage.weather.next(Call::Stop, slow(30 * SECOND));
    stage.ask_to_stop(&engine, ending).await;
    stage.pass_ms(2 * SECOND).await;

    let said = cleaner.clean_up(Layer::Emergency, How::DryRun).await.unwrap();
    let alive = stage.sandbox(young).await.executions.len();
    let report = cleaner.clean_up(Layer::Emergency, How::Act).await.unwrap();

    assert_eq!((found(&said), alive), (BTreeMap::from([(young, "emergency")]), 1));
    assert_eq!(causes(&report), BTreeMap::from([(young, Cause::EvictedEmergency)]));
    let kept: BTreeMap<_, _> = report.kept.iter().map(|kept| (kept.id, kept.why.word())).collect();
    assert_eq!((kept.get(&critical), kept.get(&ending)), (Some(&"critical"), Some(&"ending")));
    assert_eq!(kept.values().filter(|why| **why == "pooled").count(), 1, "{kept:?}");
    assert_eq!(stage.sandbox(critical).await.executions.len(), 1);
}
