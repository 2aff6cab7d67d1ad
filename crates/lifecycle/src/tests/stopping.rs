//! Stop, proof, backoff, quarantine, forgetting.

use super::*;

#[test]
fn a_stop_ends_with_the_proof_that_nothing_is_left() {
    let mut scene = Scene::stopping(Policy::default());

    scene.stopped(gone());

    assert_eq!(scene.status(), State::Terminated);
    assert_eq!(scene.cause(), Some(Cause::StoppedByUser));
    assert!(scene.sandbox.is_settled());
}

#[test]
fn what_is_not_known_never_frees() {
    let mut scene = Scene::stopping(Policy::default());

    scene.stopped(StopOutcome::Unknown { why: "no route".into() });

    assert!(!scene.sandbox.lease.is_free());
    assert_eq!(scene.status(), State::Terminating);
}

#[test]
fn a_receipt_that_shows_no_absence_does_not_free() {
    let mut scene = Scene::stopping(Policy::default());
    let StopOutcome::Gone(mut receipt) = gone() else { unreachable!() };
    receipt.checks[0].result = Finding::Unknown;

    scene.stopped(StopOutcome::Gone(receipt));

    assert!(matches!(scene.sandbox.lease, Lease::StopWaiting { .. }));
}

#[test]
fn the_waits_between_attempts_grow_and_the_last_one_repeats() {
    let mut scene = Scene::stopping(Policy { stop_attempts: 8, ..Policy::default() });

    let waits = std::iter::repeat_with(|| {
        scene.stopped(StopOutcome::StillPresent { what: "a mount".into() });
        let Lease::StopWaiting { next_at, .. } = scene.sandbox.lease else {
            panic!("{:?}", scene.sandbox.lease)
        };
        let wait = next_at.ms_since(scene.now);
        scene.wait_ms(wait);
        wait
    });

    let seconds: Vec<_> = waits.take(6).map(|ms| ms / 1_000).collect();
    assert_eq!(seconds, [5, 10, 30, 120, 300, 300]);
}

#[test]
fn asking_again_to_stop_or_forget_does_not_start_the_backoff_anew() {
    let mut scene = Scene::stopping(Policy::default());
    scene.stopped(StopOutcome::StillPresent { what: "a mount".into() });
    scene.wait_ms(1_000);
    let waiting = scene.sandbox.lease.clone();

    scene.stop();
    scene.ask(Request::Forget).unwrap();

    assert_eq!(scene.sandbox.lease, waiting);
}

#[test]
fn an_attempt_without_an_answer_ends_at_its_deadline() {
    let mut scene = Scene::stopping(Policy::default());

    scene.wait_ms(45_000);

    assert!(matches!(
        scene.sandbox.lease,
        Lease::StopWaiting { attempts: 1, last: StopFailure::DeadlinePassed, .. }
    ));
}

#[test]
fn attempts_that_are_used_up_end_in_quarantine() {
    let mut scene = Scene::stopping(Policy::default());

    for wait_ms in [5_000, 10_000, 30_000, 120_000, 0] {
        scene.stopped(StopOutcome::StillPresent { what: "a mount".into() });
        scene.wait_ms(wait_ms);
    }

    assert_eq!(scene.status(), State::Quarantined);
    assert_eq!(scene.work(), []);
}

#[test]
fn a_look_frees_what_is_quarantined() {
    let mut scene = Scene::quarantined();

    scene.wait_ms(600_000);
    scene.looked(unknown());
    let after_no_answer = scene.status();
    scene.wait_ms(600_000);
    scene.looked(absent());

    assert_eq!(after_no_answer, State::Quarantined);
    assert_eq!(scene.status(), State::Terminated);
}

#[test]
fn an_attestation_frees_and_its_receipt_stays_unknown() {
    let mut scene = Scene::quarantined();

    scene.ask(Request::Attest { by: "ops".into(), reason: "the host was scrapped".into() }).unwrap();

    let Life::Ended { receipt, .. } = &scene.sandbox.life else { panic!("{:?}", scene.sandbox.life) };
    assert_eq!(receipt.attested.as_ref().unwrap().by, "ops");
    assert!(!receipt.proves_absence());
}

#[test]
fn only_what_is_quarantined_can_be_attested_to() {
    let mut scene = Scene::stopping(Policy::default());

    let refusal = scene.ask(Request::Attest { by: "ops".into(), reason: "I am sure".into() });

    assert_eq!(refusal, Err(Refusal::NotQuarantined));
}

