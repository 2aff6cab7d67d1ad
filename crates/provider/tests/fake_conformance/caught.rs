//! Every conformance case fails for at least one broken provider.

use std::collections::BTreeSet;

use pinfold_provider::conformance;

use crate::broken;

/// A defect of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
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
    // Observing.
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
    // Process IO.
    SignalsNothing,
    SignalsTheDead,
    AcceptsAgain,
    AcceptsBeyondGaps,
    NeverCloses,
    FeedsAnything,
    ResizesAnything,
    // Output.
    MixesStreams,
    NumbersChunksFromZero,
    RereadsOutput,
    NeverWakes,
    DropsOutputWithTheInstance,
    ForgetsEarlierOutput,
    NeverWrote,
    LocksAgain,
    RemovesNoOutput,
    // Inspection.
    ExaminesNothing,
    PassesEveryProbe,
    ListsNoProcesses,
    ListsProcessesAnywhere,
    ReportsUsageAnywhere,
    CountsNothing,
    // Files.
    ReadsFromTheStart,
    ListsWithoutRest,
    RenamesOverOthers,
    RemovesWithEntries,
    FindsEveryFile,
    FollowsLinks,
    HasFilesOfItsOwn,
    ServesMissingInstances,
}

/// Each defect, and the case that catches it.
const CAUGHT: &[(Defect, &str)] = &[
    (Defect::StartsNothing, "a_started_instance_is_complete_and_the_only_one"),
    (Defect::StartsAnotherBodyToo, "a_started_instance_is_complete_and_the_only_one"),
    (Defect::StartsAnew, "repeating_a_start_makes_no_second_instance"),
    (Defect::StartsAnotherBodyToo, "two_concurrent_launches_make_one_instance"),
    (Defect::IgnoresThePermit, "a_launch_that_is_no_longer_wanted_leaves_nothing_behind"),
    (Defect::AsksThePermitFirst, "the_permit_is_checked_after_the_marker_is_set"),
    (Defect::AsksThePermitFirst, "a_stop_between_marker_and_processes_leaves_no_instance"),
    (Defect::SeesNoHalves, "an_incomplete_instance_is_found_and_stopped"),
    (Defect::RefusesToStartOverRemains, "a_launch_dropped_half_way_can_be_repeated"),
    (Defect::TakesAnyGeneration, "a_new_generation_shares_nothing_with_the_old_one"),
    (Defect::StopsNothing, "a_stopped_instance_is_proven_gone"),
    (Defect::StopsWithoutProof, "a_stopped_instance_is_proven_gone"),
    (Defect::FailsToStopNothing, "stopping_twice_answers_gone_twice"),
    (Defect::FailsToStopNothing, "stopping_an_unknown_instance_answers_gone"),
    (Defect::StopsLaterOnes, "a_stop_leaves_later_generations_alone"),
    (Defect::SparesEarlierOnes, "a_stop_ends_earlier_generations_too"),
    (Defect::WaitsForEver, "a_stop_ends_running_executions"),
    (Defect::StopsItsOwnOnly, "a_stop_needs_no_local_state"),
    (Defect::StopsEverybody, "stopping_one_sandbox_leaves_others_running"),
    (Defect::DiscoversNothing, "every_instance_with_our_name_is_discovered"),
    (Defect::NeverPasses, "probe_and_ping_pass_on_a_live_instance"),
    (Defect::AlwaysPasses, "probe_and_ping_do_not_pass_without_a_live_instance"),
    (Defect::ProbesByExecution, "a_probe_is_not_an_execution"),
    (Defect::UsesNothingEverywhere, "usage_answers_for_a_live_instance_only"),
    (Defect::MeasuresNothing, "usage_answers_for_a_live_instance_only"),
    (Defect::MeasuresNoHost, "capacity_answers"),
    (Defect::StartsForEver, "an_instance_ends_itself_when_its_time_is_up"),
    (Defect::Resurrects, "a_repeated_start_brings_no_execution_back"),
    (Defect::KeepsNothingAlive, "keep_alive_can_shorten_the_life"),
    (Defect::OnlyShortensLife, "keep_alive_can_extend_the_life"),
    (Defect::KeepsEverythingAlive, "only_a_live_instance_is_kept_alive"),
    (Defect::AlwaysSucceeds, "an_execution_ends_with_its_exit_code"),
    (Defect::AnswersOnce, "wait_can_be_repeated_after_the_end"),
    (Defect::WaitsForEver, "waiting_for_an_unknown_execution_fails_at_once"),
    (Defect::RunsAgain, "the_same_execution_is_started_once"),
    (Defect::TakesAnyGeneration, "an_execution_for_another_generation_is_refused"),
    (Defect::NeverRefuses, "an_execution_in_a_missing_instance_is_refused"),
    (Defect::FindsEveryCommand, "a_command_that_cannot_be_found_fails"),
    (Defect::SeesNoExecutions, "running_and_ended_executions_are_observed"),
    (Defect::RunsOneAtATime, "executions_run_concurrently"),
    (Defect::WaitsForItsOwnOnly, "another_process_can_continue_with_an_execution"),
    (Defect::SeesAllExecutions, "sandboxes_do_not_see_each_others_executions"),
    (Defect::RunsTheRefused, "a_failed_start_is_never_retried_under_its_id"),
    (Defect::SignalsNothing, "a_fatal_signal_ends_a_process_without_handler"),
    (Defect::SignalsTheDead, "only_running_executions_take_valid_signals"),
    (Defect::AcceptsAgain, "a_repeated_stdin_write_is_accepted_once"),
    (Defect::AcceptsBeyondGaps, "a_stdin_write_beyond_a_gap_is_not_accepted"),
    (Defect::NeverCloses, "closing_stdin_ends_its_reader"),
    (Defect::FeedsAnything, "only_an_execution_with_stdin_accepts_writes"),
    (Defect::ResizesAnything, "only_a_terminal_is_resized"),
    (Defect::KillsNothing, "a_kill_ends_a_running_execution"),
    (Defect::KillsAll, "a_kill_leaves_other_executions_alone"),
    (Defect::KillsTheDead, "a_kill_after_the_end_changes_no_outcome"),
    (Defect::KillsOnlyWhatRuns, "an_execution_killed_before_its_start_is_never_started"),
    (Defect::RunsTheKilledAgain, "a_killed_execution_is_not_started_again"),
    (Defect::KillsOnlyWhatRuns, "a_kill_during_the_launch_is_remembered"),
    (Defect::MixesStreams, "stdout_and_stderr_are_told_apart"),
    (Defect::NumbersChunksFromZero, "chunks_are_numbered_from_one_without_holes"),
    (Defect::RereadsOutput, "reading_continues_after_a_position"),
    (Defect::NeverWakes, "a_watch_reports_output_of_a_running_execution"),
    (Defect::DropsOutputWithTheInstance, "output_stays_readable_after_the_stop_of_its_instance"),
    (Defect::ForgetsEarlierOutput, "a_later_instance_continues_the_output_of_an_execution"),
    (Defect::NeverWrote, "last_written_is_known_of_executions_with_output"),
    (Defect::LocksAgain, "a_lock_excludes_other_processes_until_it_is_dropped"),
    (Defect::RemovesNoOutput, "removed_output_is_gone"),
    (Defect::ExaminesNothing, "every_probe_passes_in_a_live_instance"),
    (Defect::PassesEveryProbe, "a_stopped_instance_fails_probes_because_process_1_is_gone"),
    (Defect::ListsNoProcesses, "a_running_command_is_among_the_processes_until_its_end"),
    (Defect::ListsProcessesAnywhere, "processes_of_a_missing_instance_cannot_be_listed"),
    (Defect::ReportsUsageAnywhere, "total_usage_is_known_of_a_live_instance_and_not_of_a_missing_one"),
    (Defect::CountsNothing, "usage_counts_executions_output_and_file_requests"),
    (Defect::ReadsFromTheStart, "a_written_file_is_read_back_whole_and_in_part"),
    (Defect::ListsWithoutRest, "a_listing_has_every_entry_or_says_that_there_are_more"),
    (Defect::RenamesOverOthers, "a_renamed_file_has_only_its_new_name"),
    (Defect::RemovesWithEntries, "a_directory_with_entries_is_only_removed_recursively"),
    (Defect::FindsEveryFile, "impossible_file_requests_say_why"),
    (Defect::FollowsLinks, "a_link_is_followed_by_read_and_not_by_stat"),
    (Defect::HasFilesOfItsOwn, "processes_and_file_requests_see_the_same_files"),
    (Defect::ServesMissingInstances, "a_missing_instance_has_no_files"),
];

#[tokio::test(start_paused = true)]
async fn a_broken_provider_fails_its_conformance_case() {
    for (defect, case) in CAUGHT {
        let passed = tokio::spawn(conformance::check_case(broken::fixture(*defect), case)).await;

        assert!(passed.is_err(), "case `{case}` passes with the defect {defect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_without_a_defect_passes_every_case() {
    for case in conformance::case_names() {
        conformance::check_case(broken::fixture(Defect::NotAtAll), case).await;
    }
}

#[test]
fn every_conformance_case_has_a_defect_that_fails_it() {
    let broken: BTreeSet<_> = CAUGHT.iter().map(|(_, case)| *case).collect();
    let promised: BTreeSet<_> = conformance::case_names().collect();

    assert_eq!(broken, promised);
}
