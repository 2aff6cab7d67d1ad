//! What is recorded is compared with what is there: strays are stopped and counted, nothing is guessed.

use async_trait::async_trait;
use pinfold_engine::{Config, Reconcile, ReconcileError, ReconcileReport};
use pinfold_lifecycle::{
    Cause, Evidence, ExecutionId, Fact, Generation, Lease, Outcome, Policy, Probed, Sandbox, SandboxId,
    State, StopOutcome, Timestamp, Verdict,
};
use pinfold_provider::fake::{Call, FakeProvider, Fault};
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, InstanceId,
    Killed, Provider, ResizeError, SignalError, Start, StartError, TerminalSize, Usage, WaitError,
};
use pinfold_store::Store;

use crate::seams::fault;
use crate::stage::{MINUTE, SECOND, Stage, body_of};

const NOBODY: SandboxId = SandboxId(77);

#[tokio::test(start_paused = true)]
async fn a_body_without_a_record_is_stopped_and_counted() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.pass_ms(SECOND).await;
    let stray = stage.make_stray(NOBODY, 3).await;

    let report = engine.reconcile(Reconcile::Repair).await.unwrap();
    stage.until(NOBODY, SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(report.bodies_without_record, [stray]);
    let totals = stage.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (1, 1));
    assert_eq!(stage.times(NOBODY, |fact| *fact == Fact::Ended { cause: Cause::Orphan }).await.len(), 1);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_the_same_as_a_repair_and_changes_nothing() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let (live, lost) =
        (stage.ready(&engine, Policy::default()).await, stage.ready(&engine, Policy::default()).await);
    stage.make_stray(NOBODY, 1).await;
    stage.world.kill_body(body_of(&stage.sandbox(lost).await), false);
    let before = (stage.bodies(), stage.sandbox(live).await, stage.sandbox(lost).await);

    let said = engine.reconcile(Reconcile::DryRun).await.unwrap();
    let after = (stage.bodies(), stage.sandbox(live).await, stage.sandbox(lost).await);
    let done = engine.reconcile(Reconcile::Repair).await.unwrap();

    assert_eq!(after, before);
    assert_eq!(said, done);
    assert_eq!((said.bodies, said.records), (2, 2));
    assert_eq!(said.records_without_body, [lost]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_fare_as_its_record_says_is_told_and_a_repair_has_it_probed() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let broken = stage.ready(&engine, Policy::default()).await;
    let agreed = engine.disagreements(Reconcile::DryRun).await.unwrap();
    stage.weather.always(Call::Probe, fault(Fault::Fails));
    let before = stage.sandbox(broken).await;

    let said = engine.disagreements(Reconcile::DryRun).await.unwrap();
    let after = stage.sandbox(broken).await;
    let done = engine.disagreements(Reconcile::Repair).await.unwrap();
    let is_unhealthy = |sandbox: &Sandbox| matches!(&sandbox.lease, Lease::Live(live) if live.health.verdict != Verdict::Healthy);
    stage.until(broken, SECOND, is_unhealthy).await;

    assert_eq!((agreed, after), (vec![], before));
    assert_eq!(said, done);
    assert_eq!(said.iter().map(|it| (it.sandbox, it.status)).collect::<Vec<_>>(), [(broken, State::Ready)]);
}

#[tokio::test(start_paused = true)]
async fn one_that_fares_better_than_its_record_says_is_told_too() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let flagged = stage.ready(&engine, Policy::default()).await;
    stage.weather.always(Call::Probe, fault(Fault::Fails));
    engine.disagreements(Reconcile::Repair).await.unwrap();
    stage.pass_ms(SECOND).await;
    stage.weather.clear_up();

    let said = engine.disagreements(Reconcile::DryRun).await.unwrap();

    let seen: Vec<_> = said.iter().map(|it| (it.sandbox, it.status, it.probed.clone())).collect();
    assert_eq!(seen, [(flagged, State::Unhealthy, Probed::Passed)]);
}

