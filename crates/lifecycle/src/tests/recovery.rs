//! Tries: what is tried again and what is not, the wait between two of them, and what a stop makes of it.

use super::*;

const RUN: ExecutionId = ExecutionId(1);

fn three_tries() -> Policy {
    Policy { one_shot: true, recovery: Some(Recovery::default()), ..Policy::default() }
}

fn running() -> Scene {
    let mut scene = Scene::created(three_tries());
    scene.execute(RUN, ExecutionLimits::default());
    scene.go_live();
    scene
}

impl Scene {
    /// The body that is being made works, and what waits for it runs.
    fn go_live(&mut self) {
        self.launched();
        self.probed(Probed::Passed);
        self.started(RUN);
    }

    fn lose_body(&mut self) {
        self.tell(Event::Doubted { why: "its keeper does not answer".into() });
        self.looked(absent());
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
        let tell = |attempt: &Attempt| {
            let cause = attempt.end.as_ref().map(|end| end.cause);
            (attempt.generation.0, cause, attempt.receipt.is_some())
        };
        gone_on.attempts.iter().map(tell).collect()
    }
}

#[test]
fn two_that_did_not_start_in_time_are_one_failed_try() {
    let mut scene = Scene::created(Policy { one_shot: false, ..three_tries() });
    scene.execute(RUN, ExecutionLimits::default());
    scene.execute(ExecutionId(2), ExecutionLimits::default());
    scene.launched();
    scene.probed(Probed::Passed);

    let deadline = scene.duty(|work| work == EffectKind::Exec { execution: RUN }).deadline;
    scene.wait_ms(deadline.ms_since(scene.now));

    let tries = scene.facts.iter().filter(|fact| matches!(fact, Fact::TryFailed { .. }));
    assert_eq!(tries.count(), 1);
}

#[test]
fn what_a_lost_body_interrupted_runs_again_in_the_next_one_under_its_own_id() {
    let mut scene = running();

    scene.lose_body();
    scene.pass_backoff();
    scene.go_live();
    scene.exited(RUN, 0);
    scene.stopped(gone());

    assert_eq!(scene.outcome(RUN), Some((OutcomeKind::Exited, Cause::Completed)));
    assert_eq!(scene.cause(), Some(Cause::Completed));
    assert_eq!(scene.attempts(), [(1, Some(Cause::Lost), true), (2, Some(Cause::Completed), false)]);
}

#[test]
fn the_next_body_waits_until_the_failed_one_is_proven_gone() {
    let mut scene = running();
    scene.tell(Event::Doubted { why: "its keeper does not answer".into() });

    scene.looked(present(vec![BodySeen { whole: false, ..body(1, vec![]) }]));
    scene.stopped(StopOutcome::Unknown { why: "no route".into() });
    scene.wait_ms(5_000);
    let before_the_proof = (scene.work(), scene.sandbox.generation());
    scene.stopped(gone());

    assert_eq!(before_the_proof, (vec![EffectKind::Stop { grace_ms: 0 }], Generation(1)));
    assert!(matches!(scene.sandbox.lease, Lease::LaunchWaiting { .. }));
    assert_eq!(scene.attempts(), [(1, Some(Cause::ProviderError), true)]);
}

#[test]
fn the_waits_double_and_the_tries_end() {
    let mut scene = running();

    scene.lose_body();
    let first = scene.pass_backoff();
    scene.go_live();
    scene.lose_body();
    let second = scene.pass_backoff();
    scene.go_live();
    scene.lose_body();

    assert_eq!((first, second), (1_000, 2_000));
    assert_eq!(scene.cause(), Some(Cause::Lost));
    assert_eq!(scene.outcome(RUN), Some((OutcomeKind::Lost, Cause::Lost)));
    assert_eq!(
        scene.attempts(),
        [(1, Some(Cause::Lost), true), (2, Some(Cause::Lost), true), (3, Some(Cause::Lost), true)]
    );
}

