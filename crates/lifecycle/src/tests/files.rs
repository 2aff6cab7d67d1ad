//! Input files and artifacts: when they are moved, and which outcome is kept meanwhile.

use super::*;

const RUN: ExecutionId = ExecutionId(1);
const NEXT: ExecutionId = ExecutionId(2);
const INPUT: FileTransfers = FileTransfers { input: true, artifacts: false };
const ARTIFACTS: FileTransfers = FileTransfers { input: false, artifacts: true };
const PUT: EffectKind = EffectKind::PutFiles { execution: RUN };
const COLLECT: EffectKind = EffectKind::Collect { execution: RUN };

/// A live sandbox whose execution has input files that are being written.
fn preparing(policy: Policy) -> Fixture {
    let mut fixture = Fixture::live(policy);
    fixture.execute_with(RUN, ExecutionLimits::default(), INPUT);
    fixture
}

fn running_with(policy: Policy, limits: ExecutionLimits) -> Fixture {
    let mut fixture = Fixture::live(policy);
    fixture.execute_with(RUN, limits, ARTIFACTS);
    fixture.started(RUN);
    fixture
}

/// A live sandbox whose execution exited with code 3, and whose artifacts are being collected.
fn collecting(policy: Policy) -> Fixture {
    let mut fixture = running_with(policy, ExecutionLimits::default());
    fixture.exited(RUN, 3);
    fixture
}

fn one_shot() -> Policy {
    Policy { one_shot: true, ..Policy::default() }
}

const EXITED: Option<(OutcomeKind, Cause)> = Some((OutcomeKind::Exited, Cause::ExitNonzero));

impl Fixture {
    fn files_put(&mut self) {
        let fence = self.pending(|kind| kind == PUT).fence;
        self.apply(Event::FilesPut { fence, execution: RUN });
    }

    fn collected(&mut self) {
        let fence = self.pending(|kind| kind == COLLECT).fence;
        self.apply(Event::Collected { fence, execution: RUN });
    }

    fn collect_within_ms(&self) -> u64 {
        self.pending(|kind| kind == COLLECT).deadline.ms_since(self.now)
    }

    /// How often the outcome of the execution was written.
    fn ends(&self) -> usize {
        let is_end = |fact: &&Fact| matches!(fact, Fact::ExecutionEnded { execution: RUN, .. });
        self.facts.iter().filter(is_end).count()
    }
}

#[test]
fn input_files_are_put_before_the_process_starts_and_by_the_same_deadline() {
    let mut fixture = preparing(Policy::default());

    let first = (fixture.effect_kinds(), fixture.pending(|_| true).deadline);
    fixture.files_put();

    assert_eq!(first, (vec![PUT], NOON.after_ms(30_000)));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Exec { execution: RUN }]);
    assert_eq!(fixture.pending(|_| true).deadline, first.1);
}

#[test]
fn execution_whose_files_are_put_takes_a_slot() {
    let mut fixture = preparing(one_at_a_time());

    fixture.execute(NEXT, ExecutionLimits::default());

    assert_eq!(fixture.effect_kinds(), [PUT]);
}

#[test]
fn refused_input_file_ends_the_execution_with_its_cause_and_probes_the_instance() {
    let mut fixture = preparing(Policy::default());
    let fence = fixture.pending(|kind| kind == PUT).fence;
    let (cause, why) = (Cause::DiskLimit, "no space left".into());

    fixture.apply(Event::ExecutionRefused { fence, execution: RUN, cause, why });

    assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Failed, Cause::DiskLimit)));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Probe]);
}

#[test]
fn cancel_and_stop_before_the_files_are_put_need_no_proof_of_a_process() {
    let mut cancelled = preparing(Policy::default());
    cancelled.request(Request::Cancel { id: RUN, cause: Cause::Cancelled }).unwrap();
    let mut stopped = preparing(Policy::default());
    stopped.stop();

    assert_eq!(cancelled.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
    assert_eq!(stopped.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::StoppedByUser)));
    assert_eq!(cancelled.effect_kinds(), []);
}

#[test]
fn files_that_are_not_put_in_time_end_the_execution() {
    let mut fixture = preparing(Policy::default());

    fixture.wait_ms(30_000);

    assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Failed, Cause::StartDeadline)));
}

