//! The warm pool: except for speed, users cannot tell a pooled instance from a new one. Each is used once,
//! never shared, probed before it is claimed, and gives way to requests that need its room.

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateRequest, Engine, OnExit, PoolPlan};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Fact, Generation, Lease, Limits, Policy, SandboxId, Shape, Spec, State,
};
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CreateError, IdempotencyKey, Row, SandboxFilter, Store};

use crate::fakes::{START, fault, hangs, slow};
use crate::fixture::{Fixture, MINUTE, SECOND};

pub(crate) fn shape() -> Shape {
    Shape { image: Some("python".into()), limits: Limits { memory_mb: Some(64), ..Limits::default() } }
}

pub(crate) fn pool_of(size: u64) -> Config {
    let plan = PoolPlan { shape: shape(), policy: Policy::default(), size };
    Config { pool: vec![plan], ..Config::default() }
}

pub(crate) fn requesting() -> CreateRequest {
    let labels = [("team".to_owned(), "blue".to_owned())].into();
    CreateRequest {
        spec: Spec { task_id: Some("mine".into()), labels, ..shape().spec() }.into(),
        ..CreateRequest::default()
    }
}

impl Fixture {
    pub(crate) async fn pooled(&self) -> Vec<SandboxId> {
        let rows = self.store.list(SandboxFilter::Pooled, None, 1_000).await.unwrap();
        rows.iter().map(Row::id).collect()
    }

    /// Pooled instances that could be claimed now.
    pub(crate) async fn ready_in_pool(&self) -> Vec<SandboxId> {
        let rows = self.store.pool_members(&shape(), None, 1_000).await.unwrap();
        let is_live =
            |row: &&Row| matches!(row, Row::Readable(s) if matches!(s.sandbox.lease, Lease::Live(_)));
        rows.iter().filter(is_live).map(Row::id).collect()
    }

    pub(crate) async fn until_pool_has(&self, size: usize) -> Vec<SandboxId> {
        let deadline = self.now() + 5 * MINUTE;
        loop {
            let ready = self.ready_in_pool().await;
            if ready.len() == size {
                return ready;
            }
            assert!(self.now() < deadline, "the pool has {} of {size}", ready.len());
            self.pass_ms(100).await;
        }
    }

    async fn start_engine_with_pool(&self, size: u64) -> Engine {
        let engine = self.start_engine_with(pool_of(size)).await;
        self.until_pool_has(usize::try_from(size).unwrap()).await;
        engine
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_from_the_pool_is_ready_at_once_and_the_pool_is_filled_again() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(2).await;
    let waiting = fixture.ready_in_pool().await;
    fixture.faults.always(Call::Start, slow(3 * SECOND));
    let began = fixture.now();

    let id = engine.create(requesting()).await.unwrap();
    fixture.wait_ready(&engine, id).await.unwrap();
    let execution = fixture.run(&engine, id, "exit 3").await;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert_eq!((fixture.now(), outcome.exit_code), (began, Some(3)));
    assert!(waiting.contains(&id));
    let refilled = fixture.until_pool_has(2).await;
    assert!(!refilled.contains(&id));
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_pooled_replacement_is_launched_when_no_more_requests_arrive() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(3).await;

    engine.create(requesting()).await.unwrap();
    fixture.pass_ms(15).await;
    engine.create(requesting()).await.unwrap();
    fixture.pass_ms(15).await;

    assert_eq!(fixture.pooled().await.len(), 1);
    fixture.pass_ms(10).await;
    assert_eq!(fixture.pooled().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn continuous_requests_do_not_keep_the_pool_empty() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(20).await;
    let before = fixture.now();

    for _ in 0..100 {
        engine.create(requesting()).await.unwrap();
        fixture.pass_ms(15).await;
        assert!(!fixture.pooled().await.is_empty());
    }

    assert!(fixture.now() - before < 2 * SECOND);
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_claimed_sandbox_has_the_requested_spec() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(1).await;
    fixture.pass_ms(7 * SECOND).await;
    let policy = Policy { max_life_ms: 3 * 60 * MINUTE, grace_ms: 77, ..Policy::default() };

    let id = engine.create(CreateRequest { policy: policy.clone().into(), ..requesting() }).await.unwrap();

    let stored = fixture.stored(id).await;
    assert_eq!((stored.spec.as_ref(), stored.policy.as_ref()), (requesting().spec.as_ref(), &policy));
    assert_eq!(stored.sandbox.created_at, START.after_ms(fixture.now()));
    assert_eq!(stored.sandbox.expires_at, START.after_ms(fixture.now() + 3 * 60 * MINUTE));
    assert_eq!((stored.sandbox.owner, stored.sandbox.grace_ms), (engine.node(), 77));
    assert_eq!(fixture.times(id, |fact| *fact == Fact::Created).await, [fixture.now()]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_creates_each_get_their_own_instance() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.start_engine_with_pool(3).await, fixture.start_engine_with(pool_of(3)).await);
    let waiting = fixture.ready_in_pool().await;

    let turns = (0..8).map(|turn| if turn % 2 == 0 { &one } else { &other });
    let given = join_all(turns.map(|engine| engine.create(requesting()))).await;

    let mut given: Vec<_> = given.into_iter().map(Result::unwrap).collect();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), 8);
    assert_eq!(given.iter().filter(|id| waiting.contains(id)).count(), 3);
    for id in given {
        assert_eq!(fixture.times(id, |fact| *fact == Fact::Created).await.len(), 1);
        fixture.wait_ready(&one, id).await.unwrap();
        fixture.stop(&one, id).await;
    }
    fixture.assert_sum().await;
    assert_eq!(fixture.store.totals().await.unwrap().created, 8);
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_used_once() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(1).await;
    let first = engine.create(requesting()).await.unwrap();
    fixture.run(&engine, first, "work 1000 0").await;
    fixture.stop(&engine, first).await;

