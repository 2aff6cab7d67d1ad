//! Cleanup finds and ends stuck sandboxes independently of each other, and leaves busy ones alone, however old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_engine::{
    Cleaner, CleanupLayer, CleanupMode, CleanupReport, Config, CreateRequest, Engine, FailedSandbox,
    KeepReason, KeptSandbox, PoolPlan, StaleData,
};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Finding, Policy, Resource, SandboxId, Spec, StaleDataCleanup, State,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{JobSchedule, RunOutcome, Store};

use crate::fakes::{fault, hangs, slow};
use crate::fixture::{Fixture, MINUTE, SECOND, instance_of};

const DAY: u64 = 24 * 60 * MINUTE;

/// A policy under which only cleanup ends the sandbox.
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

async fn start_engine(fixture: &Fixture) -> (Engine, Arc<Cleaner>) {
    start_engine_with(fixture, Config { poll_ms: 10 * SECOND, ..Config::default() }).await
}

/// A configuration in which nothing runs on a schedule.
async fn start_engine_with(fixture: &Fixture, config: Config) -> (Engine, Arc<Cleaner>) {
    let mut config = config;
    config.cleanup.settle_ms = 100 * DAY;
    config.reconcile_every_ms = 100 * DAY;
    let engine = fixture.start_engine_with(config).await;
    let cleaner = engine.start_cleanup(fixture.store.clone(), None);
    (engine, cleaner)
}

async fn working(fixture: &Fixture, engine: &Engine, spec: Spec, command: &str) -> SandboxId {
    let request = CreateRequest { spec: spec.into(), policy: patient().into(), ..CreateRequest::default() };
    let id = engine.create(request).await.unwrap();
    fixture.wait_ready(engine, id).await.unwrap();
    fixture.run(engine, id, command).await;
    id
}

