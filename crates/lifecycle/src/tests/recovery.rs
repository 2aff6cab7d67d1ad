//! Retries: what is retried, the backoff, and how a stop ends them.

use super::*;

const RUN: ExecutionId = ExecutionId(1);

fn three_tries() -> Policy {
    Policy { one_shot: true, recovery: Some(Recovery::default()), ..Policy::default() }
}

fn running() -> Fixture {
    let mut fixture = Fixture::created(three_tries());
    fixture.execute(RUN, ExecutionLimits::default());
    fixture.go_live();
    fixture
}

impl Fixture {
    /// The instance passes its probe, and its queued execution starts.
    fn go_live(&mut self) {
        self.launched();
        self.probed(ProbeResult::Passed);
        self.started(RUN);
    }

    fn lose_body(&mut self) {
        self.apply(Event::Doubted { why: "its keeper does not answer".into() });
        self.observed(absent());
    }

    fn pass_backoff(&mut self) -> u64 {
        let Lease::LaunchWaiting { next_at, .. } = self.sandbox.lease else {
            panic!("{:?}", self.sandbox.lease)
        };
        let wait = next_at.ms_since(self.now);
        self.wait_ms(wait);
        wait
    }

    fn attempts(&self) -> Vec<(u64, Option<Cause>, bool)> {
        let gone_on = self.sandbox.executions.iter().chain(&self.finished).find(|e| e.id == RUN).unwrap();
        let describe = |attempt: &Attempt| {
            let cause = attempt.end.as_ref().map(|end| end.cause);
            (attempt.generation.0, cause, attempt.receipt.is_some())
        };
        gone_on.attempts.iter().map(describe).collect()
    }
}

#[test]
fn two_missed_start_deadlines_are_one_failed_attempt() {
    let mut fixture = Fixture::created(Policy { one_shot: false, ..three_tries() });
    fixture.execute(RUN, ExecutionLimits::default());
    fixture.execute(ExecutionId(2), ExecutionLimits::default());
    fixture.launched();
    fixture.probed(ProbeResult::Passed);

    let deadline = fixture.pending(|kind| kind == EffectKind::Exec { execution: RUN }).deadline;
    fixture.wait_ms(deadline.ms_since(fixture.now));

    let tries = fixture.facts.iter().filter(|fact| matches!(fact, Fact::AttemptFailed { .. }));
    assert_eq!(tries.count(), 1);
}

#[test]
fn execution_interrupted_by_a_lost_instance_is_retried_under_its_own_id() {
    let mut fixture = running();

    fixture.lose_body();
    fixture.pass_backoff();
    fixture.go_live();
    fixture.exited(RUN, 0);
    fixture.stopped(gone());

    assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Exited, Cause::Completed)));
    assert_eq!(fixture.cause(), Some(Cause::Completed));
    assert_eq!(fixture.attempts(), [(1, Some(Cause::Lost), true), (2, Some(Cause::Completed), false)]);
}

#[test]
fn next_launch_waits_until_the_failed_instance_is_proven_gone() {
    let mut fixture = running();
    fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });

    fixture.observed(present(vec![InstanceObservation { whole: false, ..instance(1, vec![]) }]));
    fixture.stopped(StopOutcome::Unknown { why: "no route".into() });
    fixture.wait_ms(5_000);
    let before_the_proof = (fixture.effect_kinds(), fixture.sandbox.generation());
    fixture.stopped(gone());

    assert_eq!(before_the_proof, (vec![EffectKind::Stop { grace_ms: 0 }], Generation(1)));
    assert!(matches!(fixture.sandbox.lease, Lease::LaunchWaiting { .. }));
    assert_eq!(fixture.attempts(), [(1, Some(Cause::ProviderError), true)]);
}

#[test]
fn retry_backoff_doubles_and_attempts_are_limited() {
    let mut fixture = running();

    fixture.lose_body();
    let first = fixture.pass_backoff();
    fixture.go_live();
    fixture.lose_body();
    let second = fixture.pass_backoff();
    fixture.go_live();
    fixture.lose_body();

    assert_eq!((first, second), (1_000, 2_000));
    assert_eq!(fixture.cause(), Some(Cause::Lost));
    assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Lost, Cause::Lost)));
    assert_eq!(
        fixture.attempts(),
        [(1, Some(Cause::Lost), true), (2, Some(Cause::Lost), true), (3, Some(Cause::Lost), true)]
    );
}

