//! The warm pool: an instance is claimed once, with a fresh probe, and gets its user's deadline.

use super::*;

const DAY_MS: u64 = 86_400_000;
const HALF_AN_HOUR_MS: u64 = 1_800_000;

fn shape() -> Shape {
    Shape { image: Some("python".into()), limits: Limits { memory_mb: Some(64), ..Limits::default() } }
}

/// A pooled instance, ready to be claimed by a policy with a maximum life of one day.
fn waiting() -> Fixture {
    waiting_until(HALF_AN_HOUR_MS)
}

fn waiting_until(pool_life_ms: u64) -> Fixture {
    let waits = Policy { max_life_ms: pool_life_ms, accept_ms: Some(1_000), ..Policy::default() };
    let ctx = Context { now: NOON, node: HERE, policy: &waits };
    let mut fixture = Fixture::from(create_pooled(SandboxId(7), shape(), ctx), waits.clone());
    fixture.launched();
    fixture.probed(ProbeResult::Passed);
    fixture.policy = Policy { max_life_ms: DAY_MS, launches: 1, ..Policy::default() };
    fixture
}

impl Fixture {
    fn claim(&mut self) -> Result<(), Refusal> {
        self.request(Request::Claim { shape: Box::new(shape()) })
    }

    fn claimed() -> Self {
        let mut fixture = waiting();
        fixture.claim().expect("it waits and is proven");
        fixture
    }

    fn extend_fence(&self) -> Fence {
        self.pending(|kind| matches!(kind, EffectKind::Extend { .. })).fence
    }

    fn refused(&mut self, request: Request) -> Refusal {
        self.request(request).expect_err("it is not to be granted")
    }
}

#[test]
fn pooled_instance_counts_as_neither_created_nor_destroyed() {
    let mut fixture = waiting();
    let waits = (fixture.sandbox.created_and_destroyed(), fixture.sandbox.is_in_pool());

    fixture.stop();
    fixture.stopped(gone());

    assert_eq!(waits, ((0, 0), true));
    assert_eq!((fixture.sandbox.created_and_destroyed(), fixture.sandbox.is_in_pool()), ((0, 0), false));
    assert!(!fixture.has(|fact| *fact == Fact::Created));
}

#[test]
fn claim_starts_the_users_sandbox_at_that_moment() {
    let mut fixture = waiting();
    fixture.now = NOON.after_ms(10_000);
    fixture.node = ELSEWHERE;

    fixture.claim().unwrap();

    let sandbox = &fixture.sandbox;
    assert_eq!((sandbox.pooled.is_none(), sandbox.owner, sandbox.created_at), (true, ELSEWHERE, fixture.now));
    assert_eq!(sandbox.expires_at, fixture.now.after_ms(DAY_MS));
    assert_eq!(sandbox.created_and_destroyed(), (1, 0));
    assert_eq!((fixture.status(), sandbox.generation()), (State::Ready, Generation(1)));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Extend { ends_at: sandbox.expires_at }]);
    assert!(fixture.has(|fact| *fact == Fact::Created));
}

#[test]
fn pooled_instance_is_claimed_once() {
    let mut fixture = Fixture::claimed();

    assert_eq!(fixture.claim(), Err(Refusal::NotPooled));
    assert_eq!(Fixture::live(Policy::default()).claim(), Err(Refusal::NotPooled));
}

#[test]
fn pooled_instance_of_another_shape_is_not_claimed() {
    let mut fixture = waiting();
    let other = Shape { image: None, ..shape() };

    assert_eq!(fixture.refused(Request::Claim { shape: Box::new(other) }), Refusal::OtherShape);
}

#[test]
fn pooled_instance_is_not_claimed_before_its_probe_passed() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let mut fixture = Fixture::from(create_pooled(SandboxId(7), shape(), ctx), policy.clone());

    assert_eq!(fixture.claim(), Err(Refusal::ProbeStale));
    fixture.launched();
    assert_eq!(fixture.claim(), Err(Refusal::ProbeStale));
    fixture.probed(ProbeResult::Passed);
    assert_eq!(fixture.claim(), Ok(()));
}

#[test]
fn pooled_instance_with_a_stale_probe_is_not_claimed() {
    let mut fixture = waiting();
    fixture.now = NOON.after_ms(fixture.policy.evidence_ms + 1);

    assert_eq!(fixture.claim(), Err(Refusal::ProbeStale));
    fixture.apply(Event::TimePassed);
    fixture.probed(ProbeResult::Passed);
    assert_eq!(fixture.claim(), Ok(()));
}

#[test]
fn pooled_instance_with_inconclusive_checks_is_not_claimed() {
    let mut doubted = waiting();
    doubted.apply(Event::Doubted { why: "not observed".into() });
    let mut adopted = waiting();
    adopted.node = ELSEWHERE;
    adopted.request(Request::Adopt { dead: HERE, rebooted: false }).unwrap();

    assert_eq!(doubted.claim(), Err(Refusal::ProbeStale));
    doubted.observed(unknown());
    assert_eq!(doubted.claim(), Err(Refusal::ProbeStale));
    assert_eq!(adopted.claim(), Err(Refusal::ProbeStale));
    adopted.observed(present(vec![instance(1, vec![])]));
    assert_eq!(adopted.claim(), Ok(()));
}

#[test]
fn pooled_instance_near_expiry_is_not_claimed() {
    let mut fixture = waiting_until(Policy::default().start_ms);

    assert_eq!(fixture.claim(), Err(Refusal::ExpiresTooSoon));
}

#[test]
fn sandbox_that_ends_with_its_owner_cannot_claim() {
    let mut fixture = waiting();
    fixture.policy.ends_with_owner = true;

    assert_eq!(fixture.claim(), Err(Refusal::EndsWithOwner));
}

