//! The warm pool: what waits in it is nobody's, is given out once, proven, and with its user's own time.

use super::*;

const DAY_MS: u64 = 86_400_000;
const HALF_AN_HOUR_MS: u64 = 1_800_000;

fn shape() -> Shape {
    Shape { image: Some("python".into()), limits: Limits { memory_mb: Some(64), ..Limits::default() } }
}

/// A body waits in the pool, and whoever claims it wants to live a day.
fn waiting() -> Scene {
    waiting_until(HALF_AN_HOUR_MS)
}

fn waiting_until(pool_life_ms: u64) -> Scene {
    let waits = Policy { max_life_ms: pool_life_ms, accept_ms: Some(1_000), ..Policy::default() };
    let ctx = Context { now: NOON, node: HERE, policy: &waits };
    let mut scene = Scene::from(create_pooled(SandboxId(7), shape(), ctx), waits.clone());
    scene.launched();
    scene.probed(Probed::Passed);
    scene.policy = Policy { max_life_ms: DAY_MS, launches: 1, ..Policy::default() };
    scene
}

impl Scene {
    fn claim(&mut self) -> Result<(), Refusal> {
        self.ask(Request::Claim { shape: Box::new(shape()) })
    }

    fn claimed() -> Self {
        let mut scene = waiting();
        scene.claim().expect("it waits and is proven");
        scene
    }

    fn extend_ticket(&self) -> Fence {
        self.duty(|work| matches!(work, EffectKind::Extend { .. })).ticket
    }

    fn refused(&mut self, wish: Request) -> Refusal {
        self.ask(wish).expect_err("it is not to be granted")
    }
}

#[test]
fn what_waits_in_the_pool_is_neither_created_nor_destroyed() {
    let mut scene = waiting();
    let waits = (scene.sandbox.created_and_destroyed(), scene.sandbox.is_in_pool());

    scene.stop();
    scene.stopped(gone());

    assert_eq!(waits, ((0, 0), true));
    assert_eq!((scene.sandbox.created_and_destroyed(), scene.sandbox.is_in_pool()), ((0, 0), false));
    assert!(!scene.has(|fact| *fact == Fact::Created));
}

#[test]
fn a_claim_makes_it_its_users_sandbox_from_that_moment_on() {
    let mut scene = waiting();
    scene.now = NOON.after_ms(10_000);
    scene.node = ELSEWHERE;

    scene.claim().unwrap();

    let sandbox = &scene.sandbox;
    assert_eq!((sandbox.pooled.is_none(), sandbox.owner, sandbox.created_at), (true, ELSEWHERE, scene.now));
    assert_eq!(sandbox.expires_at, scene.now.after_ms(DAY_MS));
    assert_eq!(sandbox.created_and_destroyed(), (1, 0));
    assert_eq!((scene.status(), sandbox.generation()), (State::Ready, Generation(1)));
    assert_eq!(scene.work(), [EffectKind::Extend { ends_at: sandbox.expires_at }]);
    assert!(scene.has(|fact| *fact == Fact::Created));
}

#[test]
fn a_body_is_given_out_once() {
    let mut scene = Scene::claimed();

    assert_eq!(scene.claim(), Err(Refusal::NotPooled));
    assert_eq!(Scene::live(Policy::default()).claim(), Err(Refusal::NotPooled));
}

#[test]
fn a_body_of_another_shape_is_not_given_out() {
    let mut scene = waiting();
    let other = Shape { image: None, ..shape() };

    assert_eq!(scene.refused(Request::Claim { shape: Box::new(other) }), Refusal::OtherShape);
}

#[test]
fn a_body_is_not_given_out_before_its_probe_has_passed() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let mut scene = Scene::from(create_pooled(SandboxId(7), shape(), ctx), policy.clone());

    assert_eq!(scene.claim(), Err(Refusal::NotProven));
    scene.launched();
    assert_eq!(scene.claim(), Err(Refusal::NotProven));
    scene.probed(Probed::Passed);
    assert_eq!(scene.claim(), Ok(()));
}

