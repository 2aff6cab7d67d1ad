//! Invariants of every stored sandbox and of every transition. The model checker, the simulator and the tests check
//! them; the product does not.

use std::collections::BTreeSet;

use crate::{Execution, ExecutionKind, ExecutionState, Lease, Life, Policy, Sandbox};

/// Returns the first invariant that this sandbox violates.
#[must_use]
pub fn violated(sandbox: &Sandbox, policy: &Policy) -> Option<&'static str> {
    let wanted = matches!(sandbox.life, Life::Wanted);
    let ended = matches!(sandbox.life, Life::Ended { .. });
    if !sandbox.is_settled() && sandbox.next_deadline().is_none() {
        return Some("no wait without a deadline: it is not settled and nothing is due");
    }
    if sandbox.lease.is_free() && !ended {
        return Some("intent first: a free lease under a sandbox that has not ended");
    }
    if !wanted
        && matches!(sandbox.lease, Lease::Starting { .. } | Lease::Live(_) | Lease::LaunchWaiting { .. })
    {
        return Some("stop wins: the end is decided but the instance is not being stopped");
    }
    if sandbox.lease.is_free() && !sandbox.executions.is_empty() {
        return Some("no execution outlives its instance");
    }
    if !sandbox.lease.may_have_instance() && sandbox.executions.iter().any(Execution::is_on_instance) {
        return Some("no execution outlives its instance");
    }
    let interrupted = sandbox.executions.iter().any(|e| matches!(e.state, ExecutionState::Interrupted));
    if interrupted && matches!(sandbox.lease, Lease::Starting { .. } | Lease::Live(_)) {
        return Some("one instance: an interrupted execution did not wait for the end of its instance");
    }
    let needs_live = |state: &ExecutionState| {
        matches!(state, ExecutionState::Preparing { .. } | ExecutionState::Collecting { .. })
    };
    if !matches!(sandbox.lease, Lease::Live(_)) && sandbox.executions.iter().any(|e| needs_live(&e.state)) {
        return Some("files are moved although the instance is not live");
    }
    if policy.recovery.is_some_and(|recovery| sandbox.launches > recovery.attempts) {
        return Some("retries are bounded: more launches than the policy allows");
    }
    if !wanted && sandbox.executions.iter().any(|e| !matches!(e.state, ExecutionState::Ending { .. })) {
        return Some("stop wins: an execution continues although the end is decided");
    }
    if sandbox.pooled.is_some() && !sandbox.executions.is_empty() {
        return Some("claimed once: a pooled instance has an execution");
    }
    if sandbox.executions.iter().any(|e| matches!(e.state, ExecutionState::Ended { .. })) {
        return Some("an ended execution is still in the sandbox");
    }
    let runs = sandbox.executions.iter().filter(|e| e.kind == ExecutionKind::Run && e.is_on_instance());
    if runs.count() > policy.max_concurrent as usize {
        return Some("limits hold together: too many executions side by side");
    }
    let fences: Vec<_> = sandbox.effects().iter().map(|effect| effect.pending.fence).collect();
    if fences.iter().collect::<BTreeSet<_>>().len() != fences.len() {
        return Some("two pending effects share a fence");
    }
    if fences.iter().any(|fence| *fence > sandbox.last_fence) {
        return Some("a fence was issued twice");
    }
    None
}

/// Returns the first invariant that the transition from `before` to `after` violates.
#[must_use]
pub fn violated_between(before: &Sandbox, after: &Sandbox) -> Option<&'static str> {
    let life_goes_back = match (&before.life, &after.life) {
        (Life::Ending { .. } | Life::Ended { .. }, Life::Wanted)
        | (Life::Ended { .. }, Life::Ending { .. }) => true,
        (Life::Wanted, _) | (Life::Ending { .. }, _) | (Life::Ended { .. }, Life::Ended { .. }) => false,
    };
    if life_goes_back {
        return Some("stop wins: an end was taken back");
    }
    if let (Some(first), Some(later)) = (cause(&before.life), cause(&after.life))
        && first != later
    {
        return Some("one cause of death: it was rewritten");
    }
    let rewritten = before.executions.iter().any(|was| {
        let now = after.executions.iter().find(|now| now.id == was.id);
        was.decided_outcome().is_some()
            && now.is_some_and(|now| now.decided_outcome() != was.decided_outcome())
    });
    if rewritten {
        return Some("an outcome is written once: a decided one was changed");
    }
    if before.pooled.is_none() && after.pooled.is_some() {
        return Some("claimed once: an instance went back to the pool");
    }
    if after.generation() < before.generation() {
        return Some("generations only increase");
    }
    if after.last_fence < before.last_fence {
        return Some("fences only increase");
    }
    if stop_attempts(&after.lease) < stop_attempts(&before.lease)
        && after.lease.may_have_instance()
        && after.generation() == before.generation()
    {
        return Some("again is safe: a repeated stop reset the backoff");
    }
    if after.generation() > before.generation()
        && before.strays == after.strays
        && !may_launch_from(&before.lease)
    {
        return Some("one instance: a launch did not wait for the proof of absence");
    }
    None
}

fn cause(life: &Life) -> Option<crate::Cause> {
    match life {
        Life::Wanted => None,
        Life::Ending { cause, .. } | Life::Ended { cause, .. } => Some(*cause),
    }
}

fn stop_attempts(lease: &Lease) -> u32 {
    match lease {
        Lease::Stopping { attempt, .. } => *attempt,
        Lease::StopWaiting { attempts, .. } | Lease::Quarantined { attempts, .. } => *attempts,
        Lease::Free { .. } | Lease::LaunchWaiting { .. } | Lease::Starting { .. } | Lease::Live(_) => 0,
    }
}

/// From these states, proof of absence and the next launch are one transition.
fn may_launch_from(lease: &Lease) -> bool {
    !lease.may_have_instance()
        || matches!(lease, Lease::Stopping { .. } | Lease::Quarantined { .. })
        || matches!(lease, Lease::Starting { step: crate::StartStep::Identify, .. })
}