#[test]
fn failed_start_counts_as_an_attempt() {
    let mut fixture = Fixture::created(three_tries());
    fixture.execute(RUN, ExecutionLimits::default());
    let fence = fixture.pending(|kind| kind == EffectKind::Launch).fence;

    fixture.apply(Event::LaunchFailed { fence, why: "no memory".into() });
    fixture.stopped(gone());
    fixture.pass_backoff();
    fixture.go_live();
    fixture.exited(RUN, 0);

    assert_eq!(fixture.attempts(), [(1, Some(Cause::StartFailed), true), (2, Some(Cause::Completed), false)]);
}

#[test]
fn each_attempt_has_the_full_start_time() {
    let mut fixture = Fixture::created(three_tries());
    fixture.execute(RUN, ExecutionLimits::default());
    fixture.wait_ms(60_000);
    fixture.stopped(gone());
    fixture.pass_backoff();

    fixture.wait_ms(59_000);
    fixture.go_live();

    assert_eq!(fixture.status(), State::Running);
    assert_eq!(fixture.attempts()[0], (1, Some(Cause::StartDeadline), true));
}

#[test]
fn reported_outcome_is_final() {
    for (outcome, cause) in [
        (Outcome::exited(3), Cause::ExitNonzero),
        (Outcome::ended_for(Cause::MemoryLimit), Cause::MemoryLimit),
        (Outcome::ended_for(Cause::TimeLimit), Cause::TimeLimit),
        (Outcome::lost("by its keeper's own word"), Cause::Lost),
    ] {
        let mut fixture = running();
        let fence = fixture.pending(|kind| kind == EffectKind::Watch { execution: RUN }).fence;

        fixture.apply(Event::ExecutionEnded { fence, execution: RUN, outcome });
        fixture.stopped(gone());

        assert_eq!(fixture.cause(), Some(cause));
        assert_eq!(fixture.attempts().len(), 1);
    }
}

#[test]
fn stop_ends_retries_in_every_state() {
    let while_stopping = |fixture: &mut Fixture| {
        fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });
        fixture.observed(present(vec![InstanceObservation { whole: false, ..instance(1, vec![]) }]));
    };
    for reach in [while_stopping, Fixture::lose_body] {
        let mut fixture = running();
        reach(&mut fixture);

        fixture.stop();
        fixture.stopped(gone());
        fixture.now = fixture.now.after_ms(3_600_000);
        fixture.apply(Event::TimePassed);

        assert_eq!(fixture.cause(), Some(Cause::StoppedByUser));
        assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::StoppedByUser)));
        assert!(fixture.sandbox.is_settled());
        assert_eq!(fixture.sandbox.generation(), Generation(1));
    }
}

#[test]
fn cancelled_execution_is_not_retried() {
    let mut fixture = running();
    fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });
    fixture.observed(present(vec![InstanceObservation { whole: false, ..instance(1, vec![]) }]));

    fixture.request(Request::Cancel { id: RUN, cause: Cause::Cancelled }).unwrap();
    fixture.stopped(gone());

    assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
    assert_eq!(fixture.cause(), Some(Cause::Cancelled));
    assert!(fixture.sandbox.is_settled());
}

#[test]
fn execution_observed_ended_is_not_retried_with_a_lost_one() {
    let second = ExecutionId(2);
    let mut fixture = running();
    fixture.execute(second, ExecutionLimits::default());
    fixture.started(second);
    fixture.apply(Event::Doubted { why: "its keeper was slow".into() });

    fixture
        .observed(present(vec![instance(1, vec![(second, ProcessObservation::Ended(Outcome::exited(0)))])]));

    assert_eq!(fixture.outcome(second), Some((OutcomeKind::Exited, Cause::Completed)));
    assert_eq!(fixture.outcome(RUN), None);
    assert!(matches!(fixture.sandbox.executions[..], [Execution { state: ExecutionState::Interrupted, .. }]));
}

