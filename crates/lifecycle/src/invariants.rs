//! What must hold of every stored sandbox and of every step between two of them. The model checker, the
//! simulator and the tests all ask here; the program itself does not.

use std::collections::BTreeSet;

use crate::{Execution, ExecutionKind, ExecutionState, Lease, Life, Policy, Sandbox};

/// The first rule that this sandbox breaks.
#[must_use]
pub fn broken(sandbox: &Sandbox, policy: &Policy) -> Option<&'static str> {
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
        return Some("stop wins: the end is decided and the body is not being stopped");
    }
    if sandbox.lease.is_free() && !sandbox.executions.is_empty() {
        return Some("an execution outlives the body");
    }
    if !sandbox.lease.may_have_a_body() && sandbox.executions.iter().any(Execution::may_have_a_process) {
        return Some("an execution outlives the body");
    }
    let interrupted = sandbox.executions.iter().any(|e| matches!(e.state, ExecutionState::Interrupted));
    if interrupted && matches!(sandbox.lease, Lease::Starting { .. } | Lease::Live(_)) {
        return Some("one body: what another body interrupted did not wait for its end");
    }
    if policy.recovery.is_some_and(|recovery| sandbox.launches > recovery.tries) {
        return Some("tries are bounded: there were more than the policy allows");
    }
    if !wanted && sandbox.executions.iter().any(|e| !matches!(e.state, ExecutionState::Ending { .. })) {
        return Some("stop wins: an execution goes on although the end is decided");
    }
    if sandbox.pooled.is_some() && !sandbox.executions.is_empty() {
        return Some("given out once: an execution in a body that waits in the pool");
    }
    if sandbox.executions.iter().any(|e| matches!(e.state, ExecutionState::Ended { .. })) {
        return Some("an ended execution is still in the sandbox");
    }
    let runs = sandbox.executions.iter().filter(|e| e.kind == ExecutionKind::Run && e.may_have_a_process());
    if runs.count() > policy.side_by_side as usize {
        return Some("limits hold together: too many executions side by side");
    }
    let tickets: Vec<_> = sandbox.effects().iter().map(|effect| effect.duty.ticket).collect();
    if tickets.iter().collect::<BTreeSet<_>>().len() != tickets.len() {
        return Some("two pieces of work share a ticket");
    }
    if tickets.iter().any(|ticket| *ticket > sandbox.last_ticket) {
        return Some("a ticket was handed out twice");
    }
    None
}

/// The first rule that the step from one stored sandbox to the next breaks.
#[must_use]
pub fn broken_step(before: &Sandbox, after: &Sandbox) -> Option<&'static str> {
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
    if before.pooled.is_none() && after.pooled.is_some() {
        return Some("given out once: a body went back to the pool");
    }
    if after.generation() < before.generation() {
        return Some("a generation was used again");
    }
    if after.last_ticket < before.last_ticket {
        return Some("tickets only grow");
    }
    if stop_attempts(&after.lease) < stop_attempts(&before.lease)
        && after.lease.may_have_a_body()
        && after.generation() == before.generation()
    {
        return Some("again is safe: asking again reset the stop's backoff");
    }
    if after.generation() > before.generation()
        && before.strays == after.strays
        && !may_launch_from(&before.lease)
    {
        return Some("one body: a launch that did not wait for the proof of absence");
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

/// From these, proof of absence and the next launch are one step.
fn may_launch_from(lease: &Lease) -> bool {
    !lease.may_have_a_body()
        || matches!(lease, Lease::Stopping { .. } | Lease::Quarantined { .. })
        || matches!(lease, Lease::Starting { step: crate::StartStep::Identify, .. })
}
