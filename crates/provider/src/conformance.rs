//! The conformance suite of providers: one function per case. A provider's test file implements [`Fixture`] and
//! writes `pinfold_provider::conformance_tests!(tests: fixture())`, which makes each case a test of its name.
//! No case assumes how long an operation takes: it waits for a condition, with a deadline.

mod deadline;
mod execution;
mod files;
mod harness;
mod inspect;
mod kill;
mod launch;
mod observe;
mod output;
mod permit;
mod process_io;
mod stop;

use std::panic;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_lifecycle::{Command, ExecutionId, SandboxId, Spec, Timestamp};

use crate::Provider;
use harness::Harness;

/// What the suite needs from a provider's test environment.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// A new handle each time, as another process on the same host would have.
    fn provider(&self) -> Arc<dyn Provider>;

    fn fresh_sandbox(&self) -> SandboxId;

    fn fresh_execution(&self) -> ExecutionId;

    fn spec(&self) -> Spec;

    fn command(&self, command_kind: TestCommand) -> Command;

    /// The time `ms` ahead on the provider's clock.
    fn in_ms(&self, ms: u64) -> Timestamp;

    /// Returns when `ms` have passed on the provider's clock.
    async fn pass_ms(&self, ms: u64);
}

/// What a test command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestCommand {
    /// Exits at once with code 0.
    Succeed,
    /// Exits at once with code 3.
    ExitWith3,
    /// Runs until it is killed.
    RunUntilKilled,
    /// Names a program that does not exist.
    NotFound,
    /// Reads its stdin until that is closed, then exits with code 0.
    ReadUntilClosed,
    /// Has a terminal and runs until it is killed.
    HoldTerminal,
}

/// Time limit of a single wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a whole case, so that a hanging call fails under the name of its case.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

type Case = fn(Harness) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const CASES: &[(&str, Case)] = crate::conformance_tests!(table);

/// The names of all cases.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, _)| *name)
}

/// Runs one case against a provider, then stops every instance it started.
///
/// # Panics
///
/// If the provider fails the case.
pub async fn check_case(fixture: impl Fixture, name: &str) {
    let known = CASES.iter().find(|(known, _)| *known == name);
    let (_, case) = known.unwrap_or_else(|| panic!("no conformance case `{name}`"));
    let harness = Harness::new(Arc::new(fixture));

    let passed = tokio::spawn(tokio::time::timeout(CASE_TIMEOUT, case(harness.clone()))).await;

    harness.clear().await;
    match passed {
        Ok(Ok(())) => {}
        Ok(Err(_)) => panic!("a call did not answer within {CASE_TIMEOUT:?}"),
        Err(error) => panic::resume_unwind(error.into_panic()),
    }
}

