//! What a dead node left: its work is asked for again, and its bodies are looked at before they are trusted.

use crate::turn::Turn;
use crate::{
    Cause, CheckKind, Execution, ExecutionState, Extension, Fact, Lease, NodeId, PendingEffect, StartStep,
};

impl Turn<'_> {
    pub(crate) fn adopt(&mut self, dead: NodeId, rebooted: bool) {
        let owned = self.sandbox.owner == dead;
        if !owned && !self.sandbox.effects().iter().any(|effect| effect.duty.by == dead) {
            return;
        }
        if owned {
            self.sandbox.owner = self.node();
        }
        self.sandbox.rebooted |= rebooted;
        self.record(Fact::Adopted { from: dead });
        // In this order: a look only judges executions whose watch began before it.
        self.adopt_executions(dead);
        self.adopt_extension(dead);
        self.adopt_lease(dead, owned);
        if owned && self.policy.ends_with_owner {
            self.end(Cause::CallerGone, true);
        }
    }

    fn adopt_lease(&mut self, dead: NodeId, owned: bool) {
        match &self.sandbox.lease {
            // How far the launch came is not known, so its ticket is void: what it still makes is not permitted.
            Lease::Starting { step: StartStep::Launch | StartStep::Identify, duty, .. }
                if duty.by == dead =>
            {
                self.prove_start(StartStep::Identify);
            }
            Lease::Starting { step: StartStep::Probe, duty, .. } if duty.by == dead => {
                self.prove_start(StartStep::Probe);
            }
            Lease::Live(live) if owned || live.check.is_some_and(|check| check.duty.by == dead) => {
                self.check(CheckKind::Look);
            }
            Lease::Stopping { generation, attempt, forced, duty } if duty.by == dead => {
                let (generation, attempt, forced, deadline) = (*generation, *attempt, *forced, duty.deadline);
                let duty = self.duty_until(deadline);
                self.sandbox.lease = Lease::Stopping { generation, attempt, forced, duty };
            }
            Lease::Quarantined { look: Some(duty), .. } if duty.by == dead => {
                let again = self.duty_for(self.policy.probe_ms);
                if let Lease::Quarantined { look, .. } = &mut self.sandbox.lease {
                    *look = Some(again);
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
        let left = self.live().and_then(|live| live.extension).filter(|extension| extension.duty.by == dead);
        if let Some(Extension { duty, holds_work }) = left {
            let again = self.duty_until(duty.deadline);
            if let Some(live) = self.live() {
                live.extension = Some(Extension { duty: again, holds_work });
            }
        }
    }

    fn adopt_executions(&mut self, dead: NodeId) {
        for index in 0..self.sandbox.executions.len() {
            if let Some(deadline) = left_by(&self.sandbox.executions[index], dead) {
                let again = self.duty_until(deadline);
                replace_duty(&mut self.sandbox.executions[index], again);
            }
        }
    }
}

/// The deadline of the work that the dead node was doing for this execution.
fn left_by(execution: &Execution, dead: NodeId) -> Option<crate::Timestamp> {
    let duty = match &execution.state {
        ExecutionState::Starting { duty } | ExecutionState::Ending { kill: Some(duty), .. } => duty,
        ExecutionState::Running { watch, .. } => watch,
        ExecutionState::Queued { .. }
        | ExecutionState::Interrupted
        | ExecutionState::Ending { kill: None, .. }
        | ExecutionState::Ended { .. } => {
            return None;
        }
    };
    (duty.by == dead).then_some(duty.deadline)
}

fn replace_duty(execution: &mut Execution, again: PendingEffect) {
    match &mut execution.state {
        ExecutionState::Starting { duty } | ExecutionState::Ending { kill: Some(duty), .. } => *duty = again,
        ExecutionState::Running { watch, .. } => *watch = again,
        ExecutionState::Queued { .. }
        | ExecutionState::Interrupted
        | ExecutionState::Ending { kill: None, .. }
        | ExecutionState::Ended { .. } => {}
    }
}
