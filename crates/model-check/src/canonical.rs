//! Canonical form of a state: fences are renumbered by their order, and times that no decision reads are cleared.
//! States that differ only in these become equal, which makes the state space about ten times smaller.

use pinfold_lifecycle::{
    Attempt, Effect, Event, Execution, ExecutionState, Fence, Lease, Life, PendingEffect, Sandbox, StartStep,
    Timestamp,
};

use crate::World;
use crate::world::{Decision, Row, Stage, Trigger};

impl World {
    pub(crate) fn canonicalize(&mut self) {
        for slot in (0u8..).take(self.rows.len()) {
            self.keep_oldest_stale_result(slot);
            self.clear_unread_probes(slot);
            self.renumber_fences(slot);
        }
        for row in &mut self.rows {
            if let Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } = row {
                clear_unread_times(sandbox);
            }
        }
        for run in &mut self.effect_runs {
            run.effect.pending.deadline = Timestamp::default();
            run.effect.pending.requested_at = Timestamp::default();
        }
    }

    /// Of the results that no state awaits, only the oldest is kept. The others count as lost.
    fn keep_oldest_stale_result(&mut self, slot: u8) {
        let awaited: Vec<Fence> = self.rows[usize::from(slot)].sandbox().map_or(Vec::new(), |sandbox| {
            sandbox.effects().iter().map(|effect| effect.pending.fence).collect()
        });
        let mut kept = false;
        self.effect_runs.retain(|run| {
            let stale = run.slot == slot
                && matches!(run.stage, Stage::Completed(_))
                && !awaited.contains(&run.effect.pending.fence);
            let keep = !stale || !kept;
            kept |= stale;
            keep
        });
    }

    fn clear_unread_probes(&mut self, slot: u8) {
        let slot = usize::from(slot);
        let matters = self.rows[slot].sandbox().is_some_and(|sandbox| {
            matches!(sandbox.lease, Lease::Live(_) | Lease::Starting { step: StartStep::Probe, .. })
        });
        if !matters {
            self.memory[slot].probed = None;
        }
    }

    fn renumber_fences(&mut self, slot: u8) {
        let mut known: Vec<Fence> = Vec::new();
        self.for_each_fence(slot, &mut |fence| known.push(*fence));
        known.sort_unstable();
        known.dedup();
        self.for_each_fence(slot, &mut |fence| {
            *fence = Fence(known.partition_point(|other| *other <= *fence) as u64);
        });
    }

    fn for_each_fence(&mut self, slot: u8, visit: &mut impl FnMut(&mut Fence)) {
        if let Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } =
            &mut self.rows[usize::from(slot)]
        {
            for_each_in_sandbox(sandbox, visit);
        }
        for run in self.effect_runs.iter_mut().filter(|run| run.slot == slot) {
            visit(&mut run.effect.pending.fence);
            if let Stage::Completed(event) = &mut run.stage {
                for_each_in_event(event, visit);
            }
        }
        for instance in self.instances.iter_mut().filter(|instance| instance.slot == slot) {
            visit(&mut instance.fence);
        }
        let uncommitted = self.planes.iter_mut().filter_map(|plane| plane.uncommitted.as_deref_mut());
        for decision in uncommitted.filter(|decision| decision.slot == slot) {
            for_each_in_decision(decision, visit);
        }
    }
}

fn for_each_in_decision(decision: &mut Decision, visit: &mut impl FnMut(&mut Fence)) {
    for_each_in_sandbox(&mut decision.after, visit);
    for Effect { pending, .. } in &mut decision.effects {
        visit(&mut pending.fence);
    }
    if let Trigger::Completed { event, fence } = &mut decision.trigger {
        for_each_in_event(event, visit);
        visit(fence);
    }
}

fn for_each_in_sandbox(sandbox: &mut Sandbox, visit: &mut impl FnMut(&mut Fence)) {
    visit(&mut sandbox.last_fence);
    for_each_pending(sandbox, &mut |pending, _| visit(&mut pending.fence));
}

/// Whether the result of a pending effect depends on the time of its request.
#[derive(PartialEq, Eq)]
enum ResultUse {
    ProvesReadiness,
    Informs,
}

fn for_each_pending(sandbox: &mut Sandbox, visit: &mut impl FnMut(&mut PendingEffect, ResultUse)) {
    match &mut sandbox.lease {
        Lease::Starting { step: StartStep::Probe, pending, .. } => visit(pending, ResultUse::ProvesReadiness),
        Lease::Starting { pending, .. } | Lease::Stopping { pending, .. } => {
            visit(pending, ResultUse::Informs)
        }
        Lease::Live(live) => {
            if let Some(check) = &mut live.check {
                visit(&mut check.pending, ResultUse::ProvesReadiness);
            }
            if let Some(extension) = &mut live.extension {
                visit(&mut extension.pending, ResultUse::Informs);
            }
        }
        Lease::Quarantined { pending, .. } => {
            if let Some(pending) = pending {
                visit(pending, ResultUse::Informs);
            }
        }
        Lease::Free { .. } | Lease::LaunchWaiting { .. } | Lease::StopWaiting { .. } => {}
    }
    for Execution { state, .. } in &mut sandbox.executions {
        match state {
            ExecutionState::Preparing { pending }
            | ExecutionState::Starting { pending }
            | ExecutionState::Ending { kill: Some(pending), .. }
            | ExecutionState::Collecting { pending, .. } => visit(pending, ResultUse::Informs),
            ExecutionState::Running { watch, .. } => visit(watch, ResultUse::Informs),
            ExecutionState::Queued { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { kill: None, .. }
            | ExecutionState::Ended { .. } => {}
        }
    }
}

fn for_each_in_event(event: &mut Event, visit: &mut impl FnMut(&mut Fence)) {
    match event {
        Event::Launched { fence }
        | Event::LaunchFailed { fence, .. }
        | Event::Probed { fence, .. }
        | Event::Observed { fence, .. }
        | Event::Stopped { fence, .. }
        | Event::Extended { fence }
        | Event::ExtendFailed { fence, .. }
        | Event::ExecutionStarted { fence, .. }
        | Event::ExecutionRefused { fence, .. }
        | Event::ExecutionEnded { fence, .. }
        | Event::ExecutionGone { fence, .. }
        | Event::FilesPut { fence, .. }
        | Event::Collected { fence, .. } => visit(fence),
        Event::Doubted { .. } | Event::Disagreed { .. } | Event::TimePassed => {}
    }
}

/// Clears times that no decision reads.
fn clear_unread_times(sandbox: &mut Sandbox) {
    let long_ago = Timestamp::default();
    sandbox.end_reason = None;
    for_each_pending(sandbox, &mut |pending, answer| {
        if answer == ResultUse::Informs {
            pending.requested_at = long_ago;
        }
    });
    match &mut sandbox.life {
        Life::Wanted => {}
        Life::Ending { requested_at: asked_at, .. } => *asked_at = long_ago,
        Life::Ended { at, receipt, .. } => {
            *at = long_ago;
            receipt.verified_at = long_ago;
        }
    }
    if let Lease::Quarantined { since, .. } = &mut sandbox.lease {
        *since = long_ago;
    }
    for execution in &mut sandbox.executions {
        execution.requested_at = long_ago;
        if let ExecutionState::Running { started_at, .. } = &mut execution.state {
            *started_at = long_ago;
        }
        for Attempt { started_at, end, receipt, .. } in &mut execution.attempts {
            *started_at = started_at.map(|_| long_ago);
            if let Some(end) = end {
                end.at = long_ago;
            }
            if let Some(receipt) = receipt {
                receipt.verified_at = long_ago;
            }
        }
    }
}
