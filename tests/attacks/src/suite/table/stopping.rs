//! Processes that resist a stop, and false signs of a live keeper.

use crate::entry::{Act, Entry, Group, Proof, Verdict};
use crate::scenarios::stopping;

const ENDS: Proof = Proof::Nowhere("nothing to get through to: it shows that a stop ends");

macro_rules! stopped {
    ($name:literal, $attempt:literal) => {
        Entry::new(
            Group::Stopping,
            $name,
            "end of the control group",
            Act::Scenario(|fixture| Box::pin(stopping::stopped_while(fixture, $attempt))),
            Proof::Naive(stopping::naive_kill),
        )
    };
}

macro_rules! scene {
    ($name:literal, $aims_at:literal, $scene:ident, $proof:expr) => {
        Entry::new(
            Group::Stopping,
            $name,
            $aims_at,
            Act::Scenario(|fixture| Box::pin(stopping::$scene(fixture))),
            $proof,
        )
    };
}

/// Also tried as an unprivileged user, whose executions may have no cgroups.
pub(super) const KILLED_WITHOUT_FIRST_THREAD: Entry = scene!(
    "outlive_a_kill_without_a_first_thread",
    "cgroup or marker of the execution",
    killed_without_first_thread,
    Proof::Naive(stopping::naive_owner_check)
);

pub(super) const ENTRIES: &[Entry] = &[
    stopped!("outlive_a_stop_by_a_double_fork", "stay-by-double-fork"),
    stopped!("outlive_a_stop_by_a_new_session", "stay-by-new-session"),
    stopped!("outlive_a_stop_by_being_deaf", "stay-deaf"),
    stopped!("outlive_a_stop_by_being_stopped", "stay-stopped"),
    stopped!("outlive_a_stop_by_forking_faster", "stay-by-forking-faster"),
    stopped!("outlive_a_stop_by_being_traced", "stay-traced"),
    scene!(
        "outlive_a_kill_by_a_double_fork",
        "group of the execution",
        killed_double_fork,
        Proof::Naive(stopping::naive_kill)
    ),
    KILLED_WITHOUT_FIRST_THREAD,
    scene!(
        "outlive_its_own_end_by_a_new_session",
        "group of the execution",
        left_behind,
        Proof::Naive(stopping::naive_kill)
    ),
    scene!("outlive_the_time_limit_by_being_deaf", "time limit of the keeper", time_limit, ENDS),
    scene!("outlive_the_time_limit_by_being_stopped", "time limit of the keeper", time_limit_stopped, ENDS),
    scene!("outlive_inactivity_by_saying_nothing", "inactivity limit of the keeper", inactivity, ENDS),
    scene!(
        "outlive_the_deadline_by_flooding_the_keeper",
        "deadline of the keeper",
        deadline_under_flood,
        ENDS
    ),
    scene!("outlive_the_deadline_by_orphans", "deadline of the keeper", deadline_under_orphans, ENDS),
    scene!("outlive_its_keeper", "pid namespace", keeper_killed, ENDS),
    scene!(
        "answer_pings_in_the_keepers_place",
        "the keeper's secret",
        fake_keeper,
        Proof::Naive(|| Ok(Verdict::Through(
            "the same listener with the secret is believed, in the same scenario".into()
        )))
    ),
    scene!(
        "hide_behind_a_process_id_that_is_used_again",
        "start time of a process",
        reused_pid,
        Proof::Naive(|| Ok(Verdict::Through(
            "with the right start time the stranger is ended, in the same scenario".into()
        )))
    ),
    scene!("be_stopped_while_frozen", "end of a frozen group", frozen, ENDS),
    scene!("be_stopped_with_a_stopped_keeper", "end of the control group", stopped_keeper, ENDS),
    scene!("be_stopped_twice_at_once", "stops that may be repeated", stopped_twice, ENDS),
    scene!(
        "be_stopped_by_another_control_plane",
        "names that identify every resource",
        stopped_by_another,
        ENDS
    ),
    scene!("be_stopped_after_its_socket_is_gone", "names that identify every resource", socket_gone, ENDS),
    scene!("be_stopped_after_its_files_are_gone", "names that identify every resource", files_gone, ENDS),
    scene!("be_stopped_while_it_starts_programs", "end of the control group", stopped_during_exec, ENDS),
];
