//! Which sandboxes count as stuck, for figures and for alerts alike. What is merely old is not.

use pinfold_lifecycle::{Lease, Sandbox, Timestamp};

/// What is due has this long to be done before it counts as stuck: a busy machine is no alarm.
const LATE_MS: u64 = 30_000;

/// Past a deadline of its own and nobody saw to it, or not proven gone by the first attempt.
pub(crate) fn is_stuck(sandbox: &Sandbox, now: Timestamp) -> bool {
    let is_late = |due: Timestamp| now.ms_since(due) > LATE_MS;
    match &sandbox.lease {
        Lease::StopWaiting { .. } | Lease::Quarantined { .. } => true,
        Lease::Starting { .. } if is_late(sandbox.start_by) => true,
        Lease::Free { .. }
        | Lease::LaunchWaiting { .. }
        | Lease::Starting { .. }
        | Lease::Live(_)
        | Lease::Stopping { .. } => sandbox.next_deadline().is_some_and(is_late),
    }
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{
        Context, Event, Generation, NodeId, Policy, SandboxId, create, quarantine_unreadable, step,
    };

    use super::*;

    const NOON: Timestamp = Timestamp(1_000_000_000);

    fn context(policy: &Policy) -> Context<'_> {
        Context { now: NOON, node: NodeId(1), policy }
    }

    #[test]
    fn what_is_past_a_deadline_of_its_own_is_stuck_and_what_is_merely_old_is_not() {
        let policy = Policy::default();
        let sandbox = create(SandboxId(1), context(&policy)).sandbox;
        let deadline = sandbox.next_deadline().unwrap();

        assert!(!is_stuck(&sandbox, deadline.after_ms(LATE_MS)));
        assert!(is_stuck(&sandbox, deadline.after_ms(LATE_MS + 1)));
        let later = Context { now: deadline, ..context(&policy) };
        let attended_to = step(&sandbox, Event::TimePassed, later).sandbox;
        assert!(!is_stuck(&attended_to, deadline.after_ms(LATE_MS + 1)));
    }

    #[test]
    fn what_is_in_quarantine_is_stuck_at_once() {
        let policy = Policy::default();

        let row = quarantine_unreadable(SandboxId(1), Generation(1), "torn".into(), context(&policy));

        assert!(is_stuck(&row.sandbox, NOON));
    }
}
