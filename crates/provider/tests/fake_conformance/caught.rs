//! Every promise is broken once on purpose, to show that the suite notices.

use std::collections::BTreeSet;

use pinfold_provider::conformance;

use crate::broken;

/// How a provider is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    NotAtAll,
    // Launching.
    StartsNothing,
    StartsAnotherBodyToo,
    StartsAnew,
    RefusesToStartOverRemains,
    IgnoresThePermit,
    AsksThePermitFirst,
    StartsForEver,
    // Stopping.
    StopsNothing,
    StopsWithoutProof,
    FailsToStopNothing,
    StopsLaterOnes,
    SparesEarlierOnes,
    StopsEverybody,
    StopsItsOwnOnly,
    // Looking.
    DiscoversNothing,
    SeesNoHalves,
    SeesNoExecutions,
    SeesAllExecutions,
    NeverPasses,
    AlwaysPasses,
    ProbesByExecution,
    UsesNothingEverywhere,
    MeasuresNothing,
    MeasuresNoHost,
    // Keeping alive.
    KeepsNothingAlive,
    OnlyShortensLife,
    KeepsEverythingAlive,
    // Executions.
    TakesAnyGeneration,
    AlwaysSucceeds,
    AnswersOnce,
    WaitsForEver,
    RunsAgain,
    NeverRefuses,
    FindsEveryCommand,
    RunsOneAtATime,
    WaitsForItsOwnOnly,
    KillsNothing,
    KillsAll,
    KillsTheDead,
    KillsOnlyWhatRuns,
    RunsTheKilledAgain,
    RunsTheRefused,
    Resurrects,
    // Talking.
    SignalsNothing,
    SignalsTheDead,
    AcceptsAgain,
    AcceptsBeyondGaps,
    NeverCloses,
    FeedsAnything,
    ResizesAnything,
}

/// Each way of breaking, and the promise that catches it.
const CAUGHT: &[(How, &str)] = &[
    (How::StartsNothing, "a_started_body_is_whole_alone_and_of_its_generation"),
    (How::StartsAnotherBodyToo, "a_started_body_is_whole_alone_and_of_its_generation"),
    (How::StartsAnew, "starting_again_what_runs_makes_no_second_body"),
    (How::StartsAnotherBodyToo, "two_launches_at_once_make_one_body"),
    (How::IgnoresThePermit, "a_launch_that_is_no_longer_wanted_leaves_nothing_behind"),
    (How::AsksThePermitFirst, "the_permit_is_asked_when_the_mark_is_there"),
    (How::AsksThePermitFirst, "a_stop_between_mark_and_body_leaves_no_body"),
    (How::SeesNoHalves, "a_half_made_body_is_found_and_stopped"),
    (How::RefusesToStartOverRemains, "a_launch_dropped_half_way_can_be_made_again"),
    (How::TakesAnyGeneration, "a_new_generation_knows_nothing_of_the_old_one"),
    (How::StopsNothing, "a_stopped_body_is_proven_gone"),
    (How::StopsWithoutProof, "a_stopped_body_is_proven_gone"),
    (How::FailsToStopNothing, "stopping_twice_answers_gone_twice"),
    (How::FailsToStopNothing, "stopping_what_never_was_answers_gone"),
    (How::StopsLaterOnes, "a_stop_leaves_later_generations_alone"),
    (How::SparesEarlierOnes, "a_stop_ends_earlier_generations_too"),
    (How::WaitsForEver, "a_stop_ends_running_executions"),
    (How::StopsItsOwnOnly, "a_stop_needs_no_memory_of_the_start"),
    (How::StopsEverybody, "stopping_one_sandbox_leaves_its_neighbour"),
    (How::DiscoversNothing, "everything_that_carries_our_mark_is_discovered"),
    (How::NeverPasses, "probe_and_ping_pass_on_a_live_body"),
    (How::AlwaysPasses, "probe_and_ping_do_not_pass_where_nothing_lives"),
    (How::ProbesByExecution, "a_probe_is_not_an_execution"),
    (How::UsesNothingEverywhere, "usage_answers_for_a_live_body_only"),
    (How::MeasuresNothing, "usage_answers_for_a_live_body_only"),
    (How::MeasuresNoHost, "capacity_answers"),
    (How::StartsForEver, "a_body_ends_itself_when_its_time_is_up"),
    (How::Resurrects, "nothing_comes_back_with_a_body_that_is_made_again"),
    (How::KeepsNothingAlive, "keep_alive_brings_the_end_nearer"),
    (How::OnlyShortensLife, "keep_alive_puts_the_end_off"),
    (How::KeepsEverythingAlive, "only_a_live_body_is_kept_alive"),
    (How::AlwaysSucceeds, "an_execution_ends_with_its_exit_code"),
    (How::AnswersOnce, "wait_can_be_asked_again_after_the_end"),
    (How::WaitsForEver, "an_execution_that_was_not_started_is_not_waited_for"),
    (How::RunsAgain, "the_same_execution_is_started_once"),
    (How::TakesAnyGeneration, "an_execution_for_another_generation_is_refused"),
    (How::NeverRefuses, "an_execution_in_no_body_is_refused"),
    (How::FindsEveryCommand, "a_command_that_cannot_be_found_fails"),
    (How::SeesNoExecutions, "running_and_ended_executions_are_observed"),
    (How::RunsOneAtATime, "executions_run_side_by_side"),
    (How::WaitsForItsOwnOnly, "another_process_can_go_on_with_an_execution"),
    (How::SeesAllExecutions, "neighbours_do_not_see_each_others_executions"),
    (How::RunsTheRefused, "what_could_not_be_started_is_never_started"),
    (How::SignalsNothing, "a_signal_ends_what_takes_no_notice_of_it"),
    (How::SignalsTheDead, "only_what_runs_is_signalled_and_only_by_signals"),
    (How::AcceptsAgain, "what_is_fed_again_is_accepted_once"),
    (How::AcceptsBeyondGaps, "what_lies_beyond_a_gap_is_not_accepted"),
    (How::NeverCloses, "closing_its_input_ends_what_reads_it"),
    (How::FeedsAnything, "only_what_has_an_input_is_fed"),
    (How::ResizesAnything, "only_a_terminal_is_resized"),
    (How::KillsNothing, "a_kill_ends_a_running_execution"),
    (How::KillsAll, "a_kill_leaves_other_executions_alone"),
    (How::KillsTheDead, "a_kill_after_the_end_changes_no_outcome"),
    (How::KillsOnlyWhatRuns, "an_execution_killed_before_its_start_is_never_started"),
    (How::RunsTheKilledAgain, "a_killed_execution_is_not_started_again"),
    (How::KillsOnlyWhatRuns, "a_kill_while_the_body_is_being_made_is_kept"),
];

#[tokio::test(start_paused = true)]
async fn a_provider_that_breaks_a_promise_is_caught() {
    for (how, promise) in CAUGHT {
        let kept = tokio::spawn(conformance::keep(broken::ground(*how), promise)).await;

        assert!(kept.is_err(), "`{promise}` holds for a provider that is broken: {how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_that_can_be_broken_keeps_its_promises_while_it_is_not() {
    for promise in conformance::names() {
        conformance::keep(broken::ground(How::NotAtAll), promise).await;
    }
}

#[test]
fn every_promise_is_seen_broken() {
    let broken: BTreeSet<_> = CAUGHT.iter().map(|(_, promise)| *promise).collect();
    let promised: BTreeSet<_> = conformance::names().collect();

    assert_eq!(broken, promised);
}
