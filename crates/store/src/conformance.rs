//! What every store promises, as tests over the trait. A store joins by naming itself in one macro:
//! `pinfold_store::conformance!(make)`, where `make` gives a fresh [`Subject`].

#![allow(clippy::unwrap_used, reason = "tests, although they live where other crates can reach them")]

mod alerts;
mod audit;
mod chores;
mod commits;
mod creating;
mod finding;
mod histories;
mod measures;
mod nodes;
mod pool;
mod queue;
mod quotas;
mod retention;
mod tokens;
mod tries;
mod unreadable;
pub mod world;

pub use alerts::*;
pub use audit::*;
pub use chores::*;
pub use commits::*;
pub use creating::*;
pub use finding::*;
pub use histories::*;
pub use measures::*;
pub use nodes::*;
pub use pool::*;
pub use queue::*;
pub use quotas::*;
pub use retention::*;
pub use tokens::*;
pub use tries::*;
pub use unreadable::*;
pub use world::World;

use std::sync::Arc;

use pinfold_lifecycle::SandboxId;

use crate::{Alerts, Audit, Chores, Measures, Store, Tokens};

/// An empty store, and what its own methods cannot do.
pub trait Subject: Send + Sync {
    fn store(&self) -> Arc<dyn Store>;

    fn tokens(&self) -> Arc<dyn Tokens>;

    fn audit(&self) -> Arc<dyn Audit>;

    fn chores(&self) -> Arc<dyn Chores>;

    fn measures(&self) -> Arc<dyn Measures>;

    fn alerts(&self) -> Arc<dyn Alerts>;

    /// Makes one part of a row unreadable.
    fn spoil(&self, sandbox: SandboxId, part: Part);

    /// Where its rows disagree with each other.
    fn disagreements(&self) -> Vec<String>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    State,
    Spec,
    Policy,
    Executions,
}