    for _ in 0..3 {
        fixture.until_pool_has(1).await;
        assert_ne!(engine.create(requesting()).await.unwrap(), first);
    }
    assert_eq!(fixture.state(first).await, State::Terminated);
}

#[tokio::test(start_paused = true)]
async fn an_unprobed_pooled_instance_is_not_claimed() {
    let fixture = Fixture::new();
    fixture.faults.next(Call::Probe, hangs());
    let engine = fixture.start_engine_with(pool_of(1)).await;
    fixture.pass_ms(100).await;
    let waiting = fixture.pooled().await;

    let id = engine.create(requesting()).await.unwrap();

    assert_eq!(waiting.len(), 1);
    assert!(!waiting.contains(&id));
    fixture.wait_ready(&engine, id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn expired_evidence_in_the_pool_is_not_claimed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(1).await;
    let waiting = fixture.ready_in_pool().await;
    fixture.pass_ms(5 * SECOND).await;

    let strict = Policy { evidence_ms: 4 * SECOND, probe_every_ms: 2 * SECOND, ..Policy::default() };
    let cold = engine.create(CreateRequest { policy: strict.into(), ..requesting() }).await.unwrap();
    let warm = engine.create(requesting()).await.unwrap();

    assert_eq!((waiting.contains(&cold), waiting.contains(&warm)), (false, true));
}

#[tokio::test(start_paused = true)]
async fn another_shape_or_a_sandbox_bound_to_its_owner_bypasses_the_pool() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(1).await;
    let waiting = fixture.ready_in_pool().await;
    let larger = Spec {
        limits: Limits { memory_mb: Some(65), ..Limits::default() },
        ..Spec::clone(&requesting().spec)
    };
    let bound = Policy { ends_with_owner: true, ..Policy::default() };

    let other = engine.create(CreateRequest { spec: larger.into(), ..requesting() }).await.unwrap();
    let owned = engine.create(CreateRequest { policy: bound.into(), ..requesting() }).await.unwrap();

    for id in [other, owned] {
        assert!(!waiting.contains(&id));
        fixture.wait_ready(&engine, id).await.unwrap();
    }
    assert_eq!(fixture.ready_in_pool().await, waiting);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_claims_one_instance_from_the_pool() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(2).await;
    let with_key = |request: &str| {
        let (key, expires_at) = ("order-1".to_owned(), START.after_ms(60 * MINUTE));
        CreateRequest {
            key: Some(IdempotencyKey { key, request: request.into(), expires_at }),
            ..requesting()
        }
    };

    let first = engine.create(with_key("the same")).await.unwrap();
    let again = engine.create(with_key("the same")).await.unwrap();
    let other = engine.create(with_key("another")).await;

    assert_eq!(first, again);
    assert!(matches!(other, Err(AdmitError::Create(CreateError::KeyReused { .. }))));
    assert_eq!(fixture.store.totals().await.unwrap().created, 1);
}

#[tokio::test(start_paused = true)]
async fn several_engines_fill_one_pool() {
    let fixture = Fixture::new();
    let (_one, _other) =
        (fixture.start_engine_with(pool_of(5)).await, fixture.start_engine_with(pool_of(5)).await);

    fixture.until_pool_has(5).await;
    fixture.pass_ms(MINUTE).await;

    assert_eq!((fixture.pooled().await.len(), fixture.instances().len()), (5, 5));
    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed, totals.pooled), (0, 0, 5));
}

