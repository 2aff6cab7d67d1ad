//! The definition of a stuck sandbox, for metrics and alerts. Age alone does not count.

use pinfold_lifecycle::{Lease, Sandbox, Timestamp};

/// Grace after a deadline before a sandbox counts as stuck, so that a busy machine raises no alarm.
const LATE_MS: u64 = 30_000;

/// True if the sandbox is past one of its deadlines, or the first stop attempt failed.
pub(crate) fn is_stuck(sandbox: &Sandbox, now: Timestamp) -> bool {
    let is_late = |due: Timestamp| now.ms_since(due) > LATE_MS;
    match &sandbox.lease {
        Lease::StopWaiting { .. } | Lease::Quarantined { .. } => true,
        // Also during the next attempt: the sandbox does not recover in between.
        Lease::Stopping { attempt, .. } if *attempt > 1 => true,
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
        Cause, Context, Event, Generation, NodeId, Policy, Request, SandboxId, create, quarantine_unreadable,
        request, step,
    };

    use super::*;

    const NOON: Timestamp = Timestamp(1_000_000_000);

    fn context(policy: &Policy) -> Context<'_> {
        Context { now: NOON, node: NodeId(1), policy }
    }

    #[test]
    fn a_sandbox_is_stuck_past_its_deadline_and_not_by_age() {
        let policy = Policy::default();
        let sandbox = create(SandboxId(1), context(&policy)).sandbox;
        let deadline = sandbox.next_deadline().unwrap();

        assert!(!is_stuck(&sandbox, deadline.after_ms(LATE_MS)));
        assert!(is_stuck(&sandbox, deadline.after_ms(LATE_MS + 1)));
        let later = Context { now: deadline, ..context(&policy) };
        let handled = step(&sandbox, Event::TimePassed, later).sandbox;
        assert!(!is_stuck(&handled, deadline.after_ms(LATE_MS + 1)));
    }

    #[test]
    fn a_sandbox_stays_stuck_after_a_failed_stop_attempt() {
        let policy = Policy { stop_backoff_ms: vec![1_000], ..Policy::default() };
        let at = |ms| Context { now: NOON.after_ms(ms), ..context(&policy) };
        let sandbox = create(SandboxId(1), at(0)).sandbox;
        let stop = Request::Stop { cause: Cause::StoppedByUser, grace_ms: None };

        let first = request(&sandbox, stop, at(0)).unwrap().sandbox;
        let deadline_ms = first.next_deadline().unwrap().ms_since(NOON);
        let between = step(&first, Event::TimePassed, at(deadline_ms)).sandbox;
        let second = step(&between, Event::TimePassed, at(deadline_ms + 1_000)).sandbox;

        let stuck = [(&first, 0), (&between, deadline_ms), (&second, deadline_ms + 1_000)]
            .map(|(sandbox, ms)| is_stuck(sandbox, NOON.after_ms(ms)));
        assert_eq!(stuck, [false, true, true]);
        assert!(matches!(second.lease, Lease::Stopping { attempt: 2, .. }), "{:?}", second.lease);
    }

    #[test]
    fn a_quarantined_sandbox_is_stuck_at_once() {
        let policy = Policy::default();

        let row = quarantine_unreadable(SandboxId(1), Generation(1), "torn".into(), context(&policy));

        assert!(is_stuck(&row.sandbox, NOON));
    }
}
