//! Adoption: a live node takes over the sandboxes and pending effects of a dead one. Effects are issued again under
//! new fences, and instances are observed before they are trusted.

use crate::transition::TransitionBuilder;
use crate::{
    Cause, CheckKind, Execution, ExecutionState, Extension, Fact, Lease, NodeId, PendingEffect, StartStep,
};

impl TransitionBuilder<'_> {
    pub(crate) fn adopt(&mut self, dead: NodeId, rebooted: bool) {
        let owned = self.sandbox.owner == dead;
        if !owned && !self.sandbox.effects().iter().any(|effect| effect.pending.node == dead) {
            return;
        }
        if owned {
            self.sandbox.owner = self.node();
        }
        self.sandbox.rebooted |= rebooted;
        self.record(Fact::Adopted { from: dead });
        // In this order: an observation only judges executions whose watch began before it.
        self.adopt_executions(dead);
        self.adopt_extension(dead);
        self.adopt_lease(dead, owned);
        if owned && self.policy.ends_with_owner {
            self.end(Cause::CallerGone, true);
        }
    }

    fn adopt_lease(&mut self, dead: NodeId, owned: bool) {
        match &self.sandbox.lease {
            // It is not known how far the launch came. A new fence voids the old one, so the dead node's launch is no
            // longer permitted to create anything.
            Lease::Starting { step: StartStep::Launch | StartStep::Identify, pending, .. }
                if pending.node == dead =>
            {
                self.verify_start(StartStep::Identify);
            }
            Lease::Starting { step: StartStep::Probe, pending, .. } if pending.node == dead => {
                self.verify_start(StartStep::Probe);
            }
            Lease::Live(live) if owned || live.check.is_some_and(|check| check.pending.node == dead) => {
                self.check(CheckKind::Observe);
            }
            Lease::Stopping { generation, attempt, forced, pending } if pending.node == dead => {
                let (generation, attempt, forced, deadline) =
                    (*generation, *attempt, *forced, pending.deadline);
                let pending = self.begin_effect_until(deadline);
                self.sandbox.lease = Lease::Stopping { generation, attempt, forced, pending };
            }
            Lease::Quarantined { pending: Some(pending), .. } if pending.node == dead => {
                let again = self.begin_effect_for(self.policy.probe_ms);
                if let Lease::Quarantined { pending, .. } = &mut self.sandbox.lease {
                    *pending = Some(again);
                }
            }
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Live(_)
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => {}
        }
    }

    fn adopt_extension(&mut self, dead: NodeId) {
        let left =
            self.live().and_then(|live| live.extension).filter(|extension| extension.pending.node == dead);
        if let Some(Extension { pending, blocks_executions: holds_work }) = left {
            let again = self.begin_effect_until(pending.deadline);
            if let Some(live) = self.live() {
                live.extension = Some(Extension { pending: again, blocks_executions: holds_work });
            }
        }
    }

    fn adopt_executions(&mut self, dead: NodeId) {
        for index in 0..self.sandbox.executions.len() {
            if let Some(deadline) = pending_deadline(&self.sandbox.executions[index], dead) {
                // A repeated collection starts from the beginning.
                let deadline = match self.sandbox.executions[index].state {
                    ExecutionState::Collecting { .. } => {
                        deadline.max(self.now.after_ms(self.policy.collect_after_kill_ms))
                    }
                    _ => deadline,
                };
                let again = self.begin_effect_until(deadline);
                replace_pending(&mut self.sandbox.executions[index], again);
            }
        }
    }
}

/// The deadline of the effect that the dead node was running for this execution.
fn pending_deadline(execution: &Execution, dead: NodeId) -> Option<crate::Timestamp> {
    let pending = match &execution.state {
        ExecutionState::Preparing { pending }
        | ExecutionState::Starting { pending }
        | ExecutionState::Ending { kill: Some(pending), .. }
        | ExecutionState::Collecting { pending, .. } => pending,
        ExecutionState::Running { watch, .. } => watch,
        ExecutionState::Queued { .. }
        | ExecutionState::Interrupted
        | ExecutionState::Ending { kill: None, .. }
        | ExecutionState::Ended { .. } => {
            return None;
        }
    };
    (pending.node == dead).then_some(pending.deadline)
}

fn replace_pending(execution: &mut Execution, again: PendingEffect) {
    match &mut execution.state {
        ExecutionState::Preparing { pending }
        | ExecutionState::Starting { pending }
        | ExecutionState::Ending { kill: Some(pending), .. }
        | ExecutionState::Collecting { pending, .. } => *pending = again,
        ExecutionState::Running { watch, .. } => *watch = again,
        ExecutionState::Queued { .. }
        | ExecutionState::Interrupted
        | ExecutionState::Ending { kill: None, .. }
        | ExecutionState::Ended { .. } => {}
    }
}