#[tokio::test(start_paused = true)]
async fn pooled_instances_are_discarded_for_requests_when_limits_are_reached() {
    let fixture = Fixture::new();
    let admission = AdmissionLimits { sandboxes: Some(4), ..AdmissionLimits::default() };
    let engine = fixture.start_engine_with(Config { admission, ..pool_of(9) }).await;
    // One slot is left for requests.
    fixture.until_pool_has(3).await;

    let cold: Vec<_> = join_all((0..6).map(|_| engine.create(CreateRequest::default()))).await;

    let (admitted, refused): (Vec<_>, Vec<_>) = cold.into_iter().partition(Result::is_ok);
    assert_eq!((admitted.len(), refused.len()), (4, 2));
    assert!(
        refused
            .iter()
            .all(|refusal| matches!(refusal, Err(AdmitError::Create(CreateError::AdmissionRefused(_)))))
    );
    fixture.pass_ms(MINUTE).await;
    assert_eq!((fixture.pooled().await, fixture.instances().len()), (vec![], 4));
    fixture.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_on_a_pool_admits_as_many_as_without_it() {
    for size in [0, 2, 4] {
        let fixture = Fixture::new();
        let admission = AdmissionLimits { sandboxes: Some(5), ..AdmissionLimits::default() };
        let engine = fixture.start_engine_with(Config { admission, ..pool_of(size) }).await;
        fixture.pass_ms(10 * SECOND).await;

        let answers = join_all((0..64).map(|_| engine.create(requesting()))).await;

        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5, "with a pool of {size}");
        assert_eq!(fixture.store.totals().await.unwrap().created, 5);
        fixture.assert_sum().await;
    }
}

/// What a user sees of a sandbox's life, without times.
async fn visible_history(fixture: &Fixture, engine: &Engine) -> Vec<String> {
    let id = engine.create(requesting()).await.unwrap();
    let ready = fixture.wait_ready(engine, id).await;
    let mut seen = vec![format!("{ready:?} {:?}", fixture.state(id).await)];
    for command in ["true", "exit 3", "no-such-program"] {
        let execution = fixture.run(engine, id, command).await;
        seen.push(format!("{:?}", fixture.outcome(engine, id, execution).await));
    }
    let (spec, listed) = (
        fixture.stored(id).await.spec,
        fixture.store.list(SandboxFilter::Present, None, 9).await.unwrap().len(),
    );
    engine.restart(id, Cause::Cancelled).await.unwrap();
    fixture.wait_ready(engine, id).await.unwrap();
    let generation = fixture.sandbox(id).await.generation();
    seen.push(format!("{spec:?} {listed} {generation:?}"));
    fixture.stop(engine, id).await;
    let totals = fixture.store.totals().await.unwrap();
    seen.push(format!("{:?} {} {}", fixture.state(id).await, totals.created, totals.destroyed));
    seen
}

#[tokio::test(start_paused = true)]
async fn histories_with_and_without_a_pool_differ_only_in_time() {
    let off = Fixture::new();
    let without = visible_history(&off, &off.start_engine().await).await;
    let on = Fixture::new();
    let engine = on.start_engine_with_pool(2).await;

    let with = visible_history(&on, &engine).await;

    assert_eq!(with, without);
    assert_eq!(on.faults.calls(Call::KeepAlive), 1);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_shuts_down_ends_its_pool_and_keeps_its_sandboxes() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(3).await;
    let id = engine.create(requesting()).await.unwrap();

    engine.shutdown(OnExit::Keep, MINUTE).await.unwrap();

    assert_eq!(fixture.pooled().await, []);
    let instances = fixture.instances();
    assert_eq!(instances.iter().map(|instance| instance.instance.sandbox).collect::<Vec<_>>(), [id]);
    assert_eq!(instances[0].instance.generation, Generation(1));
    let next = fixture.start_engine().await;
    fixture.stop(&next, id).await;
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_reports_pooled_instances_that_are_not_proven_gone() {
    for on_exit in [OnExit::Stop, OnExit::Keep] {
        let fixture = Fixture::new();
        let engine = fixture.start_engine_with_pool(1).await;
        let pooled = fixture.pooled().await;
        fixture.faults.next(Call::Stop, fault(Fault::ObserveFails));

        let left = engine.shutdown(on_exit, 2 * SECOND).await.unwrap();

        assert_eq!((left.len(), left), (1, pooled));
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_a_sandbox_created_while_the_pool_is_discarded() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with_pool(1).await;
    fixture.faults.next(Call::Stop, slow(5 * SECOND));

    let late = async {
        fixture.pass_ms(SECOND).await;
        engine.create(CreateRequest::default()).await.unwrap()
    };
    let (left, _) = tokio::join!(engine.shutdown(OnExit::Stop, MINUTE), late);

    assert_eq!(left.unwrap(), []);
    fixture.assert_nothing_is_left().await;
}
