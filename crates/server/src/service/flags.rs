//! What somebody who looks over a list of sandboxes should not miss. `docs/api.md` says what each flag means.

use pinfold_lifecycle::{ExecutionState, Lease, Timestamp, Verdict};
use pinfold_store::Stored;

/// Most work is done by then.
const OLD_MS: u64 = 10 * 60_000;
/// Most runs are over by then.
const LONG_RUN_MS: u64 = 5 * 60_000;
/// Once may happen.
const TIMEOUTS: u32 = 2;

pub(super) fn flags(stored: &Stored, now: Timestamp) -> Vec<String> {
    let Stored { sandbox, spec, policy, .. } = stored;
    let is_there = !sandbox.is_settled();
    let starts = matches!(sandbox.lease, Lease::Starting { .. } | Lease::LaunchWaiting { .. });
    let unhealthy = matches!(&sandbox.lease, Lease::Live(live) if matches!(live.health.verdict, Verdict::Unhealthy { .. }));
    let runs_long = |state: &ExecutionState| matches!(state, ExecutionState::Running { started_at, .. } if now.ms_since(*started_at) > LONG_RUN_MS);
    let flags = [
        ("critical", spec.critical),
        // It ends with the process that made it.
        ("attached", policy.ends_with_owner && is_there),
        ("stuck", is_there && now.ms_since(sandbox.created_at) > OLD_MS),
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

    use pinfold_lifecycle::{Context, NodeId, Policy, SandboxId, Spec, create};
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

    #[test]
    fn a_new_sandbox_of_a_task_has_no_flag() {
        assert_eq!(flags(&of_a_task(), NOON), [""; 0]);
    }

    #[test]
    fn one_that_is_older_than_ten_minutes_is_stuck() {
        let stored = of_a_task();

        assert_eq!(flags(&stored, NOON.after_ms(600_000)), [""; 0]);
        assert_eq!(flags(&stored, NOON.after_ms(600_001)), ["stuck"]);
    }

    #[test]
    fn one_whose_start_is_overdue_is_late() {
        let mut stored = of_a_task();
        stored.sandbox.start_by = NOON.after_ms(1_000);

        assert_eq!(flags(&stored, NOON.after_ms(1_001)), ["late_start"]);
    }

    #[test]
    fn one_that_belongs_to_no_task_and_no_agent_is_unattributed() {
        let of_an_agent = asked_for(Spec { agent_type: Some("VALIDATION".into()), ..Spec::default() });

        assert_eq!(flags(&asked_for(Spec::default()), NOON), ["unattributed"]);
        assert_eq!(flags(&of_an_agent, NOON), [""; 0]);
    }

    #[test]
    fn one_whose_work_took_too_long_again_and_again_is_told() {
        let mut stored = of_a_task();
        stored.sandbox.timeouts = 1;
        let once = flags(&stored, NOON);
        stored.sandbox.timeouts = 2;

        assert_eq!((once, flags(&stored, NOON)), (vec![], vec!["repeated_timeouts".to_owned()]));
    }
}