#[test]
fn files_put_under_an_earlier_fence_start_nothing() {
    let mut fixture = preparing(Policy::default());
    let earlier = fixture.pending(|kind| kind == PUT).fence;
    fixture.node = ELSEWHERE;
    fixture.request(Request::Adopt { dead: HERE, rebooted: false }).unwrap();

    fixture.apply(Event::FilesPut { fence: earlier, execution: RUN });

    assert!(fixture.effect_kinds().contains(&PUT));
    assert_eq!(fixture.pending(|kind| kind == PUT).node, ELSEWHERE);
}

#[test]
fn lost_instance_puts_the_files_again_into_the_next_one() {
    let mut fixture = preparing(Policy { recovery: Some(Recovery::default()), ..Policy::default() });

    fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });
    fixture.observed(absent());
    fixture.wait_ms(1_000);
    fixture.launched();
    fixture.probed(ProbeResult::Passed);

    assert_eq!(fixture.effect_kinds(), [PUT]);
    assert_eq!(fixture.sandbox.generation(), Generation(2));
}

#[test]
fn exited_execution_with_artifacts_ends_after_they_are_collected() {
    let mut fixture = collecting(Policy::default());

    let before = (fixture.outcome(RUN), fixture.effect_kinds(), fixture.collect_within_ms());
    fixture.collected();

    assert_eq!(before, (None, vec![COLLECT], 30_000));
    assert_eq!(fixture.outcome(RUN), EXITED);
    assert_eq!((fixture.effect_kinds(), fixture.ends()), (vec![], 1));
}

#[test]
fn collecting_execution_has_no_process_but_takes_its_slot() {
    let mut fixture = collecting(one_at_a_time());
    fixture.execute(NEXT, ExecutionLimits::default());

    let while_collecting = (fixture.effect_kinds(), fixture.sandbox.executions[0].may_have_process());
    fixture.collected();

    assert_eq!(while_collecting, (vec![COLLECT], false));
    assert_eq!(fixture.effect_kinds(), [EffectKind::Exec { execution: NEXT }]);
}

#[test]
fn collecting_ends_within_the_time_of_the_execution_but_has_at_least_three_seconds() {
    for (timeout_ms, within_ms) in [(20_000, 11_000), (10_000, 3_000), (3_600_000, 30_000)] {
        let limits = ExecutionLimits { timeout_ms: Some(timeout_ms), inactivity_ms: None };
        let mut fixture = running_with(Policy::default(), limits);

        fixture.now = fixture.now.after_ms(8_000);
        fixture.exited(RUN, 0);

        assert_eq!(fixture.collect_within_ms(), within_ms);
    }
}

#[test]
fn observed_end_is_collected_like_a_reported_one() {
    let mut fixture = running_with(Policy::default(), ExecutionLimits::default());
    fixture.apply(Event::Doubted { why: "its keeper was slow".into() });

    let ended = ProcessObservation::Ended(Outcome::exited(3));
    fixture.observed(present(vec![instance(1, vec![(RUN, ended)])]));
    let before = (fixture.outcome(RUN), fixture.effect_kinds());
    fixture.collected();

    assert_eq!(before, (None, vec![COLLECT]));
    assert_eq!(fixture.outcome(RUN), EXITED);
}

#[test]
fn observation_does_not_end_a_collecting_execution() {
    let mut fixture = collecting(Policy::default());

    for seen in [vec![], vec![(RUN, ProcessObservation::Ended(Outcome::exited(0)))]] {
        fixture.apply(Event::Doubted { why: "its keeper was slow".into() });
        fixture.observed(present(vec![instance(1, seen)]));
    }

    assert_eq!((fixture.effect_kinds(), fixture.outcome(RUN)), (vec![COLLECT], None));
}

#[test]
fn killed_execution_is_collected_for_a_shorter_time_and_keeps_its_cause() {
    let mut fixture = running_with(Policy::default(), ExecutionLimits::default());
    fixture.request(Request::Cancel { id: RUN, cause: Cause::Cancelled }).unwrap();
    let fence = fixture.pending(|kind| kind == EffectKind::Kill { execution: RUN }).fence;

    fixture.apply(Event::ExecutionGone { fence, execution: RUN });
    let within_ms = fixture.collect_within_ms();
    fixture.collected();

    assert_eq!(within_ms, 3_000);
    assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::Cancelled)));
}

#[test]
fn execution_that_ends_with_its_instance_is_not_collected() {
    let mut fixture = running_with(Policy::default(), ExecutionLimits::default());

    fixture.stop();
    let work = fixture.effect_kinds();
    fixture.stopped(gone());

    assert_eq!(work, [EffectKind::Stop { grace_ms: 2_000 }]);
    assert_eq!(fixture.outcome(RUN), Some((OutcomeKind::Cancelled, Cause::StoppedByUser)));
}