async fn silent(fixture: &Fixture, engine: &Engine) -> SandboxId {
    working(fixture, engine, Spec::default(), "hang").await
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
async fn stuck_sandboxes_are_ended_and_busy_ones_kept_however_old() {
    let fixture = Fixture::new();
    let (engine, cleaner) = start_engine(&fixture).await;
    let unhealthy = fixture.ready(&engine, Policy { probe_every_ms: 25 * MINUTE, ..patient() }).await;
    fixture.run(&engine, unhealthy, "work 7200000 0").await;
    let overdue = fixture.create(&engine, Policy { max_life_ms: 20 * MINUTE, ..patient() }).await;
    fixture.wait_ready(&engine, overdue).await.unwrap();
    let lost_deadline = format!("UPDATE sandboxes SET next_deadline = NULL WHERE id = '{overdue}'");
    fixture.store.execute_raw_sql(&lost_deadline).unwrap();
    fixture.faults.next(Call::Start, hangs());
    let never_ready = fixture.create(&engine, patient()).await;
    fixture.pass_ms(SECOND).await;
    let silent = silent(&fixture, &engine).await;
    let spared = working(&fixture, &engine, critical(), "hang").await;
    let chatty = working(&fixture, &engine, Spec::default(), "work 7200000 0").await;
    let computing = working(&fixture, &engine, Spec::default(), "compute").await;
    fixture.faults.next(Call::Ping, fault(Fault::Fails));
    fixture.faults.next(Call::Probe, fault(Fault::Fails));
    fixture.pass_ms(31 * MINUTE).await;
    assert_eq!(fixture.state(unhealthy).await, State::Unhealthy);

    let dry_run = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::DryRun).await.unwrap();
    let report = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();
    let again = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();

    let expected = BTreeMap::from([
        (unhealthy, "failed"),
        (overdue, "overdue"),
        (never_ready, "never_ready"),
        (silent, "silent"),
    ]);
    assert_eq!(found(&report), expected);
    assert_eq!((&dry_run.found, &dry_run.kept, dry_run.scanned), (&report.found, &report.kept, 7));
    assert_eq!((dry_run.ended, dry_run.failed), (vec![], vec![]), "a dry run ends nothing");
    let expected = BTreeMap::from([
        (unhealthy, Cause::ProbeFailed),
        (overdue, Cause::MaxLife),
        (never_ready, Cause::StartDeadline),
        (silent, Cause::Inactivity),
    ]);
    assert_eq!(causes(&report), expected);
    let proven = report.ended.iter().flat_map(|ended| &ended.proof.as_ref().unwrap().1.checks);
    assert!(proven.clone().count() > 0 && proven.into_iter().all(|check| check.result == Finding::Absent));
    assert_eq!(report.kept, [KeptSandbox { id: spared, why: KeepReason::Critical }]);
    assert_eq!((again.found, again.scanned), (vec![], 3));
    for id in [spared, chatty, computing] {
        assert_eq!(fixture.sandbox(id).await.executions.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_observed_is_not_silent() {
    let fixture = Fixture::new();
    let (engine, cleaner) = start_engine(&fixture).await;
    let id = silent(&fixture, &engine).await;
    fixture.pass_ms(31 * MINUTE).await;
    fixture.faults.always(Call::Observe, fault(Fault::ObserveFails));

    let blind = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();
    fixture.faults.clear();
    let seeing = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();

    assert_eq!(blind.found, []);
    assert!(
        matches!(&blind.kept[..], [KeptSandbox { why: KeepReason::NotMeasured { .. }, .. }]),
        "{:?}",
        blind.kept
    );
    assert_eq!(found(&seeing), BTreeMap::from([(id, "silent")]));
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_observed_again_in_the_same_run() {
    let fixture = Fixture::new();
    let (engine, cleaner) = start_engine(&fixture).await;
    let id = silent(&fixture, &engine).await;
    fixture.pass_ms(31 * MINUTE).await;
    fixture.faults.next(Call::Observe, hangs());
    fixture.faults.next(Call::Observe, fault(Fault::ObserveFails));

    let report = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();

    assert_eq!((found(&report), report.kept), (BTreeMap::from([(id, "silent")]), vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_process_waiting_for_the_cpu_is_not_silent() {
    let fixture = Fixture::new();
    let (engine, cleaner) = start_engine(&fixture).await;
    let starved = working(&fixture, &engine, Spec::default(), "starve").await;
    let silent = silent(&fixture, &engine).await;
    fixture.pass_ms(31 * MINUTE).await;

    let report = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();

    assert_eq!(found(&report), BTreeMap::from([(silent, "silent")]));
    assert_eq!(fixture.sandbox(starved).await.executions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cleanup_of_a_sandbox_that_is_already_gone_succeeds() {
    let fixture = Fixture::new();
    let mut config = Config { poll_ms: 10 * SECOND, ..Config::default() };
    config.cleanup.batch = 1;
    let (engine, cleaner) = start_engine_with(&fixture, config).await;
    let (first, gone) = (silent(&fixture, &engine).await, silent(&fixture, &engine).await);
    fixture.pass_ms(31 * MINUTE).await;
    fixture.faults.next(Call::Stop, slow(10 * SECOND));

    // Both are found; the second one's record is deleted while the first one ends.
    let cleaning = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act);
    let forgetting = async {
        fixture.pass_ms(5 * SECOND).await;
        engine.forget(gone).await.unwrap();
    };
    let (report, ()) = tokio::join!(cleaning, forgetting);
    let report = report.unwrap();

    assert_eq!(report.failed, []);
    let ended: Vec<_> = report.ended.iter().map(|ended| (ended.id, ended.proof.is_some())).collect();
    assert_eq!(ended, [(first, true), (gone, false)]);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn layers_at_one_moment_count_a_sandbox_once() {
    let fixture = Fixture::new();
    let (engine, cleaner) = start_engine(&fixture).await;
    let other_engine = fixture.start_engine_with(Config { poll_ms: 10 * SECOND, ..Config::default() }).await;
    let other = other_engine.start_cleanup(fixture.store.clone(), None);
    let id = silent(&fixture, &engine).await;
    fixture.pass_ms(31 * MINUTE).await;

    let (scheduled, by_age, elsewhere) = tokio::join!(
        cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act),
        cleaner.clean_up(CleanupLayer::ByAge, CleanupMode::Act),
        other.clean_up(CleanupLayer::ByAge, CleanupMode::Act),
    );

    let reports = [scheduled.unwrap(), by_age.unwrap(), elsewhere.unwrap()];
    let found: Vec<_> = reports.iter().flat_map(|report| &report.found).map(|found| found.id).collect();
    let ended: Vec<_> = reports.iter().flat_map(|report| &report.ended).map(|ended| ended.id).collect();
    assert_eq!((found, ended), (vec![id], vec![id]), "{reports:?}");
    let kept: Vec<_> = reports.iter().flat_map(|report| &report.kept).collect();
    assert!(kept.iter().all(|kept| kept.id == id && kept.why == KeepReason::Ending), "{kept:?}");
    let runs = fixture.store.runs(None, 10).await.unwrap();
    let reported = runs.iter().filter_map(|run| run.ended.as_ref()?.outcome.report());
    assert_eq!(reported.map(|report| report.found_ids.len()).sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_ended_fails_alone() {
    let fixture = Fixture::new();
    let mut config = Config { poll_ms: 10 * SECOND, ..Config::default() };
    config.cleanup.item_ms = 10 * SECOND;
    config.cleanup.batch = 2;
    let (engine, cleaner) = start_engine_with(&fixture, config).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(silent(&fixture, &engine).await);
    }
    fixture.pass_ms(31 * MINUTE).await;
    fixture.faults.next(Call::Stop, hangs());
    let began = fixture.now();

    let report = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();

    assert_eq!((report.found.len(), report.ended.len()), (5, 4));
    assert!(matches!(&report.failed[..], [FailedSandbox { why, .. }] if why.contains("not proven gone")));
    assert!(fixture.now() - began < 15 * SECOND);
    let figures = match &fixture.store.runs(None, 1).await.unwrap()[0].ended.as_ref().unwrap().outcome {
        RunOutcome::Done(figures) => figures.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((figures.scanned, figures.found, figures.ended, figures.failed), (5, 5, 4, 1));
    assert_eq!(figures.failures[0].sandbox, report.failed[0].id);
    assert_eq!((figures.reasons["silent"], figures.ended_reasons["silent"]), (5, 4));
    assert_eq!(figures.found_ids, all);
}

#[tokio::test(start_paused = true)]
async fn more_sandboxes_than_one_page_holds_are_all_swept() {
    let fixture = Fixture::new();
    let (engine, cleaner) = start_engine(&fixture).await;
    let mut all = Vec::new();
    for _ in 0..520 {
        all.push(fixture.create(&engine, patient()).await);
    }
    for id in &all {
        fixture.wait_ready(&engine, *id).await.unwrap();
    }

    let scheduled = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();
    let emergency = cleaner.clean_up(CleanupLayer::Emergency, CleanupMode::Act).await.unwrap();

    assert_eq!((scheduled.scanned, scheduled.found.len()), (520, 0));
    assert_eq!((emergency.scanned, emergency.found.len(), emergency.ended.len()), (520, 520, 520));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_instance_must_pass_a_probe_whatever_its_record_says() {
    let fixture = Fixture::new();
    let (engine, cleaner) = start_engine(&fixture).await;
    let dumb = working(&fixture, &engine, Spec::default(), "work 7200000 0").await;
    let well = working(&fixture, &engine, Spec::default(), "work 7200000 0").await;
    fixture.pass_ms(11 * MINUTE).await;
    let young = working(&fixture, &engine, Spec::default(), "work 7200000 0").await;
    fixture.world.kill_instance(instance_of(&fixture.sandbox(dumb).await), false);
    fixture.world.kill_instance(instance_of(&fixture.sandbox(young).await), false);

    let by_record = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::DryRun).await.unwrap();
    let by_age = cleaner.clean_up(CleanupLayer::ByAge, CleanupMode::Act).await.unwrap();

    assert_eq!(by_record.found, []);
    assert_eq!(found(&by_age), BTreeMap::from([(dumb, "failed")]));
    assert_eq!(causes(&by_age), BTreeMap::from([(dumb, Cause::ProbeFailed)]));
    assert_eq!(fixture.sandbox(well).await.executions.len(), 1);
}

/// Two stale files, until they are cleared.
struct TwoFiles(AtomicU64);

#[async_trait]
impl StaleData for TwoFiles {
    async fn clear_stale(&self, how: CleanupMode) -> StaleDataCleanup {
        let cleaned = match how {
            CleanupMode::DryRun => self.0.load(Ordering::Relaxed),
            CleanupMode::Act => self.0.swap(0, Ordering::Relaxed),
        };
        StaleDataCleanup { cleaned, bytes: 100 * cleaned, ..StaleDataCleanup::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_what_a_real_run_prunes() {
    for layer in [CleanupLayer::Pressure, CleanupLayer::Scheduled] {
        let fixture = Fixture::new();
        let admission = AdmissionLimits { sandboxes: Some(1), ..AdmissionLimits::default() };
        let keep_records_ms = 40 * MINUTE;
        let (engine, cleaner) =
            start_engine_with(&fixture, Config { admission, keep_records_ms, ..Config::default() }).await;
        engine.set_stale_data(Arc::new(TwoFiles(AtomicU64::new(2))));
        fixture.pass_ms(3 * MINUTE).await;
        let old = fixture.ready(&engine, patient()).await;
        fixture.stop(&engine, old).await;
        fixture.ready(&engine, patient()).await;
        // Past retention, and not yet deleted by the retention loop.
        fixture.pass_ms(41 * MINUTE).await;

        let dry_run = cleaner.clean_up(layer, CleanupMode::DryRun).await.unwrap();
        let is_still_there = fixture.store.load(old).await.unwrap().is_some();
        let done = cleaner.clean_up(layer, CleanupMode::Act).await.unwrap();
        let again = cleaner.clean_up(layer, CleanupMode::DryRun).await.unwrap();

        let expected = if layer == CleanupLayer::Pressure { (3, 200) } else { (1, 0) };
        let pruned = |report: &CleanupReport| (report.pruned, report.pruned_bytes);
        assert_eq!((pruned(&dry_run), pruned(&done)), (expected, expected), "{layer:?}");
        assert!(is_still_there && fixture.store.load(old).await.unwrap().is_none());
        assert_eq!(pruned(&again), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn under_pressure_the_oldest_idle_sandboxes_end_until_enough_is_free() {
    let fixture = Fixture::new();
    let admission = AdmissionLimits { sandboxes: Some(10), ..AdmissionLimits::default() };
    let config = Config { poll_ms: 10 * SECOND, admission, ..Config::default() };
    let (engine, cleaner) = start_engine_with(&fixture, config).await;
    let kept =
        CreateRequest { spec: critical().into(), policy: patient().into(), ..CreateRequest::default() };
    let kept = engine.create(kept).await.unwrap();
    let busy = silent(&fixture, &engine).await;
    let mut idle = Vec::new();
    for _ in 0..6 {
        fixture.pass_ms(SECOND).await;
        idle.push(fixture.ready(&engine, patient()).await);
    }
    let early = cleaner.clean_up(CleanupLayer::Pressure, CleanupMode::Act).await.unwrap();
    fixture.pass_ms(2 * MINUTE).await;
    let another = fixture.ready(&engine, patient()).await;

    let dry_run = cleaner.clean_up(CleanupLayer::Pressure, CleanupMode::DryRun).await.unwrap();
    let report = cleaner.clean_up(CleanupLayer::Pressure, CleanupMode::Act).await.unwrap();
    let enough = cleaner.clean_up(CleanupLayer::Pressure, CleanupMode::Act).await.unwrap();

    assert_eq!(early.ended, [], "all of them were used a moment ago");
    assert_eq!(found(&report), BTreeMap::from([(idle[0], "idle"), (idle[1], "idle")]));
    assert_eq!(dry_run.found, report.found);
    assert_eq!(
        causes(&report),
        BTreeMap::from([(idle[0], Cause::EvictedEmergency), (idle[1], Cause::EvictedEmergency)])
    );
    let level = |report: &CleanupReport| {
        let level = report.levels.iter().find(|level| level.resource == Resource::Sandboxes).unwrap();
        (level.taken, level.of)
    };
    assert_eq!((level(&dry_run), level(&report)), ((9, 10), (7, 10)));
    assert_eq!(enough.found, []);
    for id in [kept, busy, another] {
        assert!(!fixture.sandbox(id).await.is_settled());
    }
}

#[tokio::test(start_paused = true)]
async fn emergency_cleanup_ends_every_sandbox_that_is_not_critical_and_reports_the_kept_ones() {
    let fixture = Fixture::new();
    let shape = Spec::default().shape();
    let pool = vec![PoolPlan { shape: shape.clone(), policy: Policy::default(), size: 1 }];
    let (engine, cleaner) = start_engine_with(&fixture, Config { pool, ..Config::default() }).await;
    let young = working(&fixture, &engine, Spec::default(), "work 7200000 0").await;
    let critical = working(&fixture, &engine, critical(), "hang").await;
    let ending = silent(&fixture, &engine).await;
    fixture.faults.next(Call::Stop, slow(30 * SECOND));
    fixture.request_stop(&engine, ending).await;
    fixture.pass_ms(2 * SECOND).await;

    let dry_run = cleaner.clean_up(CleanupLayer::Emergency, CleanupMode::DryRun).await.unwrap();
    let alive = fixture.sandbox(young).await.executions.len();
    let report = cleaner.clean_up(CleanupLayer::Emergency, CleanupMode::Act).await.unwrap();

    assert_eq!((found(&dry_run), alive), (BTreeMap::from([(young, "emergency")]), 1));
    assert_eq!(causes(&report), BTreeMap::from([(young, Cause::EvictedEmergency)]));
    let kept: BTreeMap<_, _> = report.kept.iter().map(|kept| (kept.id, kept.why.word())).collect();
    assert_eq!((kept.get(&critical), kept.get(&ending)), (Some(&"critical"), Some(&"ending")));
    assert_eq!(kept.values().filter(|why| **why == "pooled").count(), 1, "{kept:?}");
    assert_eq!(fixture.sandbox(critical).await.executions.len(), 1);
}
