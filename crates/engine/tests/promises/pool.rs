//! The warm pool as its users see it: nothing but time tells whether it is there. What waits in it is used once,
//! never shared, proven before it is given out, and makes room for whoever asks.

use futures_util::future::join_all;
use pinfold_engine::{AdmitError, Config, CreateAsk, Engine, OnExit, PoolPlan};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Fact, Generation, Lease, Limits, Policy, SandboxId, Shape, Spec, State,
};
use pinfold_provider::fake::Call;
use pinfold_store::{CreateError, Filter, IdempotencyKey, Row, Store};

use crate::seams::{DAWN, hangs, slow};
use crate::stage::{MINUTE, SECOND, Stage};

pub(crate) fn shape() -> Shape {
    Shape { image: Some("python".into()), limits: Limits { memory_mb: Some(64), ..Limits::default() } }
}

pub(crate) fn pool_of(size: u64) -> Config {
    let plan = PoolPlan { shape: shape(), policy: Policy::default(), size };
    Config { pool: vec![plan], ..Config::default() }
}

pub(crate) fn asking() -> CreateAsk {
    let labels = [("team".to_owned(), "blue".to_owned())].into();
    CreateAsk { spec: Spec { name: Some("mine".into()), labels, ..shape().spec() }, ..CreateAsk::default() }
}

impl Stage {
    pub(crate) async fn pooled(&self) -> Vec<SandboxId> {
        let rows = self.store.list(Filter::Pooled, None, 1_000).await.unwrap();
        rows.iter().map(Row::id).collect()
    }

