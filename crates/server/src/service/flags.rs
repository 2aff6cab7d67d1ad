//! What somebody who looks over a list of sandboxes should not miss. `docs/api.md` says what each flag means.

use pinfold_lifecycle::{ExecutionState, Lease, Timestamp, Verdict};
use pinfold_store::Stored;

use crate::FlagRules;

/// Once may happen.
const TIMEOUTS: u32 = 2;

pub(super) fn flags(stored: &Stored, now: Timestamp, rules: FlagRules) -> Vec<String> {
    let Stored { sandbox, spec, policy, .. } = stored;
    let is_there = !sandbox.is_settled();
    let starts = matches!(sandbox.lease, Lease::Starting { .. } | Lease::LaunchWaiting { .. });
    let unhealthy = matches!(&sandbox.lease, Lease::Live(live) if matches!(live.health.verdict, Verdict::Unhealthy { .. }));
    let runs_long = |state: &ExecutionState| matches!(state, ExecutionState::Running { started_at, .. } if now.ms_since(*started_at) > rules.long_running_ms);
    let flags = [
        ("critical", spec.critical),
        // It ends with the process that made it.
        ("attached", policy.ends_with_owner && is_there),
        ("stuck", is_there && now.ms_since(sandbox.created_at) > rules.stuck_ms),
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
        Context, Execution, ExecutionId, ExecutionKind, ExecutionLimits, Fence, NodeId, PendingEffect,
        Policy, SandboxId, Spec, create,
    };
    use pinfold_store::Version;

    use super::*;

    const NOON: Timestamp = Timestamp(1_000_000_000);

    fn asked_for(spec: Spec) -> Stored {
        let policy = Policy { start_ms: 3_600_000, ..Policy::default() };
        let ctx = Context { now: NOON, node: NodeId(1), policy: &policy };
        let sandbox = create(SandboxId(1), ctx).sandbox;
        Stored { sandbox, spec: Arc::new(spec), policy: Arc::new(policy), version: Version(1) }
    }

    fn of_a_task() -> Stored {
        asked_for(Spec { task_id: Some("task_1".into()), ..Spec::default() })
    }

    fn told(stored: &Stored, now: Timestamp) -> Vec<String> {
        flags(stored, now, FlagRules::default())
    }

    fn at_work_since(started_at: Timestamp) -> Stored {
        let mut stored = of_a_task();
        let watch = PendingEffect {
            ticket: Fence(1),
            by: NodeId(1),
            asked_at: NOON,
            deadline: NOON.after_ms(3_600_000),
        };
        stored.sandbox.executions.push(Execution {
            id: ExecutionId(1),
            kind: ExecutionKind::Run,
            limits: ExecutionLimits::default(),
            asked_at: NOON,
            state: ExecutionState::Running { started_at, quiet_by: None, watch },
            attempts: Vec::new(),
        });
        stored
    }

    #[test]
    fn a_new_sandbox_of_a_task_has_no_flag() {
        assert_eq!(told(&of_a_task(), NOON), [""; 0]);
    }

    #[test]
    fn one_that_is_older_than_ten_minutes_is_stuck() {
        let stored = of_a_task();

        assert_eq!(told(&stored, NOON.after_ms(600_000)), [""; 0]);
        assert_eq!(told(&stored, NOON.after_ms(600_001)), ["stuck"]);
    }

    #[test]
    fn one_in_which_something_has_run_for_more_than_five_minutes_is_long_running() {
        let stored = at_work_since(NOON.after_ms(60_000));

        assert_eq!(told(&stored, NOON.after_ms(360_000)), [""; 0]);
        assert_eq!(told(&stored, NOON.after_ms(360_001)), ["long_running"]);
    }

    #[test]
    fn how_long_is_too_long_can_be_decided_otherwise() {
        let rules = FlagRules { stuck_ms: 2_000, long_running_ms: 1_000 };
        let stored = at_work_since(NOON);

        assert_eq!(flags(&stored, NOON.after_ms(1_001), rules), ["long_running"]);
        assert_eq!(flags(&stored, NOON.after_ms(2_001), rules), ["stuck", "long_running"]);
    }

    #[test]
    fn one_whose_start_is_overdue_is_late() {
        let mut stored = of_a_task();
        stored.sandbox.start_by = NOON.after_ms(1_000);

        assert_eq!(told(&stored, NOON.after_ms(1_001)), ["late_start"]);
    }

    #[test]
    fn one_that_belongs_to_no_task_and_no_agent_is_unattributed() {
        let of_an_agent = asked_for(Spec { agent_type: Some("VALIDATION".into()), ..Spec::default() });

        assert_eq!(told(&asked_for(Spec::default()), NOON), ["unattributed"]);
        assert_eq!(told(&of_an_agent, NOON), [""; 0]);
    }

    #[test]
    fn one_whose_work_took_too_long_again_and_again_is_told() {
        let mut stored = of_a_task();
        stored.sandbox.timeouts = 1;
        let once = told(&stored, NOON);
        stored.sandbox.timeouts = 2;

        assert_eq!((once, told(&stored, NOON)), (vec![], vec!["repeated_timeouts".to_owned()]));
    }
}
