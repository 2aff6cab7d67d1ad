//! Reconciliation: orphaned instances are stopped and counted, and nothing is guessed.

use async_trait::async_trait;
use pinfold_engine::{Config, ReconcileError, ReconcileMode, ReconcileReport};
use pinfold_lifecycle::{
    Cause, Fact, Generation, Lease, Policy, ProbeResult, Sandbox, SandboxId, State, Verdict,
};
use pinfold_provider::fake::{Call, FakeProvider, Fault};
use pinfold_provider::{DiscoverError, Discovered, Provider, ProviderLayer};
use pinfold_store::Store;

use crate::fakes::fault;
use crate::fixture::{Fixture, MINUTE, SECOND, instance_of};

const UNRECORDED: SandboxId = SandboxId(77);

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_record_is_stopped_and_counted() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.pass_ms(SECOND).await;
    let orphan = fixture.start_orphan(UNRECORDED, 3).await;

    let report = engine.reconcile(ReconcileMode::Repair).await.unwrap();
    fixture.until(UNRECORDED, SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(report.instances_without_record, [orphan]);
    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (1, 1));
    assert_eq!(
        fixture.times(UNRECORDED, |fact| *fact == Fact::Ended { cause: Cause::Orphan }).await.len(),
        1
    );
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reports_the_same_as_a_repair_and_changes_nothing() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let (live, lost) =
        (fixture.ready(&engine, Policy::default()).await, fixture.ready(&engine, Policy::default()).await);
    fixture.start_orphan(UNRECORDED, 1).await;
    fixture.world.kill_instance(instance_of(&fixture.sandbox(lost).await), false);
    let before = (fixture.instances(), fixture.sandbox(live).await, fixture.sandbox(lost).await);

    let said = engine.reconcile(ReconcileMode::DryRun).await.unwrap();
    let after = (fixture.instances(), fixture.sandbox(live).await, fixture.sandbox(lost).await);
    let done = engine.reconcile(ReconcileMode::Repair).await.unwrap();

    assert_eq!(after, before);
    assert_eq!(said, done);
    assert_eq!((said.instances, said.records), (2, 2));
    assert_eq!(said.records_without_instance, [lost]);
}

#[tokio::test(start_paused = true)]
async fn a_status_mismatch_is_reported_and_a_repair_probes_the_instance() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let broken = fixture.ready(&engine, Policy::default()).await;
    let agreed = engine.status_mismatches(ReconcileMode::DryRun).await.unwrap();
    fixture.faults.always(Call::Probe, fault(Fault::Fails));
    let before = fixture.sandbox(broken).await;

    let said = engine.status_mismatches(ReconcileMode::DryRun).await.unwrap();
    let after = fixture.sandbox(broken).await;
    let done = engine.status_mismatches(ReconcileMode::Repair).await.unwrap();
    let is_unhealthy = |sandbox: &Sandbox| matches!(&sandbox.lease, Lease::Live(live) if live.health.verdict != Verdict::Healthy);
    fixture.until(broken, SECOND, is_unhealthy).await;

    assert_eq!((agreed, after), (vec![], before));
    assert_eq!(said, done);
    assert_eq!(said.iter().map(|it| (it.sandbox, it.status)).collect::<Vec<_>>(), [(broken, State::Ready)]);
}

#[tokio::test(start_paused = true)]
async fn a_passing_probe_of_an_unhealthy_record_is_reported_too() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let flagged = fixture.ready(&engine, Policy::default()).await;
    fixture.faults.always(Call::Probe, fault(Fault::Fails));
    engine.status_mismatches(ReconcileMode::Repair).await.unwrap();
    fixture.pass_ms(SECOND).await;
    fixture.faults.clear();

    let said = engine.status_mismatches(ReconcileMode::DryRun).await.unwrap();

    let seen: Vec<_> = said.iter().map(|it| (it.sandbox, it.status, it.probed.clone())).collect();
    assert_eq!(seen, [(flagged, State::Unhealthy, ProbeResult::Passed)]);
}

#[tokio::test(start_paused = true)]
async fn reconciling_twice_is_idempotent() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.start_orphan(UNRECORDED, 1).await;
    engine.reconcile(ReconcileMode::Repair).await.unwrap();
    fixture.until(UNRECORDED, SECOND, |sandbox| sandbox.is_settled()).await;
    let (before, totals) = (fixture.history(id).await, fixture.store.totals().await.unwrap());

    let again = engine.reconcile(ReconcileMode::Repair).await.unwrap();

    let nothing = ReconcileReport { instances: 1, records: 1, ..ReconcileReport::default() };
    assert_eq!(again, nothing);
    assert_eq!(fixture.history(id).await, before);
    assert_eq!(fixture.store.totals().await.unwrap(), totals);
}