#[test]
fn end_of_an_earlier_attempt_does_not_end_the_next() {
    let mut fixture = running();
    let watch = fixture.pending(|kind| kind == EffectKind::Watch { execution: RUN }).fence;
    fixture.lose_body();
    fixture.pass_backoff();
    fixture.go_live();
    fixture.request(Request::Cancel { id: RUN, cause: Cause::Cancelled }).unwrap();

    fixture.apply(Event::ExecutionEnded { fence: watch, execution: RUN, outcome: Outcome::exited(0) });

    assert_eq!(fixture.outcome(RUN), None);
    assert_eq!(fixture.effect_kinds(), [EffectKind::Kill { execution: RUN }]);
}

#[test]
fn instance_that_cannot_be_proven_gone_ends_retries() {
    let mut fixture = Fixture::created(Policy { stop_attempts: 1, ..three_tries() });
    fixture.execute(RUN, ExecutionLimits::default());
    fixture.go_live();
    fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });
    fixture.observed(present(vec![InstanceObservation { whole: false, ..instance(1, vec![]) }]));

    fixture.stopped(StopOutcome::Unknown { why: "no route".into() });
    let quarantined = fixture.status();
    fixture.request(Request::Attest { by: "ops".into(), reason: "the host was scrapped".into() }).unwrap();

    assert_eq!(quarantined, State::Quarantined);
    assert_eq!(fixture.cause(), Some(Cause::ProviderError));
    assert_eq!(fixture.sandbox.generation(), Generation(1));
}

#[test]
fn adopting_node_launches_the_next_attempt() {
    let mut fixture = running();
    fixture.lose_body();
    let waiting = fixture.sandbox.lease.clone();

    fixture.node = ELSEWHERE;
    fixture.request(Request::Adopt { dead: HERE, rebooted: false }).unwrap();
    let adopted = (fixture.sandbox.owner, fixture.sandbox.lease.clone());
    fixture.pass_backoff();

    assert_eq!(adopted, (ELSEWHERE, waiting));
    assert_eq!(fixture.pending(|kind| kind == EffectKind::Launch).node, ELSEWHERE);
}

#[test]
fn claimed_instance_is_the_first_attempt() {
    let shape = Shape::default();
    let policy = three_tries();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let mut fixture = Fixture::from(create_pooled(SandboxId(7), shape.clone(), ctx), policy.clone());
    fixture.launched();
    fixture.probed(ProbeResult::Passed);

    fixture.request(Request::Claim { shape: Box::new(shape) }).unwrap();

    assert_eq!(fixture.sandbox.launches, 1);
}

#[test]
fn without_recovery_nothing_is_retried() {
    let mut fixture = Fixture::running(Policy::default(), RUN, ExecutionLimits::default());

    fixture.lose_body();

    assert_eq!(fixture.cause(), Some(Cause::Lost));
    assert_eq!(fixture.attempts(), []);
}

#[test]
fn only_instance_failures_are_retried() {
    let again = [
        Cause::StartDeadline,
        Cause::StartFailed,
        Cause::ProbeFailed,
        Cause::Lost,
        Cause::HostRestarted,
        Cause::ProviderError,
    ];
    let never = [
        Cause::ExitNonzero,
        Cause::TimeLimit,
        Cause::MemoryLimit,
        Cause::MaxLife,
        Cause::StoppedByUser,
        Cause::Cancelled,
        Cause::Shutdown,
        Cause::CallerGone,
        Cause::EvictedEmergency,
    ];

    assert!(again.iter().all(|cause| cause.is_retryable()));
    assert!(!never.iter().any(|cause| cause.is_retryable()));
}

#[test]
fn stray_found_between_attempts_is_stopped_before_the_next_launch() {
    let mut fixture = running();
    fixture.lose_body();

    fixture.request(Request::LeaseStray { generation: Generation(1) }).unwrap();
    let work = fixture.effect_kinds();
    fixture.stopped(gone());

    assert_eq!(work, [EffectKind::Stop { grace_ms: 2_000 }]);
    assert!(matches!(fixture.sandbox.lease, Lease::LaunchWaiting { .. }));
    assert_eq!(fixture.sandbox.created_and_destroyed(), (1, 0));
}
