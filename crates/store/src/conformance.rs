//! The conformance suite: tests of the [`Store`] traits that every implementation must pass. An implementation runs it
//! with `pinfold_store::conformance!(make)`, where `make` returns an empty [`TestedStore`].

#![allow(clippy::unwrap_used, reason = "tests, which live in the library so that other crates can run them")]

mod alerts;
mod audit_log;
mod commits;
mod create;
pub mod fixture;
mod history;
mod job_schedule;
mod metrics;
mod nodes;
mod pool;
mod queries;
mod queue;
mod quotas;
mod recovery_attempts;
mod retention;
mod tokens;
mod unreadable;

pub use alerts::*;
pub use audit_log::*;
pub use commits::*;
pub use create::*;
pub use fixture::StoreFixture;
pub use history::*;
pub use job_schedule::*;
pub use metrics::*;
pub use nodes::*;
pub use pool::*;
pub use queries::*;
pub use queue::*;
pub use quotas::*;
pub use recovery_attempts::*;
pub use retention::*;
pub use tokens::*;
pub use unreadable::*;

use std::sync::Arc;

use pinfold_lifecycle::SandboxId;

use crate::{AlertStore, AuditLog, JobSchedule, MetricStore, Store, TokenStore};

/// An empty store, with the means to damage it.
pub trait TestedStore: Send + Sync {
    fn store(&self) -> Arc<dyn Store>;

    fn tokens(&self) -> Arc<dyn TokenStore>;

    fn audit_log(&self) -> Arc<dyn AuditLog>;

    fn job_schedule(&self) -> Arc<dyn JobSchedule>;

    fn metrics(&self) -> Arc<dyn MetricStore>;

    fn alerts(&self) -> Arc<dyn AlertStore>;