#[tokio::test(start_paused = true)]
async fn an_instance_found_after_the_end_of_its_sandbox_is_stopped_and_counted_separately() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    let first = fixture.stop(&engine, id).await;
    fixture.start_orphan(id, 1).await;

    engine.reconcile(ReconcileMode::Repair).await.unwrap();
    let meanwhile = fixture.store.totals().await.unwrap();
    let second = fixture.stop(&engine, id).await;

    assert_eq!((meanwhile.created, meanwhile.present()), (2, 1));
    assert_eq!(second, first);
    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (2, 2));
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_marker_without_an_instance_is_cleaned_up() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let orphan = fixture.start_orphan(UNRECORDED, 1).await;
    fixture.world.kill_instance(orphan, true);

    let report = engine.reconcile(ReconcileMode::Repair).await.unwrap();
    fixture.until(UNRECORDED, SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(report.instances_without_record, [orphan]);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn orphans_are_found_at_start_and_every_minute() {
    let fixture = Fixture::new();
    fixture.start_orphan(UNRECORDED, 1).await;

    let _engine = fixture.start_engine().await;
    fixture.pass_ms(SECOND).await;
    let at_the_start = fixture.instances();
    fixture.start_orphan(SandboxId(78), 1).await;
    fixture.pass_ms(MINUTE).await;

    assert_eq!(at_the_start, []);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_being_launched_is_not_an_orphan() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.faults.next(Call::Start, crate::fakes::halfway(5 * SECOND));
    let id = fixture.create(&engine, Policy::default()).await;
    fixture.pass_ms(SECOND).await;

    let report = engine.reconcile(ReconcileMode::Repair).await.unwrap();

    assert_eq!((report.instances, report.instances_without_record.len()), (1, 0));
    assert_eq!(fixture.wait_ready(&engine, id).await, Ok(()));
    assert_eq!(fixture.sandbox(id).await.generation(), Generation(1));
}

#[tokio::test(start_paused = true)]
async fn more_records_than_one_page_holds_are_all_read() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_slow_poll().await;
    let mut all = Vec::new();
    for _ in 0..520 {
        all.push(fixture.create(&engine, Policy::default()).await);
    }
    for id in &all {
        fixture.wait_ready(&engine, *id).await.unwrap();
    }

    let complete = engine.reconcile(ReconcileMode::DryRun).await.unwrap();
    let last = all[519];
    fixture.world.kill_instance(instance_of(&fixture.sandbox(last).await), false);
    let one_is_lost = engine.reconcile(ReconcileMode::Repair).await.unwrap();
    fixture.until(last, SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!((complete.records, complete.instances), (520, 520));
    assert_eq!((complete.records_without_instance.len(), complete.instances_without_record.len()), (0, 0));
    assert_eq!(one_is_lost.records_without_instance, [last]);
    assert_eq!(fixture.store.totals().await.unwrap().present(), 519);
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_fails_changes_nothing() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.start_orphan(UNRECORDED, 1).await;
    fixture.faults.next(Call::Discover, fault(Fault::ObserveFails));
    let before = (fixture.instances(), fixture.sandbox(id).await);

    let report = engine.reconcile(ReconcileMode::Repair).await;

    assert!(matches!(report, Err(ReconcileError::Discover(DiscoverError::ObserveFailed { .. }))));
    assert_eq!((fixture.instances(), fixture.sandbox(id).await), before);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_cannot_be_observed_is_left_for_the_next_reconciliation() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    fixture.pass_ms(SECOND).await;
    fixture.start_orphan(UNRECORDED, 1).await;
    fixture.faults.next(Call::Observe, fault(Fault::ObserveFails));

    let blind = engine.reconcile(ReconcileMode::Repair).await.unwrap();
    let left = fixture.instances().len();
    let seeing = engine.reconcile(ReconcileMode::Repair).await.unwrap();

    assert_eq!((blind.instances, blind.instances_without_record.len(), left), (1, 0, 1));
    assert_eq!(seeing.instances_without_record.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unparsable_instance_name_is_reported_and_left_alone() {
    let fixture = Fixture::new();
    let provider = UnparsableName(fixture.provider(&fixture.faults));
    let engine = fixture.start_engine_over(provider, Config::default()).await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let report = engine.reconcile(ReconcileMode::Repair).await.unwrap();
    fixture.pass_ms(2 * MINUTE).await;

    assert_eq!(report.unreadable_names, ["pinfold-scribble"]);
    assert_eq!(report.instances_without_record, []);
    assert_eq!(fixture.faults.calls(Call::Stop), 0);
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_is_reported_and_its_instance_is_not_an_orphan() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.store.execute_raw_sql("UPDATE sandboxes SET state = ''").unwrap();

    let said = engine.reconcile(ReconcileMode::DryRun).await.unwrap();
    let done = engine.reconcile(ReconcileMode::Repair).await.unwrap();

    assert_eq!(said, done);
    assert_eq!(done.unreadable_records, [id]);
    assert_eq!(done.instances_without_record, []);
    assert_eq!(fixture.state(id).await, State::Quarantined);
    assert_eq!(fixture.instances().len(), 1);
}

/// A provider that also discovers an instance name that cannot be parsed.
struct UnparsableName(FakeProvider);

#[async_trait]
impl ProviderLayer for UnparsableName {
    fn inner(&self) -> &dyn Provider {
        &self.0
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let mut discovered = self.0.discover().await?;
        discovered.unreadable.push("pinfold-scribble".into());
        Ok(discovered)
    }
}