#[test]
fn stale_evidence_is_not_given_out() {
    let mut scene = waiting();
    scene.now = NOON.after_ms(scene.policy.evidence_ms + 1);

    assert_eq!(scene.claim(), Err(Refusal::NotProven));
    scene.tell(Event::TimePassed);
    scene.probed(Probed::Passed);
    assert_eq!(scene.claim(), Ok(()));
}

#[test]
fn a_body_in_doubt_is_not_given_out() {
    let mut doubted = waiting();
    doubted.tell(Event::Doubted { why: "nobody saw it".into() });
    let mut adopted = waiting();
    adopted.node = ELSEWHERE;
    adopted.ask(Request::Adopt { dead: HERE, rebooted: false }).unwrap();

    assert_eq!(doubted.claim(), Err(Refusal::NotProven));
    doubted.looked(unknown());
    assert_eq!(doubted.claim(), Err(Refusal::NotProven));
    assert_eq!(adopted.claim(), Err(Refusal::NotProven));
    adopted.looked(present(vec![body(1, vec![])]));
    assert_eq!(adopted.claim(), Ok(()));
}

#[test]
fn a_body_near_its_end_is_not_given_out() {
    let mut scene = waiting_until(Policy::default().start_ms);

    assert_eq!(scene.claim(), Err(Refusal::NearItsEnd));
}

#[test]
fn who_ends_with_his_owner_gets_nothing_from_the_pool() {
    let mut scene = waiting();
    scene.policy.ends_with_owner = true;

    assert_eq!(scene.claim(), Err(Refusal::EndsWithOwner));
}

#[test]
fn nothing_runs_in_a_body_that_waits_in_the_pool() {
    let mut scene = waiting();
    let (id, kind, limits) = (ExecutionId(1), ExecutionKind::Run, ExecutionLimits::default());

    assert_eq!(scene.refused(Request::Execute { id, kind, limits, may_queue: true }), Refusal::Pooled);
    assert_eq!(scene.refused(Request::Restart { cause: Cause::Cancelled }), Refusal::Pooled);
}

#[test]
fn what_waits_in_the_pool_is_neither_idle_nor_late_to_accept_work() {
    let mut scene = waiting();
    let Lease::Live(live) = &scene.sandbox.lease else { panic!("it is live") };
    assert_eq!((live.idle_by, live.accept_by), (None, None));

    scene.policy.accept_ms = Some(1_000);
    scene.claim().unwrap();

    let Lease::Live(live) = &scene.sandbox.lease else { panic!("it is live") };
    assert_eq!(live.accept_by, Some(NOON.after_ms(1_000)));
    assert_eq!(live.idle_by, scene.policy.idle_ms.map(|ms| NOON.after_ms(ms)));
}

#[test]
fn an_unhealthy_body_in_the_pool_is_ended_at_once() {
    let mut scene = waiting();
    scene.wait_ms(scene.policy.probe_every_ms);
    scene.probed(Probed::Unknown { why: "fog".into() });

    scene.probed(Probed::Failed(ProbeFailure::Files { why: "/workspace is missing".into() }));

    assert_eq!(scene.cause(), Some(Cause::ProbeFailed));
}

#[test]
fn a_body_that_may_live_longer_works_before_it_knows() {
    let mut scene = Scene::claimed();
    let extend = EffectKind::Extend { ends_at: scene.sandbox.expires_at };

    scene.execute(ExecutionId(1), ExecutionLimits::default());

    assert_eq!(scene.work(), [extend, EffectKind::Exec { execution: ExecutionId(1) }]);
}