    /// Makes one part of a row unreadable.
    fn make_unreadable(&self, sandbox: SandboxId, part: RowPart);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowPart {
    State,
    Spec,
    Policy,
    Executions,
}

/// Makes a test of every promise, on the store that `$make` returns.
#[macro_export]
macro_rules! conformance {
    ($make:expr) => {
        $crate::conformance! { $make =>
            a_commit_is_read_back_as_it_was,
            a_commit_on_an_old_version_changes_nothing,
            a_commit_on_a_missing_sandbox_is_refused,
            a_commit_with_a_lower_generation_is_refused,
            of_many_commits_on_one_version_one_succeeds,
            a_refused_commit_writes_nothing,
            versions_are_never_used_again,
            executions_are_listed_in_the_order_of_arrival,
            an_execution_can_be_read_after_its_end,
            an_outcome_is_written_once,
            a_sandbox_to_be_forgotten_is_deleted_and_its_history_kept,
            a_new_sandbox_is_read_back_as_it_was,
            a_second_sandbox_with_the_same_id_is_refused,
            a_name_is_taken_until_its_sandbox_is_proven_gone,
            the_same_key_gives_the_same_sandbox,
            a_key_for_another_request_is_refused,
            an_expired_key_counts_as_unused,
            concurrent_creates_do_not_exceed_the_limit,
            every_kind_of_limit_holds,
            an_orphan_is_never_refused,
            an_execution_requested_with_its_sandbox_is_written_with_it,
            a_sandbox_that_is_proven_gone_makes_room,
            an_instance_of_the_pool_is_no_sandbox_but_takes_room,
            a_claim_makes_an_instance_a_sandbox_in_one_transaction,
            of_many_claims_on_one_instance_one_succeeds,
            a_claimed_instance_is_not_claimed_again,
            a_claim_for_another_shape_is_refused,
            the_same_key_claims_once,
            a_pool_is_filled_to_its_size_by_any_number_of_nodes,
            the_pool_does_not_take_the_last_room,
            an_unclaimed_instance_never_counts_as_a_sandbox,
            pool_members_are_listed_by_shape_oldest_first,
            the_next_attempt_is_due_and_its_room_stays_taken,
            every_attempt_is_read_back_with_its_receipt,
            due_sandboxes_are_listed_in_the_order_of_their_deadlines,
            the_next_deadline_is_the_earliest_of_all,
            effects_follow_the_state,
            effects_belong_to_the_node_that_runs_them,
            sandboxes_of_a_node_are_those_it_owns_or_runs_effects_for,
            sandboxes_are_listed_in_pages_by_their_ids,
            totals_are_the_sum_over_all_sandboxes,
            attested_sandboxes_are_counted_separately,
            a_stray_counts_as_one_more_created_and_destroyed,
            history_is_read_in_pages_of_one_sandbox_or_of_all,
            the_last_record_of_a_sandbox_is_its_own,
            changes_name_each_sandbox_once,
            a_commit_without_a_history_record_is_among_the_changes,
            a_deleted_sandbox_is_among_the_changes,
            a_node_is_listed_with_its_last_heartbeat,
            a_node_that_owns_a_sandbox_cannot_be_removed,
            a_removed_node_that_writes_again_is_listed_as_unregistered,
            a_removed_node_is_registered_again_by_its_next_heartbeat,
            only_settled_sandboxes_are_pruned,
            history_and_keys_are_pruned_by_their_own_times,
            one_prune_deletes_at_most_its_limit,
            all_that_is_past_retention_is_deleted_when_no_more_is_reported,
            an_unreadable_row_is_shown_and_stays_due,
            an_unreadable_row_can_be_quarantined,
            an_unreadable_row_is_never_pruned,
            executions_of_an_unreadable_row_end_as_lost,
            a_token_is_read_back_as_it_was,
            a_second_token_with_the_same_id_is_refused,
            a_token_is_revoked_once_and_for_all,
            tokens_are_listed_the_oldest_first,
            audit_records_are_read_back_in_pages,
            audit_records_are_kept_as_long_as_the_history,
            a_job_is_due_at_its_time_and_not_before,
            of_many_claims_on_a_due_job_one_succeeds,
            an_expired_run_is_taken_over_and_its_late_outcome_changes_nothing,
            a_claim_can_be_extended,
            a_job_planned_again_keeps_its_due_time_unless_its_schedule_differs,
            a_job_that_was_missed_many_times_runs_once,
            a_run_is_read_back_with_its_report,
            only_the_last_runs_of_each_job_are_kept,
            counts_are_added_to_the_totals_and_to_their_minutes,
            of_many_servers_that_count_the_same_history_one_succeeds,
            gauges_of_a_minute_are_recorded_once,
            old_minutes_are_merged_into_quarters_of_an_hour,
            closed_quarters_of_an_hour_never_change,
            only_closed_points_are_dropped,
            metric_points_are_found_by_their_time,
            history_up_to_a_number_returns_the_last_records_before_it,
            a_change_of_alerts_is_read_back_as_it_was,
            of_many_changes_on_one_version_of_an_alert_one_succeeds,
            a_refused_change_of_alerts_writes_nothing,
            alert_history_is_read_latest_first,
            a_delivery_has_one_claim_at_a_time,
            a_delivery_with_an_expired_claim_is_claimed_again_under_its_id,
            a_failed_delivery_waits_for_its_retry_time,
            a_delivery_is_finished_once,
            a_delivery_is_claimed_for_its_own_target,
            alert_history_is_kept_as_long_as_the_history,
            concurrent_creates_do_not_exceed_a_quota,
            a_quota_is_freed_only_by_proof_of_absence,
            a_stray_counts_for_its_quota_again,
            a_deleted_sandbox_no_longer_counts_for_its_quota,
            a_pool_claim_is_checked_against_quotas,
            queue_entries_are_listed_in_the_order_of_arrival,
            a_request_that_never_fits_is_not_queued,
            a_new_request_does_not_overtake_a_queued_one_that_fits,
            the_longest_waiting_request_is_admitted_first,
            an_admitted_request_leaves_the_queue_in_the_same_transaction,
            an_ended_queue_entry_admits_nothing,
            a_queue_entry_ends_at_its_deadline,
            a_queue_entry_ends_with_its_node,
            a_large_request_is_overtaken_a_bounded_number_of_times,
            a_request_that_waits_for_its_own_quota_blocks_no_other,
            the_pool_gives_way_to_the_queue,
            an_orphan_is_not_blocked_by_the_queue,
            ended_queue_entries_are_pruned_like_records,
        }
    };
    ($make:expr => $($promise:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let tested = $make();
                $crate::conformance::$promise(&tested).await;
                let store = $crate::conformance::TestedStore::store(&tested);
                assert_eq!(store.inconsistencies().unwrap(), [] as [String; 0]);
            }
        )*
    };
}
