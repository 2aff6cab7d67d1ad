//! Flags that call for attention in a list of sandboxes. `docs/api.md` says what each flag means.

use pinfold_lifecycle::{ExecutionState, Lease, Timestamp, Verdict};
use pinfold_store::StoredSandbox;

use crate::FlagThresholds;
use crate::stuck::is_stuck;

/// A single timeout is not flagged.
const TIMEOUTS: u32 = 2;

pub(super) fn flags(stored: &StoredSandbox, now: Timestamp, rules: FlagThresholds) -> Vec<String> {
    let StoredSandbox { sandbox, spec, policy, .. } = stored;
    let is_there = !sandbox.is_settled();
    let starts = matches!(sandbox.lease, Lease::Starting { .. } | Lease::LaunchWaiting { .. });
    let unhealthy = matches!(&sandbox.lease, Lease::Live(live) if matches!(live.health.verdict, Verdict::Unhealthy { .. }));
    let runs_long = |state: &ExecutionState| matches!(state, ExecutionState::Running { started_at, .. } if now.ms_since(*started_at) > rules.long_running_ms);
    let flags = [
        ("critical", spec.critical),
        // It ends with its owner's process.
        ("attached", policy.ends_with_owner && is_there),
        ("stuck", is_there && is_stuck(sandbox, now)),
        ("old", is_there && now.ms_since(sandbox.created_at) > rules.old_ms),
        ("long_running", sandbox.executions.iter().any(|execution| runs_long(&execution.state))),
        ("late_start", starts && now > sandbox.start_by),
        ("unattributed", is_there && spec.agent_type.is_none() && spec.task_id.is_none()),
        ("repeated_timeouts", sandbox.timeouts >= TIMEOUTS),
        ("unhealthy", unhealthy),
        ("quarantined", matches!(sandbox.lease, Lease::Quarantined { .. })),
        ("stray", sandbox.strays > 0),
    ];
    flags.into_iter().filter(|(_, holds)| *holds).map(|(flag, _)| flag.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_lifecycle::{
        Context, Execution, ExecutionId, ExecutionKind, ExecutionLimits, Fence, FileTransfers, NodeId,
        PendingEffect, Policy, SandboxId, Spec, create,
    };
    use pinfold_store::Version;

    use super::*;

    const NOON: Timestamp = Timestamp(1_000_000_000);

    fn stored_with(spec: Spec) -> StoredSandbox {
        let policy = Policy { start_ms: 3_600_000, ..Policy::default() };
        let ctx = Context { now: NOON, node: NodeId(1), policy: &policy };
        let sandbox = create(SandboxId(1), ctx).sandbox;
        StoredSandbox { sandbox, spec: Arc::new(spec), policy: Arc::new(policy), version: Version(1) }
    }

    fn of_a_task() -> StoredSandbox {
        stored_with(Spec { task_id: Some("task_1".into()), ..Spec::default() })
    }

    fn flags_at(stored: &StoredSandbox, now: Timestamp) -> Vec<String> {
        flags(stored, now, FlagThresholds::default())
    }

    fn at_work_since(started_at: Timestamp) -> StoredSandbox {
        let mut stored = of_a_task();
        let watch = PendingEffect {
            fence: Fence(1),
            node: NodeId(1),
            requested_at: NOON,
            deadline: NOON.after_ms(3_600_000),
        };
        stored.sandbox.executions.push(Execution {
            id: ExecutionId(1),
            kind: ExecutionKind::Run,
            limits: ExecutionLimits::default(),
            transfers: FileTransfers::default(),
            requested_at: NOON,
            state: ExecutionState::Running { started_at, quiet_by: None, watch },
            attempts: Vec::new(),
        });
        stored
    }

    #[test]
    fn a_new_sandbox_of_a_task_has_no_flag() {
        assert_eq!(flags_at(&of_a_task(), NOON), [""; 0]);
    }

    #[test]
    fn a_sandbox_older_than_ten_minutes_is_old_and_not_stuck() {
        let stored = of_a_task();

        assert_eq!(flags_at(&stored, NOON.after_ms(600_000)), [""; 0]);
        assert_eq!(flags_at(&stored, NOON.after_ms(600_001)), ["old"]);
    }

    #[test]
    fn a_young_sandbox_past_its_own_deadline_is_stuck_and_not_old() {
        let mut stored = of_a_task();
        stored.sandbox.start_by = NOON;

        let flags = flags_at(&stored, NOON.after_ms(60_000));

        assert_eq!(flags, ["stuck", "late_start"]);
    }

    #[test]
    fn an_execution_over_five_minutes_is_flagged_long_running() {
        let stored = at_work_since(NOON.after_ms(60_000));

        assert_eq!(flags_at(&stored, NOON.after_ms(360_000)), [""; 0]);
        assert_eq!(flags_at(&stored, NOON.after_ms(360_001)), ["long_running"]);
    }

    #[test]
    fn thresholds_are_configurable() {
        let rules = FlagThresholds { old_ms: 2_000, long_running_ms: 1_000 };
        let stored = at_work_since(NOON);

        assert_eq!(flags(&stored, NOON.after_ms(1_001), rules), ["long_running"]);
        assert_eq!(flags(&stored, NOON.after_ms(2_001), rules), ["old", "long_running"]);
    }

    #[test]
    fn an_overdue_start_is_flagged_late_start() {
        let mut stored = of_a_task();
        stored.sandbox.start_by = NOON.after_ms(1_000);

        assert_eq!(flags_at(&stored, NOON.after_ms(1_001)), ["late_start"]);
    }

    #[test]
    fn a_sandbox_without_task_and_agent_type_is_unattributed() {
        let of_an_agent = stored_with(Spec { agent_type: Some("VALIDATION".into()), ..Spec::default() });

        assert_eq!(flags_at(&stored_with(Spec::default()), NOON), ["unattributed"]);
        assert_eq!(flags_at(&of_an_agent, NOON), [""; 0]);
    }

    #[test]
    fn two_timeouts_are_flagged_and_one_is_not() {
        let mut stored = of_a_task();
        stored.sandbox.timeouts = 1;
        let once = flags_at(&stored, NOON);
        stored.sandbox.timeouts = 2;

        assert_eq!((once, flags_at(&stored, NOON)), (vec![], vec!["repeated_timeouts".to_owned()]));
    }
}