#[test]
fn a_body_that_must_end_sooner_works_only_once_it_knows() {
    let mut scene = waiting();
    scene.policy.max_life_ms = 600_000;
    scene.claim().unwrap();
    scene.execute(ExecutionId(1), ExecutionLimits::default());
    assert_eq!(scene.work(), [EffectKind::Extend { ends_at: NOON.after_ms(600_000) }]);

    scene.tell(Event::Extended { ticket: scene.extend_ticket() });

    assert_eq!(scene.work(), [EffectKind::Exec { execution: ExecutionId(1) }]);
}

#[test]
fn a_body_that_cannot_be_told_its_end_is_replaced_as_after_a_failed_launch() {
    let mut scene = Scene::claimed();
    let ticket = scene.extend_ticket();
    scene.execute(ExecutionId(1), ExecutionLimits::default());

    scene.tell(Event::ExtendFailed { ticket, why: "there is no such body".into() });
    scene.execute(ExecutionId(2), ExecutionLimits::default());
    scene.stopped(gone());
    scene.launched();
    scene.probed(Probed::Passed);

    assert_eq!(scene.sandbox.generation(), Generation(2));
    assert_eq!(scene.outcome(ExecutionId(1)), Some((OutcomeKind::Failed, Cause::ProviderError)));
    assert_eq!(scene.work(), [EffectKind::Exec { execution: ExecutionId(2) }]);
    scene.tell(Event::Extended { ticket });
    assert_eq!(scene.work(), [EffectKind::Exec { execution: ExecutionId(2) }]);
}

#[test]
fn a_body_that_does_not_answer_to_its_end_is_replaced_at_the_deadline() {
    let mut scene = Scene::claimed();
    let deadline = scene.duty(|work| matches!(work, EffectKind::Extend { .. })).deadline;

    scene.now = deadline;
    scene.tell(Event::TimePassed);
    scene.stopped(gone());

    assert_eq!((scene.work(), scene.sandbox.generation()), (vec![EffectKind::Launch], Generation(2)));
}

#[test]
fn what_a_dead_claimer_left_is_told_its_end_by_whoever_adopts_it() {
    let mut scene = Scene::claimed();
    let late = scene.extend_ticket();
    scene.node = ELSEWHERE;

    scene.ask(Request::Adopt { dead: HERE, rebooted: false }).unwrap();

    let again = scene.duty(|work| matches!(work, EffectKind::Extend { .. }));
    assert_eq!((again.by, again.deadline), (ELSEWHERE, NOON.after_ms(scene.policy.start_ms / 2)));
    scene.tell(Event::Extended { ticket: late });
    assert_eq!(scene.extend_ticket(), again.ticket);
}

#[test]
fn what_was_given_out_is_not_given_up() {
    let mut scene = waiting();
    let mut claimed = Scene::claimed();
    let give_up = Request::GiveUp { cause: Cause::Cancelled };

    assert_eq!(scene.ask(give_up.clone()), Ok(()));
    assert_eq!(claimed.refused(give_up), Refusal::NotPooled);
    assert_eq!(scene.claim(), Err(Refusal::Ending { cause: Cause::Cancelled }));
}

#[test]
fn the_pool_never_takes_the_last_place() {
    let limits = AdmissionLimits { sandboxes: Some(3), memory_mb: Some(100), ..AdmissionLimits::default() };
    let taken = |pooled, memory_mb| Totals {
        created: 1,
        pooled,
        taken: Demand { memory_mb, ..Demand::default() },
        ..Totals::default()
    };
    let asked = Demand { memory_mb: 30, ..Demand::default() };

    assert_eq!(admit_to_pool(&taken(0, 40), &asked, &limits), Ok(()));
    assert_eq!(
        admit_to_pool(&taken(1, 40), &asked, &limits),
        Err(Scarcity::Sandboxes { present: 3, limit: 3 })
    );
    assert_eq!(
        admit_to_pool(&taken(0, 41), &asked, &limits),
        Err(Scarcity::Memory { taken: 71, asked: 30, limit: 100 })
    );
    assert_eq!(admit(&taken(1, 40), &asked, &limits), Ok(()));
}