#[test]
fn pooled_instance_refuses_executions() {
    let mut fixture = waiting();
    let (id, kind, limits) = (ExecutionId(1), ExecutionKind::Run, ExecutionLimits::default());

    let transfers = FileTransfers::default();
    let execute = Request::Execute { id, kind, limits, transfers, may_queue: true };
    assert_eq!(fixture.refused(execute), Refusal::Pooled);
    assert_eq!(fixture.refused(Request::Restart { cause: Cause::Cancelled }), Refusal::Pooled);
}

#[test]
fn pooled_instance_has_no_idle_or_accept_deadline() {
    let mut fixture = waiting();
    let Lease::Live(live) = &fixture.sandbox.lease else { panic!("it is live") };
    assert_eq!((live.idle_by, live.accept_by), (None, None));

    fixture.policy.accept_ms = Some(1_000);
    fixture.claim().unwrap();

    let Lease::Live(live) = &fixture.sandbox.lease else { panic!("it is live") };
    assert_eq!(live.accept_by, Some(NOON.after_ms(1_000)));
    assert_eq!(live.idle_by, fixture.policy.idle_ms.map(|ms| NOON.after_ms(ms)));
}

#[test]
fn unhealthy_pooled_instance_is_ended_at_once() {
    let mut fixture = waiting();
    fixture.wait_ms(fixture.policy.probe_every_ms);
    fixture.probed(ProbeResult::Unknown { why: "fog".into() });

    fixture.probed(ProbeResult::Failed(ProbeFailure::Files { why: "/workspace is missing".into() }));

    assert_eq!(fixture.cause(), Some(Cause::ProbeFailed));
}

#[test]
fn claimed_instance_with_a_later_deadline_runs_executions_at_once() {
    let mut fixture = Fixture::claimed();
    let extend = EffectKind::Extend { ends_at: fixture.sandbox.expires_at };

    fixture.execute(ExecutionId(1), ExecutionLimits::default());

    assert_eq!(fixture.effect_kinds(), [extend, EffectKind::Exec { execution: ExecutionId(1) }]);
}

#[test]
fn claimed_instance_with_an_earlier_deadline_runs_executions_after_confirming_it() {
    let mut fixture = waiting();
    fixture.policy.max_life_ms = 600_000;
    fixture.claim().unwrap();
    fixture.execute(ExecutionId(1), ExecutionLimits::default());
    assert_eq!(fixture.effect_kinds(), [EffectKind::Extend { ends_at: NOON.after_ms(600_000) }]);

    fixture.apply(Event::Extended { fence: fixture.extend_fence() });

    assert_eq!(fixture.effect_kinds(), [EffectKind::Exec { execution: ExecutionId(1) }]);
}

#[test]
fn claimed_instance_that_rejects_its_deadline_is_replaced() {
    let mut fixture = Fixture::claimed();
    let fence = fixture.extend_fence();
    fixture.execute(ExecutionId(1), ExecutionLimits::default());

    fixture.apply(Event::ExtendFailed { fence, why: "there is no such instance".into() });
    fixture.execute(ExecutionId(2), ExecutionLimits::default());
    fixture.stopped(gone());
    fixture.launched();
    fixture.probed(ProbeResult::Passed);

    assert_eq!(fixture.sandbox.generation(), Generation(2));
    assert_eq!(fixture.outcome(ExecutionId(1)), Some((OutcomeKind::Failed, Cause::ProviderError)));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Exec { execution: ExecutionId(2) }]);
    fixture.apply(Event::Extended { fence });
    assert_eq!(fixture.effect_kinds(), [EffectKind::Exec { execution: ExecutionId(2) }]);
}

#[test]
fn claimed_instance_that_does_not_confirm_its_deadline_is_replaced() {
    let mut fixture = Fixture::claimed();
    let deadline = fixture.pending(|kind| matches!(kind, EffectKind::Extend { .. })).deadline;

    fixture.now = deadline;
    fixture.apply(Event::TimePassed);
    fixture.stopped(gone());

    assert_eq!(
        (fixture.effect_kinds(), fixture.sandbox.generation()),
        (vec![EffectKind::Launch], Generation(2))
    );
}

#[test]
fn adopting_node_sets_the_deadline_that_a_dead_claimer_left_pending() {
    let mut fixture = Fixture::claimed();
    let late = fixture.extend_fence();
    fixture.node = ELSEWHERE;

    fixture.request(Request::Adopt { dead: HERE, rebooted: false }).unwrap();

    let again = fixture.pending(|kind| matches!(kind, EffectKind::Extend { .. }));
    assert_eq!((again.node, again.deadline), (ELSEWHERE, NOON.after_ms(fixture.policy.start_ms / 2)));
    fixture.apply(Event::Extended { fence: late });
    assert_eq!(fixture.extend_fence(), again.fence);
}

#[test]
fn claimed_instance_cannot_be_discarded() {
    let mut fixture = waiting();
    let mut claimed = Fixture::claimed();
    let give_up = Request::DiscardPooled { cause: Cause::Cancelled };

    assert_eq!(fixture.request(give_up.clone()), Ok(()));
    assert_eq!(claimed.refused(give_up), Refusal::NotPooled);
    assert_eq!(fixture.claim(), Err(Refusal::Ending { cause: Cause::Cancelled }));
}

#[test]
fn pool_never_takes_the_last_slot() {
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
        Err(AdmissionRefusal::Sandboxes { present: 3, limit: 3 })
    );
    assert_eq!(
        admit_to_pool(&taken(0, 41), &asked, &limits),
        Err(AdmissionRefusal::Memory { taken: 71, requested: 30, limit: 100 })
    );
    assert_eq!(admit(&taken(1, 40), &asked, &limits), Ok(()));
}