/// Makes every promise a test of the store that `$make` makes.
#[macro_export]
macro_rules! conformance {
    ($make:expr) => {
        $crate::conformance! { $make =>
            a_commit_is_read_back_as_it_was,
            a_commit_on_an_old_version_changes_nothing,
            a_commit_on_what_is_not_there_is_told_so,
            a_lower_generation_does_not_land,
            of_many_commits_on_one_version_one_lands,
            a_commit_that_is_refused_leaves_no_half_of_itself,
            versions_are_never_used_again,
            executions_come_back_in_the_order_of_arrival,
            an_execution_can_be_read_after_its_end,
            an_outcome_is_written_once,
            what_is_to_be_forgotten_is_deleted_and_its_history_kept,
            a_new_sandbox_is_read_back_as_it_was,
            a_second_sandbox_with_the_same_id_is_refused,
            the_same_key_gives_the_same_sandbox,
            a_key_for_another_request_is_refused,
            a_key_that_has_expired_is_as_good_as_new,
            a_burst_of_creates_does_not_get_past_the_limit,
            every_kind_of_limit_holds,
            an_orphan_is_never_refused,
            an_execution_that_comes_with_its_sandbox_is_written_with_it,
            a_sandbox_that_is_proven_gone_makes_room,
            what_waits_in_the_pool_is_no_sandbox_and_takes_its_place,
            a_claim_makes_it_a_sandbox_in_one_transaction,
            of_many_claims_on_one_body_one_lands,
            what_was_given_out_is_not_claimed_again,
            a_claim_for_another_shape_is_refused,
            the_same_key_claims_once,
            a_pool_is_filled_to_its_size_by_any_number_of_nodes,
            the_pool_leaves_the_last_place_to_whoever_asks,
            what_ends_unclaimed_was_never_a_sandbox,
            what_waits_is_found_by_its_shape_the_oldest_first,
            the_next_try_is_due_and_its_place_stays_taken,
            every_try_is_read_back_with_its_receipt,
            what_is_due_comes_in_the_order_of_its_deadlines,
            the_next_deadline_is_the_earliest_of_all,
            effects_follow_the_state,
            effects_belong_to_the_node_that_was_asked,
            what_a_node_leaves_is_what_it_owns_or_works_for,
            sandboxes_are_listed_in_pages_by_their_ids,
            totals_are_the_sum_over_all_sandboxes,
            what_was_attested_is_counted_apart,
            a_stray_is_one_more_created_and_destroyed,
            history_comes_in_pages_of_one_sandbox_or_of_all,
            the_last_record_is_that_of_its_own_sandbox,
            changes_name_each_sandbox_once,
            a_change_without_a_record_is_a_change_too,
            a_forgotten_sandbox_is_among_the_changes,
            a_node_is_known_by_its_last_heartbeat,
            a_node_that_owns_something_cannot_leave,
            what_a_node_writes_after_it_was_forgotten_tells_of_it,
            a_node_that_was_forgotten_is_known_again_by_its_next_heartbeat,
            only_what_is_settled_is_pruned,
            history_and_keys_are_pruned_by_their_own_times,
            at_most_so_many_are_pruned_at_once,
            what_is_past_retention_is_gone_when_there_is_no_more,
            an_unreadable_row_is_shown_and_stays_due,
            an_unreadable_row_can_be_quarantined,
            an_unreadable_row_is_never_pruned,
            executions_of_an_unreadable_row_end_as_lost,
            a_token_is_read_back_as_it_was,
            a_second_token_with_the_same_id_is_refused,
            a_token_is_revoked_once_and_for_all,
            tokens_are_listed_the_oldest_first,
            who_asked_is_read_back_in_pages,
            who_asked_is_kept_as_long_as_the_history,
            a_chore_is_due_at_its_time_and_not_before,
            of_many_that_take_a_turn_one_gets_it,
            a_turn_whose_holder_died_is_taken_over_and_its_end_changes_nothing,
            a_turn_can_be_held_for_longer,
            a_chore_that_is_planned_again_keeps_its_time_unless_its_schedule_differs,
            a_turn_that_was_missed_many_times_is_taken_once,
            a_run_is_read_back_with_all_that_it_came_to,
            only_the_last_runs_of_each_chore_are_kept,
            what_is_counted_adds_up_in_all_and_in_its_minute,
            of_many_who_count_the_same_history_one_does,
            a_minute_is_looked_at_once,
            old_minutes_become_quarters_of_hours,
            what_is_closed_is_quarters_of_hours_that_nothing_changes,
            only_what_is_closed_is_dropped,
            what_was_measured_is_found_by_its_time,
            the_last_records_up_to_a_place_are_those_before_it,
            a_change_of_alerts_is_read_back_as_it_was,
            of_many_changes_on_one_version_of_an_alert_one_lands,
            a_change_of_alerts_that_is_refused_leaves_no_half_of_itself,
            what_happened_to_alerts_is_read_the_latest_first,
            a_delivery_is_in_one_pair_of_hands,
            a_delivery_whose_carrier_is_gone_comes_again_under_its_id,
            a_delivery_that_failed_waits_for_its_time,
            a_delivery_is_settled_once,
            a_delivery_is_claimed_for_its_own_target,
            what_happened_to_alerts_is_kept_as_long_as_the_history,
            a_quota_is_kept_by_a_burst_of_creates,
            a_quota_is_freed_by_proof_alone,
            a_stray_takes_its_quota_again,
            what_is_forgotten_is_counted_no_more,
            a_claim_from_the_pool_keeps_the_quota_too,
            those_who_wait_are_read_back_in_the_order_of_arrival,
            what_would_never_fit_is_not_put_into_the_queue,
            who_does_not_wait_does_not_overtake_who_does_and_fits,
            who_waits_longer_is_let_in_first,
            whoever_is_let_in_leaves_the_queue_in_the_same_transaction,
            a_place_that_has_ended_lets_nobody_in,
            no_place_outlives_its_deadline,
            a_place_is_gone_with_its_node,
            a_large_one_is_overtaken_only_so_often,
            who_waits_for_its_own_quota_holds_up_nobody_else,
            what_waits_in_the_pool_gives_way_to_who_waits_in_the_queue,
            an_orphan_is_not_held_up_by_those_who_wait,
            places_that_have_ended_are_pruned_as_records_are,
        }
    };
    ($make:expr => $($promise:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let subject = $make();
                $crate::conformance::$promise(&subject).await;
                assert_eq!($crate::conformance::Subject::disagreements(&subject), [] as [String; 0]);
            }
        )*
    };
}