#[test]
fn a_stop_of_what_is_quarantined_looks_once_out_of_turn() {
    let mut scene = Scene::quarantined();

    scene.stop();
    let look = scene.duty(|work| work == EffectKind::Look);
    scene.stop();

    assert_eq!(scene.work(), [EffectKind::Look]);
    assert_eq!(scene.duty(|work| work == EffectKind::Look), look);
}

#[test]
fn whoever_insists_on_a_stop_of_what_is_quarantined_gets_one_attempt_more() {
    let mut scene = Scene::quarantined();
    let insist = Request::Stop { cause: Cause::StoppedByUser, forced: true };

    scene.ask(insist.clone()).unwrap();
    let attempt = scene.work();
    scene.stopped(StopOutcome::StillPresent { what: "a mount".into() });
    let after_it_failed = scene.status();
    scene.ask(insist).unwrap();
    scene.stopped(gone());

    assert_eq!(attempt, [EffectKind::Stop { grace_ms: 0 }]);
    assert_eq!(after_it_failed, State::Quarantined);
    assert_eq!(scene.status(), State::Terminated);
}

#[test]
fn a_forced_stop_cuts_the_grace_short_and_keeps_the_attempt() {
    let mut scene = Scene::stopping(Policy::default());
    scene.wait_ms(1_000);
    let deadline = scene.duty(|_| true).deadline;

    scene.ask(Request::Stop { cause: Cause::StoppedByUser, forced: true }).unwrap();

    assert_eq!(scene.work(), [EffectKind::Stop { grace_ms: 0 }]);
    assert_eq!(scene.duty(|_| true).deadline, deadline);
    assert!(matches!(scene.sandbox.lease, Lease::Stopping { attempt: 1, .. }));
}

#[test]
fn the_first_cause_stays() {
    let mut scene = Scene::stopping(Policy::default());

    scene.ask(Request::Stop { cause: Cause::Shutdown, forced: true }).unwrap();
    scene.stopped(gone());

    assert_eq!(scene.cause(), Some(Cause::StoppedByUser));
}

#[test]
fn a_record_is_forgotten_only_after_the_proof() {
    let mut scene = Scene::live(Policy::default());

    scene.ask(Request::Forget).unwrap();
    let before = scene.sandbox.is_to_be_forgotten();
    scene.stopped(gone());

    assert!(!before);
    assert!(scene.sandbox.is_to_be_forgotten());
}

#[test]
fn an_answer_to_an_earlier_attempt_is_recorded_and_changes_nothing() {
    let mut scene = Scene::stopping(Policy::default());
    let first = scene.duty(|_| true).ticket;
    scene.wait_ms(45_000);
    scene.wait_ms(5_000);
    let second = scene.sandbox.clone();

    scene.tell(Event::Stopped { ticket: first, outcome: gone() });

    assert_eq!(scene.sandbox, second);
    assert!(scene.has(|fact| matches!(fact, Fact::LateAnswer { .. })));
}

#[test]
fn an_unreadable_row_is_quarantined_and_looked_at_at_once() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let first = quarantine_unreadable(SandboxId(7), Generation(3), "bad json".into(), ctx);
    let mut scene = Scene::from(first, policy);

    scene.wait_ms(0);

    assert_eq!(scene.status(), State::Quarantined);
    assert_eq!(scene.work(), [EffectKind::Look]);
}

#[test]
fn what_is_leased_again_asks_with_tickets_that_no_earlier_question_had() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let earlier = Scene::stopping(Policy::default()).sandbox.last_ticket;

    let unreadable = quarantine_unreadable(SandboxId(7), Generation(1), "bad json".into(), ctx);
    let orphan = lease_orphan(SandboxId(7), Generation(1), ctx);

    assert!(unreadable.sandbox.last_ticket > earlier);
    assert!(orphan.sandbox.last_ticket > earlier);
}

#[test]
fn every_final_state_has_a_cause() {
    let causes = [Cause::Idle, Cause::Completed, Cause::ProbeFailed, Cause::EvictedEmergency];

    for cause in causes {
        let mut scene = Scene::live(Policy::default());
        scene.ask(Request::Stop { cause, forced: false }).unwrap();
        scene.stopped(gone());

        assert!(matches!(scene.status(), State::Completed | State::Failed | State::Terminated));
        assert_eq!(scene.cause(), Some(cause));
    }
}