#[tokio::test(start_paused = true)]
async fn reconciling_twice_does_nothing_more() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.make_stray(NOBODY, 1).await;
    engine.reconcile(Reconcile::Repair).await.unwrap();
    stage.until(NOBODY, SECOND, |sandbox| sandbox.is_settled()).await;
    let (before, totals) = (stage.history(id).await, stage.store.totals().await.unwrap());

    let again = engine.reconcile(Reconcile::Repair).await.unwrap();

    let nothing = ReconcileReport { bodies: 1, records: 1, ..ReconcileReport::default() };
    assert_eq!(again, nothing);
    assert_eq!(stage.history(id).await, before);
    assert_eq!(stage.store.totals().await.unwrap(), totals);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_to_light_after_the_end_of_its_sandbox_is_stopped_and_counted_apart() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    let first = stage.stop(&engine, id).await;
    stage.make_stray(id, 1).await;

    engine.reconcile(Reconcile::Repair).await.unwrap();
    let meanwhile = stage.store.totals().await.unwrap();
    let second = stage.stop(&engine, id).await;

    assert_eq!((meanwhile.created, meanwhile.present()), (2, 1));
    assert_eq!(second, first);
    let totals = stage.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (2, 2));
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_without_a_body_is_cleaned_up() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let mark = stage.make_stray(NOBODY, 1).await;
    stage.world.kill_body(mark, true);

    let report = engine.reconcile(Reconcile::Repair).await.unwrap();
    stage.until(NOBODY, SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!(report.bodies_without_record, [mark]);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn strays_are_found_without_being_asked_for_at_the_start_and_every_minute() {
    let stage = Stage::new();
    stage.make_stray(NOBODY, 1).await;

    let _engine = stage.begin().await;
    stage.pass_ms(SECOND).await;
    let at_the_start = stage.bodies();
    stage.make_stray(SandboxId(78), 1).await;
    stage.pass_ms(MINUTE).await;

    assert_eq!(at_the_start, []);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_launch_is_under_way_is_no_stray() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.weather.next(Call::Start, crate::seams::halfway(5 * SECOND));
    let id = stage.create(&engine, Policy::default()).await;
    stage.pass_ms(SECOND).await;

    let report = engine.reconcile(Reconcile::Repair).await.unwrap();

    assert_eq!((report.bodies, report.bodies_without_record.len()), (1, 0));
    assert_eq!(stage.wait_ready(&engine, id).await, Ok(()));
    assert_eq!(stage.sandbox(id).await.generation(), Generation(1));
}

#[tokio::test(start_paused = true)]
async fn more_records_than_one_page_holds_are_all_read() {
    let stage = Stage::new();
    let engine = stage.begin_patient().await;
    let mut all = Vec::new();
    for _ in 0..520 {
        all.push(stage.create(&engine, Policy::default()).await);
    }
    for id in &all {
        stage.wait_ready(&engine, *id).await.unwrap();
    }

    let complete = engine.reconcile(Reconcile::DryRun).await.unwrap();
    let last = all[519];
    stage.world.kill_body(body_of(&stage.sandbox(last).await), false);
    let one_is_lost = engine.reconcile(Reconcile::Repair).await.unwrap();
    stage.until(last, SECOND, |sandbox| sandbox.is_settled()).await;

    assert_eq!((complete.records, complete.bodies), (520, 520));
    assert_eq!((complete.records_without_body.len(), complete.bodies_without_record.len()), (0, 0));
    assert_eq!(one_is_lost.records_without_body, [last]);
    assert_eq!(stage.store.totals().await.unwrap().present(), 519);
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_fails_changes_nothing() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.make_stray(NOBODY, 1).await;
    stage.weather.next(Call::Discover, fault(Fault::LookFails));
    let before = (stage.bodies(), stage.sandbox(id).await);

    let report = engine.reconcile(Reconcile::Repair).await;

    assert!(matches!(report, Err(ReconcileError::Discover(DiscoverError::LookFailed { .. }))));
    assert_eq!((stage.bodies(), stage.sandbox(id).await), before);
}

#[tokio::test(start_paused = true)]
async fn a_stray_that_cannot_be_looked_at_is_left_for_the_next_time() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    stage.pass_ms(SECOND).await;
    stage.make_stray(NOBODY, 1).await;
    stage.weather.next(Call::Observe, fault(Fault::LookFails));

    let blind = engine.reconcile(Reconcile::Repair).await.unwrap();
    let left = stage.bodies().len();
    let seeing = engine.reconcile(Reconcile::Repair).await.unwrap();

    assert_eq!((blind.bodies, blind.bodies_without_record.len(), left), (1, 0, 1));
    assert_eq!(seeing.bodies_without_record.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_cannot_be_read_is_reported_and_left_alone() {
    let stage = Stage::new();
    let provider = Scribbled(stage.provider(&stage.weather));
    let engine = stage.begin_over(provider, Config::default()).await;
    let id = stage.ready(&engine, Policy::default()).await;

    let report = engine.reconcile(Reconcile::Repair).await.unwrap();
    stage.pass_ms(2 * MINUTE).await;

    assert_eq!(report.unreadable_marks, ["pinfold-scribble"]);
    assert_eq!(report.bodies_without_record, []);
    assert_eq!(stage.weather.calls(Call::Stop), 0);
    assert_eq!(stage.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_reported_and_its_body_is_no_stray() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let id = stage.ready(&engine, Policy::default()).await;
    stage.store.tamper("UPDATE sandboxes SET state = ''").unwrap();

    let said = engine.reconcile(Reconcile::DryRun).await.unwrap();
    let done = engine.reconcile(Reconcile::Repair).await.unwrap();

    assert_eq!(said, done);
    assert_eq!(done.unreadable_records, [id]);
    assert_eq!(done.bodies_without_record, []);
    assert_eq!(stage.state(id).await, State::Quarantined);
    assert_eq!(stage.bodies().len(), 1);
}

/// A world in which something looks like ours and cannot be read.
struct Scribbled(FakeProvider);

#[async_trait]
impl Provider for Scribbled {
    fn name(&self) -> &'static str {
        "scribbled"
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let mut discovered = self.0.discover().await?;
        discovered.unreadable.push("pinfold-scribble".into());
        Ok(discovered)
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        self.0.start(start).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.0.observe(sandbox).await
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        self.0.probe(body).await
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        self.0.ping(body).await
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        self.0.exec(body, exec).await
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        self.0.wait(body, execution).await
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        self.0.kill(body, execution).await
    }

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        self.0.signal(body, execution, signal).await
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        self.0.feed(body, execution, feed).await
    }

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.0.resize(body, execution, size).await
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        self.0.stop(body, grace_ms).await
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        self.0.usage(body).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.0.capacity().await
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        self.0.keep_alive(body, ends_at).await
    }
}