#[test]
fn a_body_that_does_not_start_is_a_try() {
    let mut scene = Scene::created(three_tries());
    scene.execute(RUN, ExecutionLimits::default());
    let ticket = scene.duty(|work| work == EffectKind::Launch).ticket;

    scene.tell(Event::LaunchFailed { ticket, why: "no memory".into() });
    scene.stopped(gone());
    scene.pass_backoff();
    scene.go_live();
    scene.exited(RUN, 0);

    assert_eq!(scene.attempts(), [(1, Some(Cause::StartFailed), true), (2, Some(Cause::Completed), false)]);
}

#[test]
fn each_try_has_the_whole_time_to_start() {
    let mut scene = Scene::created(three_tries());
    scene.execute(RUN, ExecutionLimits::default());
    scene.wait_ms(60_000);
    scene.stopped(gone());
    scene.pass_backoff();

    scene.wait_ms(59_000);
    scene.go_live();

    assert_eq!(scene.status(), State::Running);
    assert_eq!(scene.attempts()[0], (1, Some(Cause::StartDeadline), true));
}

#[test]
fn an_outcome_that_was_reported_is_final() {
    for (outcome, cause) in [
        (Outcome::exited(3), Cause::ExitNonzero),
        (Outcome::ended_for(Cause::MemoryLimit), Cause::MemoryLimit),
        (Outcome::ended_for(Cause::TimeLimit), Cause::TimeLimit),
        (Outcome::lost("by its keeper's own word"), Cause::Lost),
    ] {
        let mut scene = running();
        let ticket = scene.duty(|work| work == EffectKind::Watch { execution: RUN }).ticket;

        scene.tell(Event::ExecutionEnded { ticket, execution: RUN, outcome });
        scene.stopped(gone());

        assert_eq!(scene.cause(), Some(cause));
        assert_eq!(scene.attempts().len(), 1);
    }
}

#[test]
fn a_stop_ends_the_tries_whatever_they_wait_for() {
    let while_stopping = |scene: &mut Scene| {
        scene.tell(Event::Doubted { why: "its keeper does not answer".into() });
        scene.looked(present(vec![BodySeen { whole: false, ..body(1, vec![]) }]));
    };
    for reach in [while_stopping, Scene::lose_body] {
        let mut scene = running();
        reach(&mut scene);

        scene.stop();
        scene.stopped(gone());
        scene.now = scene.now.after_ms(3_600_000);
        scene.tell(Event::TimePassed);

        assert_eq!(scene.cause(), Some(Cause::StoppedByUser));
        assert_eq!(scene.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::StoppedByUser)));
        assert!(scene.sandbox.is_settled());
        assert_eq!(scene.sandbox.generation(), Generation(1));
    }
}