/// `conformance_tests!(tests: FIXTURE)` makes one `#[tokio::test]` of each case; `FIXTURE` is evaluated in
/// each. `conformance_tests!(each: FUNCTION)` makes one `#[test]` of each, which calls the function with the
/// case's name.
#[macro_export]
macro_rules! conformance_tests {
    (tests: $fixture:expr) => {
        $crate::conformance_tests!(@list tests $fixture);
    };
    (each: $function:path) => {
        $crate::conformance_tests!(@list each $function);
    };
    (table) => {
        $crate::conformance_tests!(@list table)
    };
    (@list $($purpose:tt)+) => {
        $crate::conformance_tests! {
            @$($purpose)+;
            launch::a_started_instance_is_complete_and_the_only_one
            launch::repeating_a_start_makes_no_second_instance
            launch::two_concurrent_launches_make_one_instance
            launch::a_launch_that_is_no_longer_wanted_leaves_nothing_behind
            launch::the_permit_is_checked_after_the_marker_is_set
            launch::a_stop_between_marker_and_processes_leaves_no_instance
            launch::an_incomplete_instance_is_found_and_stopped
            launch::a_launch_dropped_half_way_can_be_repeated
            launch::a_new_generation_shares_nothing_with_the_old_one
            stop::a_stopped_instance_is_proven_gone
            stop::stopping_twice_answers_gone_twice
            stop::stopping_an_unknown_instance_answers_gone
            stop::a_stop_leaves_later_generations_alone
            stop::a_stop_ends_earlier_generations_too
            stop::a_stop_ends_running_executions
            stop::a_stop_needs_no_local_state
            stop::stopping_one_sandbox_leaves_others_running
            observe::every_instance_with_our_name_is_discovered
            observe::probe_and_ping_pass_on_a_live_instance
            observe::probe_and_ping_do_not_pass_without_a_live_instance
            observe::a_probe_is_not_an_execution
            observe::usage_answers_for_a_live_instance_only
            observe::capacity_answers
            deadline::an_instance_ends_itself_when_its_time_is_up
            deadline::a_repeated_start_brings_no_execution_back
            deadline::keep_alive_can_shorten_the_life
            deadline::keep_alive_can_extend_the_life
            deadline::only_a_live_instance_is_kept_alive
            execution::an_execution_ends_with_its_exit_code
            execution::wait_can_be_repeated_after_the_end
            execution::waiting_for_an_unknown_execution_fails_at_once
            execution::the_same_execution_is_started_once
            execution::an_execution_for_another_generation_is_refused
            execution::an_execution_in_a_missing_instance_is_refused
            execution::a_command_that_cannot_be_found_fails
            execution::running_and_ended_executions_are_observed
            execution::executions_run_concurrently
            execution::another_process_can_continue_with_an_execution
            execution::sandboxes_do_not_see_each_others_executions
            execution::a_failed_start_is_never_retried_under_its_id
            process_io::a_fatal_signal_ends_a_process_without_handler
            process_io::only_running_executions_take_valid_signals
            process_io::a_repeated_stdin_write_is_accepted_once
            process_io::a_stdin_write_beyond_a_gap_is_not_accepted
            process_io::closing_stdin_ends_its_reader
            process_io::only_an_execution_with_stdin_accepts_writes
            process_io::only_a_terminal_is_resized
            kill::a_kill_ends_a_running_execution
            kill::a_kill_leaves_other_executions_alone
            kill::a_kill_after_the_end_changes_no_outcome
            kill::an_execution_killed_before_its_start_is_never_started
            kill::a_killed_execution_is_not_started_again
            kill::a_kill_during_the_launch_is_remembered
            output::stdout_and_stderr_are_told_apart
            output::chunks_are_numbered_from_one_without_holes
            output::reading_continues_after_a_position
            output::a_watch_reports_output_of_a_running_execution
            output::output_stays_readable_after_the_stop_of_its_instance
            output::a_later_instance_continues_the_output_of_an_execution
            output::last_written_is_known_of_executions_with_output
            output::a_lock_excludes_other_processes_until_it_is_dropped
            output::removed_output_is_gone
            inspect::every_probe_passes_in_a_live_instance
            inspect::a_stopped_instance_fails_probes_because_process_1_is_gone
            inspect::a_running_command_is_among_the_processes_until_its_end
            inspect::processes_of_a_missing_instance_cannot_be_listed
            inspect::total_usage_is_known_of_a_live_instance_and_not_of_a_missing_one
            inspect::usage_counts_executions_output_and_file_requests
            files::a_written_file_is_read_back_whole_and_in_part
            files::a_listing_has_every_entry_or_says_that_there_are_more
            files::a_renamed_file_has_only_its_new_name
            files::a_directory_with_entries_is_only_removed_recursively
            files::impossible_file_requests_say_why
            files::a_link_is_followed_by_read_and_not_by_stat
            files::processes_and_file_requests_see_the_same_files
            files::a_missing_instance_has_no_files
        }
    };
    (@table; $($module:ident::$name:ident)+) => {
        &[$((stringify!($name), |harness| Box::pin($module::$name(harness)))),+]
    };
    (@tests $fixture:expr; $($module:ident::$name:ident)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::conformance::check_case($fixture, stringify!($name)).await;
            }
        )+
    };
    (@each $function:path; $($module:ident::$name:ident)+) => {
        $(
            #[test]
            fn $name() {
                $function(stringify!($name));
            }
        )+
    };
}