#[test]
fn outcome_is_kept_whatever_happens_while_collecting() {
    let stop: fn(&mut Fixture) = |fixture| fixture.stop();
    let restart: fn(&mut Fixture) =
        |fixture| fixture.request(Request::Restart { cause: Cause::StoppedByUser }).unwrap();
    let lose: fn(&mut Fixture) = |fixture| {
        fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });
        fixture.observed(absent());
    };
    let expire: fn(&mut Fixture) = |fixture| fixture.wait_ms(30_000);
    let outlive: fn(&mut Fixture) = |fixture| fixture.wait_ms(86_400_000);
    for policy in
        [Policy::default(), one_shot(), Policy { recovery: Some(Recovery::default()), ..one_shot() }]
    {
        for happens in [stop, restart, lose, expire, outlive] {
            let mut fixture = collecting(policy.clone());

            happens(&mut fixture);

            assert_eq!((fixture.outcome(RUN), fixture.ends()), (EXITED, 1));
        }
    }
}

#[test]
fn cancel_while_collecting_changes_nothing() {
    let mut fixture = collecting(Policy::default());
    let before = fixture.sandbox.clone();

    fixture.request(Request::Cancel { id: RUN, cause: Cause::Cancelled }).unwrap();

    assert_eq!(fixture.sandbox, before);
}

#[test]
fn late_and_repeated_results_change_nothing() {
    let mut fixture = running_with(Policy::default(), ExecutionLimits::default());
    let watch = fixture.pending(|_| true).fence;
    fixture.exited(RUN, 3);
    let collect = fixture.pending(|kind| kind == COLLECT).fence;

    fixture.apply(Event::ExecutionEnded { fence: watch, execution: RUN, outcome: Outcome::exited(0) });
    fixture.apply(Event::Collected { fence: watch, execution: RUN });
    let before = fixture.outcome(RUN);
    fixture.apply(Event::Collected { fence: collect, execution: RUN });
    fixture.apply(Event::Collected { fence: collect, execution: RUN });

    assert_eq!(before, None);
    assert_eq!((fixture.outcome(RUN), fixture.ends()), (EXITED, 1));
}

#[test]
fn one_shot_sandbox_ends_after_its_artifacts_are_collected() {
    let mut fixture = collecting(one_shot());

    let while_collecting = fixture.sandbox.life.clone();
    fixture.collected();

    assert_eq!(while_collecting, Life::Wanted);
    assert!(matches!(fixture.sandbox.life, Life::Ending { cause: Cause::ExitNonzero, .. }));
}

#[test]
fn instance_lost_after_the_last_execution_exited_ends_a_one_shot_sandbox_with_that_cause() {
    for policy in [one_shot(), Policy { recovery: Some(Recovery::default()), ..one_shot() }] {
        let mut fixture = collecting(policy);

        fixture.apply(Event::Doubted { why: "its keeper does not answer".into() });
        fixture.observed(absent());

        assert_eq!(fixture.cause(), Some(Cause::ExitNonzero));
        assert!(fixture.sandbox.is_settled());
    }
}

#[test]
fn sandbox_is_not_idle_while_artifacts_are_collected() {
    let policy = Policy { collect_ms: 3_600_000, idle_ms: Some(10_000), ..Policy::default() };
    let mut fixture = collecting(policy);

    fixture.wait_ms(10_000);

    assert_eq!(fixture.sandbox.life, Life::Wanted);
    assert!(fixture.effect_kinds().contains(&COLLECT));
}

#[test]
fn adopting_node_collects_again_with_time_left_to_do_it() {
    for (later_ms, within_ms) in [(10_000, 20_000), (29_000, 3_000), (60_000, 3_000)] {
        let mut fixture = collecting(Policy::default());
        let earlier = fixture.pending(|kind| kind == COLLECT).fence;
        fixture.now = fixture.now.after_ms(later_ms);
        fixture.node = ELSEWHERE;

        fixture.request(Request::Adopt { dead: HERE, rebooted: false }).unwrap();
        fixture.apply(Event::Collected { fence: earlier, execution: RUN });

        let again = fixture.pending(|kind| kind == COLLECT);
        assert_eq!((again.node, fixture.collect_within_ms()), (ELSEWHERE, within_ms));
        assert_eq!(fixture.outcome(RUN), None);
    }
}