#[test]
fn what_is_cancelled_is_not_tried_again() {
    let mut scene = running();
    scene.tell(Event::Doubted { why: "its keeper does not answer".into() });
    scene.looked(present(vec![BodySeen { whole: false, ..body(1, vec![]) }]));

    scene.ask(Request::Cancel { id: RUN, cause: Cause::Cancelled }).unwrap();
    scene.stopped(gone());

    assert_eq!(scene.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
    assert_eq!(scene.cause(), Some(Cause::Cancelled));
    assert!(scene.sandbox.is_settled());
}

#[test]
fn what_is_seen_ended_is_not_run_again_with_what_was_lost_beside_it() {
    let second = ExecutionId(2);
    let mut scene = running();
    scene.execute(second, ExecutionLimits::default());
    scene.started(second);
    scene.tell(Event::Doubted { why: "its keeper was slow".into() });

    scene.looked(present(vec![body(1, vec![(second, Seen::Ended(Outcome::exited(0)))])]));

    assert_eq!(scene.outcome(second), Some((OutcomeKind::Exited, Cause::Completed)));
    assert_eq!(scene.outcome(RUN), None);
    assert!(matches!(scene.sandbox.executions[..], [Execution { state: ExecutionState::Interrupted, .. }]));
}

#[test]
fn the_end_that_an_earlier_try_came_to_proves_nothing_about_the_next() {
    let mut scene = running();
    let watch = scene.duty(|work| work == EffectKind::Watch { execution: RUN }).ticket;
    scene.lose_body();
    scene.pass_backoff();
    scene.go_live();
    scene.ask(Request::Cancel { id: RUN, cause: Cause::Cancelled }).unwrap();

    scene.tell(Event::ExecutionEnded { ticket: watch, execution: RUN, outcome: Outcome::exited(0) });

    assert_eq!(scene.outcome(RUN), None);
    assert_eq!(scene.work(), [EffectKind::Kill { execution: RUN }]);
}

#[test]
fn a_body_that_cannot_be_proven_gone_ends_the_tries() {
    let mut scene = Scene::created(Policy { stop_attempts: 1, ..three_tries() });
    scene.execute(RUN, ExecutionLimits::default());
    scene.go_live();
    scene.tell(Event::Doubted { why: "its keeper does not answer".into() });
    scene.looked(present(vec![BodySeen { whole: false, ..body(1, vec![]) }]));

    scene.stopped(StopOutcome::Unknown { why: "no route".into() });
    let quarantined = scene.status();
    scene.ask(Request::Attest { by: "ops".into(), reason: "the host was scrapped".into() }).unwrap();

    assert_eq!(quarantined, State::Quarantined);
    assert_eq!(scene.cause(), Some(Cause::ProviderError));
    assert_eq!(scene.sandbox.generation(), Generation(1));
}

#[test]
fn whoever_adopts_a_sandbox_between_two_tries_makes_the_next_one() {
    let mut scene = running();
    scene.lose_body();
    let waiting = scene.sandbox.lease.clone();

    scene.node = ELSEWHERE;
    scene.ask(Request::Adopt { dead: HERE, rebooted: false }).unwrap();
    let adopted = (scene.sandbox.owner, scene.sandbox.lease.clone());
    scene.pass_backoff();

    assert_eq!(adopted, (ELSEWHERE, waiting));
    assert_eq!(scene.duty(|work| work == EffectKind::Launch).by, ELSEWHERE);
}

#[test]
fn a_body_from_the_pool_is_the_first_try() {
    let shape = Shape::default();
    let policy = three_tries();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let mut scene = Scene::from(create_pooled(SandboxId(7), shape.clone(), ctx), policy.clone());
    scene.launched();
    scene.probed(Probed::Passed);

    scene.ask(Request::Claim { shape: Box::new(shape) }).unwrap();

    assert_eq!(scene.sandbox.launches, 1);
}

#[test]
fn without_a_policy_for_it_nothing_is_tried_again() {
    let mut scene = Scene::running(Policy::default(), RUN, ExecutionLimits::default());

    scene.lose_body();

    assert_eq!(scene.cause(), Some(Cause::Lost));
    assert_eq!(scene.attempts(), []);
}

#[test]
fn only_what_is_the_bodys_own_failure_is_tried_again() {
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

    assert!(again.iter().all(|cause| cause.may_be_tried_again()));
    assert!(!never.iter().any(|cause| cause.may_be_tried_again()));
}

#[test]
fn what_is_found_between_two_tries_is_stopped_before_the_next() {
    let mut scene = running();
    scene.lose_body();

    scene.ask(Request::LeaseStray { generation: Generation(1) }).unwrap();
    let work = scene.work();
    scene.stopped(gone());

    assert_eq!(work, [EffectKind::Stop { grace_ms: 5_000 }]);
    assert!(matches!(scene.sandbox.lease, Lease::LaunchWaiting { .. }));
    assert_eq!(scene.sandbox.created_and_destroyed(), (1, 0));
}
