//! The promises that every provider must keep, one function each. A provider's test file says what it needs to
//! know in a [`Ground`] and writes `pinfold_provider::promises!(tests: ground())`: each promise becomes a test
//! of its name. Nothing here assumes how long something takes: conditions are waited for, with a deadline.

mod deadline;
mod dialogue;
mod execution;
mod kill;
mod launch;
mod look;
mod permit;
mod site;
mod stop;

use std::panic;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_lifecycle::{Command, ExecutionId, SandboxId, Spec, Timestamp};

use crate::Provider;
use site::Site;

/// What the suite must know of a provider, in the provider's own words.
#[async_trait]
pub trait Ground: Send + Sync + 'static {
    /// A new handle each time, as another process on the same host would have it.
    fn provider(&self) -> Arc<dyn Provider>;

    fn fresh_sandbox(&self) -> SandboxId;

    fn fresh_execution(&self) -> ExecutionId;

    fn spec(&self) -> Spec;

    fn command(&self, deed: Deed) -> Command;

    /// The moment that lies so far ahead on the provider's clock.
    fn in_ms(&self, ms: u64) -> Timestamp;

    /// Returns when so much time has passed on the provider's clock.
    async fn pass_ms(&self, ms: u64);
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It ends at once, with exit code 0.
    Succeed,
    /// It ends at once, with exit code 3.
    ExitWith3,
    /// It never ends by itself.
    RunUntilKilled,
    /// It names a program that does not exist.
    NotFound,
    /// It has an input, reads it, and ends with it, with exit code 0.
    ReadUntilClosed,
    /// It has a terminal, and never ends by itself.
    HoldTerminal,
}

/// How long anything may take that happens without being waited for by name.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a whole promise may take, so that a call that never answers is a failure with a name.
const LONGEST: Duration = Duration::from_secs(60);

type Promise = fn(Site) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const ALL: &[(&str, Promise)] = crate::promises!(table);

/// The promises, by name.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// Holds a provider to one promise, and stops whatever was started for it.
///
/// # Panics
///
/// If the promise is broken.
pub async fn keep(ground: impl Ground, name: &str) {
    let known = ALL.iter().find(|(known, _)| *known == name);
    let (_, promise) = known.unwrap_or_else(|| panic!("there is no promise `{name}`"));
    let site = Site::new(Arc::new(ground));

    let kept = tokio::spawn(tokio::time::timeout(LONGEST, promise(site.clone()))).await;

    site.clear().await;
    match kept {
        Ok(Ok(())) => {}
        Ok(Err(_)) => panic!("a call did not answer within {LONGEST:?}"),
        Err(error) => panic::resume_unwind(error.into_panic()),
    }
}

/// `promises!(tests: GROUND)` makes one `#[tokio::test]` of each promise; `GROUND` is evaluated anew in each.
/// `promises!(each: FUNCTION)` makes one `#[test]` of each, which calls the function with the promise's name.
#[macro_export]
macro_rules! promises {
    (tests: $ground:expr) => {
        $crate::promises!(@list tests $ground);
    };
    (each: $function:path) => {
        $crate::promises!(@list each $function);
    };
    (table) => {
        $crate::promises!(@list table)
    };
    (@list $($purpose:tt)+) => {
        $crate::promises! {
            @$($purpose)+;
            launch::a_started_body_is_whole_alone_and_of_its_generation
            launch::starting_again_what_runs_makes_no_second_body
            launch::two_launches_at_once_make_one_body
            launch::a_launch_that_is_no_longer_wanted_leaves_nothing_behind
            launch::the_permit_is_asked_when_the_mark_is_there
            launch::a_stop_between_mark_and_body_leaves_no_body
            launch::a_half_made_body_is_found_and_stopped
            launch::a_launch_dropped_half_way_can_be_made_again
            launch::a_new_generation_knows_nothing_of_the_old_one
            stop::a_stopped_body_is_proven_gone
            stop::stopping_twice_answers_gone_twice
            stop::stopping_what_never_was_answers_gone
            stop::a_stop_leaves_later_generations_alone
            stop::a_stop_ends_earlier_generations_too
            stop::a_stop_ends_running_executions
            stop::a_stop_needs_no_memory_of_the_start
            stop::stopping_one_sandbox_leaves_its_neighbour
            look::everything_that_carries_our_mark_is_discovered
            look::probe_and_ping_pass_on_a_live_body
            look::probe_and_ping_do_not_pass_where_nothing_lives
            look::a_probe_is_not_an_execution
            look::usage_answers_for_a_live_body_only
            look::capacity_answers
            deadline::a_body_ends_itself_when_its_time_is_up
            deadline::nothing_comes_back_with_a_body_that_is_made_again
            deadline::keep_alive_brings_the_end_nearer
            deadline::keep_alive_puts_the_end_off
            deadline::only_a_live_body_is_kept_alive
            execution::an_execution_ends_with_its_exit_code
            execution::wait_can_be_asked_again_after_the_end
            execution::an_execution_that_was_not_started_is_not_waited_for
            execution::the_same_execution_is_started_once
            execution::an_execution_for_another_generation_is_refused
            execution::an_execution_in_no_body_is_refused
            execution::a_command_that_cannot_be_found_fails
            execution::running_and_ended_executions_are_observed
            execution::executions_run_side_by_side
            execution::another_process_can_go_on_with_an_execution
            execution::neighbours_do_not_see_each_others_executions
            execution::what_could_not_be_started_is_never_started
            dialogue::a_signal_ends_what_takes_no_notice_of_it
            dialogue::only_what_runs_is_signalled_and_only_by_signals
            dialogue::what_is_fed_again_is_accepted_once
            dialogue::what_lies_beyond_a_gap_is_not_accepted
            dialogue::closing_its_input_ends_what_reads_it
            dialogue::only_what_has_an_input_is_fed
            dialogue::only_a_terminal_is_resized
            kill::a_kill_ends_a_running_execution
            kill::a_kill_leaves_other_executions_alone
            kill::a_kill_after_the_end_changes_no_outcome
            kill::an_execution_killed_before_its_start_is_never_started
            kill::a_killed_execution_is_not_started_again
            kill::a_kill_while_the_body_is_being_made_is_kept
        }
    };
    (@table; $($chapter:ident::$name:ident)+) => {
        &[$((stringify!($name), |site| Box::pin($chapter::$name(site)))),+]
    };
    (@tests $ground:expr; $($chapter:ident::$name:ident)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::conformance::keep($ground, stringify!($name)).await;
            }
        )+
    };
    (@each $function:path; $($chapter:ident::$name:ident)+) => {
        $(
            #[test]
            fn $name() {
                $function(stringify!($name));
            }
        )+
    };
}