    /// Bodies that somebody could be given now.
    pub(crate) async fn ready_in_pool(&self) -> Vec<SandboxId> {
        let rows = self.store.waiting(&shape(), None, 1_000).await.unwrap();
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

    async fn begin_with_pool_of(&self, size: u64) -> Engine {
        let engine = self.begin_with(pool_of(size)).await;
        self.until_pool_has(usize::try_from(size).unwrap()).await;
        engine
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_from_the_pool_is_ready_at_once_and_the_pool_is_filled_again() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(2).await;
    let waiting = stage.ready_in_pool().await;
    stage.weather.always(Call::Start, slow(3 * SECOND));
    let began = stage.now();

    let id = engine.create(asking()).await.unwrap();
    stage.wait_ready(&engine, id).await.unwrap();
    let execution = stage.run(&engine, id, "exit 3").await;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert_eq!((stage.now(), outcome.exit_code), (began, Some(3)));
    assert!(waiting.contains(&id));
    let refilled = stage.until_pool_has(2).await;
    assert!(!refilled.contains(&id));
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_is_made_when_nobody_comes_any_more() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(3).await;

    engine.create(asking()).await.unwrap();
    stage.pass_ms(15).await;
    engine.create(asking()).await.unwrap();
    stage.pass_ms(15).await;

    assert_eq!(stage.pooled().await.len(), 1);
    stage.pass_ms(10).await;
    assert_eq!(stage.pooled().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn who_keeps_coming_does_not_empty_the_pool() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(20).await;
    let before = stage.now();

    for _ in 0..100 {
        engine.create(asking()).await.unwrap();
        stage.pass_ms(15).await;
        assert!(!stage.pooled().await.is_empty());
    }

    assert!(stage.now() - before < 2 * SECOND);
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_given_out_is_what_was_asked_for() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(1).await;
    stage.pass_ms(7 * SECOND).await;
    let policy = Policy { max_life_ms: 3 * 60 * MINUTE, grace_ms: 77, ..Policy::default() };

    let id = engine.create(CreateAsk { policy: policy.clone(), ..asking() }).await.unwrap();

    let stored = stage.stored(id).await;
    assert_eq!((stored.spec.as_ref(), stored.policy.as_ref()), (&asking().spec, &policy));
    assert_eq!(stored.sandbox.created_at, DAWN.after_ms(stage.now()));
    assert_eq!(stored.sandbox.expires_at, DAWN.after_ms(stage.now() + 3 * 60 * MINUTE));
    assert_eq!((stored.sandbox.owner, stored.sandbox.grace_ms), (engine.node(), 77));
    assert_eq!(stage.times(id, |fact| *fact == Fact::Created).await, [stage.now()]);
}

#[tokio::test(start_paused = true)]
async fn many_creates_at_once_are_each_given_a_body_of_their_own() {
    let stage = Stage::new();
    let (one, other) = (stage.begin_with_pool_of(3).await, stage.begin_with(pool_of(3)).await);
    let waiting = stage.ready_in_pool().await;

    let turns = (0..8).map(|turn| if turn % 2 == 0 { &one } else { &other });
    let given = join_all(turns.map(|engine| engine.create(asking()))).await;

    let mut given: Vec<_> = given.into_iter().map(Result::unwrap).collect();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), 8);
    assert_eq!(given.iter().filter(|id| waiting.contains(id)).count(), 3);
    for id in given {
        assert_eq!(stage.times(id, |fact| *fact == Fact::Created).await.len(), 1);
        stage.wait_ready(&one, id).await.unwrap();
        stage.stop(&one, id).await;
    }
    stage.assert_sum().await;
    assert_eq!(stage.store.totals().await.unwrap().created, 8);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_used_once() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(1).await;
    let first = engine.create(asking()).await.unwrap();
    stage.run(&engine, first, "work 1000 0").await;
    stage.stop(&engine, first).await;

    for _ in 0..3 {
        stage.until_pool_has(1).await;
        assert_ne!(engine.create(asking()).await.unwrap(), first);
    }
    assert_eq!(stage.state(first).await, State::Terminated);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_probed_yet_is_not_given_out() {
    let stage = Stage::new();
    stage.weather.next(Call::Probe, hangs());
    let engine = stage.begin_with(pool_of(1)).await;
    stage.pass_ms(100).await;
    let waiting = stage.pooled().await;

    let id = engine.create(asking()).await.unwrap();

    assert_eq!(waiting.len(), 1);
    assert!(!waiting.contains(&id));
    stage.wait_ready(&engine, id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_evidence_is_not_given_out() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(1).await;
    let waiting = stage.ready_in_pool().await;
    stage.pass_ms(5 * SECOND).await;

    let strict = Policy { evidence_ms: 4 * SECOND, probe_every_ms: 2 * SECOND, ..Policy::default() };
    let cold = engine.create(CreateAsk { policy: strict, ..asking() }).await.unwrap();
    let warm = engine.create(asking()).await.unwrap();

    assert_eq!((waiting.contains(&cold), waiting.contains(&warm)), (false, true));
}

#[tokio::test(start_paused = true)]
async fn another_shape_and_a_sandbox_that_ends_with_its_owner_are_launched_cold() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(1).await;
    let waiting = stage.ready_in_pool().await;
    let larger = Spec { limits: Limits { memory_mb: Some(65), ..Limits::default() }, ..asking().spec };
    let bound = Policy { ends_with_owner: true, ..Policy::default() };

    let other = engine.create(CreateAsk { spec: larger, ..asking() }).await.unwrap();
    let owned = engine.create(CreateAsk { policy: bound, ..asking() }).await.unwrap();

    for id in [other, owned] {
        assert!(!waiting.contains(&id));
        stage.wait_ready(&engine, id).await.unwrap();
    }
    assert_eq!(stage.ready_in_pool().await, waiting);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_is_given_one_body_from_the_pool() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(2).await;
    let with_key = |request: &str| {
        let (key, expires_at) = ("order-1".to_owned(), DAWN.after_ms(60 * MINUTE));
        CreateAsk { key: Some(IdempotencyKey { key, request: request.into(), expires_at }), ..asking() }
    };

    let first = engine.create(with_key("the same")).await.unwrap();
    let again = engine.create(with_key("the same")).await.unwrap();
    let other = engine.create(with_key("another")).await;

    assert_eq!(first, again);
    assert!(matches!(other, Err(AdmitError::Create(CreateError::KeyReused { .. }))));
    assert_eq!(stage.store.totals().await.unwrap().created, 1);
}

#[tokio::test(start_paused = true)]
async fn several_engines_fill_one_pool() {
    let stage = Stage::new();
    let (_one, _other) = (stage.begin_with(pool_of(5)).await, stage.begin_with(pool_of(5)).await);

    stage.until_pool_has(5).await;
    stage.pass_ms(MINUTE).await;

    assert_eq!((stage.pooled().await.len(), stage.bodies().len()), (5, 5));
    let totals = stage.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed, totals.pooled), (0, 0, 5));
}

#[tokio::test(start_paused = true)]
async fn a_full_house_gives_up_its_pool_for_whoever_asks() {
    let stage = Stage::new();
    let admission = AdmissionLimits { sandboxes: Some(4), ..AdmissionLimits::default() };
    let engine = stage.begin_with(Config { admission, ..pool_of(9) }).await;
    // One place is for whoever asks.
    stage.until_pool_has(3).await;

    let cold: Vec<_> = join_all((0..6).map(|_| engine.create(CreateAsk::default()))).await;

    let (admitted, refused): (Vec<_>, Vec<_>) = cold.into_iter().partition(Result::is_ok);
    assert_eq!((admitted.len(), refused.len()), (4, 2));
    assert!(refused.iter().all(|refusal| matches!(refusal, Err(AdmitError::Create(CreateError::Scarce(_))))));
    stage.pass_ms(MINUTE).await;
    assert_eq!((stage.pooled().await, stage.bodies().len()), (vec![], 4));
    stage.assert_sum().await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_on_a_pool_admits_as_many_as_without_it() {
    for size in [0, 2, 4] {
        let stage = Stage::new();
        let admission = AdmissionLimits { sandboxes: Some(5), ..AdmissionLimits::default() };
        let engine = stage.begin_with(Config { admission, ..pool_of(size) }).await;
        stage.pass_ms(10 * SECOND).await;

        let answers = join_all((0..64).map(|_| engine.create(asking()))).await;

        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5, "with a pool of {size}");
        assert_eq!(stage.store.totals().await.unwrap().created, 5);
        stage.assert_sum().await;
    }
}

/// What a user can see of a sandbox's whole life, times aside.
async fn seen_of_a_life(stage: &Stage, engine: &Engine) -> Vec<String> {
    let id = engine.create(asking()).await.unwrap();
    let ready = stage.wait_ready(engine, id).await;
    let mut seen = vec![format!("{ready:?} {:?}", stage.state(id).await)];
    for command in ["true", "exit 3", "no-such-program"] {
        let execution = stage.run(engine, id, command).await;
        seen.push(format!("{:?}", stage.outcome(engine, id, execution).await));
    }
    let (spec, listed) =
        (stage.stored(id).await.spec, stage.store.list(Filter::Present, None, 9).await.unwrap().len());
    engine.restart(id, Cause::Cancelled).await.unwrap();
    stage.wait_ready(engine, id).await.unwrap();
    let generation = stage.sandbox(id).await.generation();
    seen.push(format!("{spec:?} {listed} {generation:?}"));
    stage.stop(engine, id).await;
    let totals = stage.store.totals().await.unwrap();
    seen.push(format!("{:?} {} {}", stage.state(id).await, totals.created, totals.destroyed));
    seen
}

#[tokio::test(start_paused = true)]
async fn nothing_but_time_tells_whether_there_is_a_pool() {
    let off = Stage::new();
    let without = seen_of_a_life(&off, &off.begin().await).await;
    let on = Stage::new();
    let engine = on.begin_with_pool_of(2).await;

    let with = seen_of_a_life(&on, &engine).await;

    assert_eq!(with, without);
    assert_eq!(on.weather.calls(Call::KeepAlive), 1);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_shuts_down_ends_its_pool_and_keeps_its_sandboxes() {
    let stage = Stage::new();
    let engine = stage.begin_with_pool_of(3).await;
    let id = engine.create(asking()).await.unwrap();

    engine.shutdown(OnExit::Keep, MINUTE).await.unwrap();

    assert_eq!(stage.pooled().await, []);
    let bodies = stage.bodies();
    assert_eq!(bodies.iter().map(|body| body.body.sandbox).collect::<Vec<_>>(), [id]);
    assert_eq!(bodies[0].body.generation, Generation(1));
    let next = stage.begin().await;
    stage.stop(&next, id).await;
    stage.assert_nothing_is_left().await;
}
