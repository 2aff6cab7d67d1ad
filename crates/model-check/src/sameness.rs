//! Worlds that differ only in what nothing reads are one world: tickets count by their order alone, and some
//! times are written for people. Without this the spaces would be some ten times larger.

use pinfold_lifecycle::{
    Attempt, Effect, Event, Execution, ExecutionState, Fence, Lease, Life, PendingEffect, Sandbox, StartStep,
    Timestamp,
};

use crate::World;
use crate::world::{Decision, Row, Stage, Trigger};

impl World {
    pub(crate) fn leave_out_what_nothing_reads(&mut self) {
        for place in (0u8..).take(self.rows.len()) {
            self.forget_old_answers(place);
            self.forget_old_probes(place);
            self.number_tickets_by_order(place);
        }
        for row in &mut self.rows {
            if let Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } = row {
                blur_times(sandbox);
            }
        }
        for job in &mut self.jobs {
            job.effect.duty.deadline = Timestamp::default();
            job.effect.duty.asked_at = Timestamp::default();
        }
    }

    /// Of the answers that nobody waits for, the oldest is kept: the others count as lost.
    fn forget_old_answers(&mut self, place: u8) {
        let awaited: Vec<Fence> = self.rows[usize::from(place)].sandbox().map_or(Vec::new(), |sandbox| {
            sandbox.effects().iter().map(|effect| effect.duty.ticket).collect()
        });
        let mut kept = false;
        self.jobs.retain(|job| {
            let stale = job.place == place
                && matches!(job.stage, Stage::Answered(_))
                && !awaited.contains(&job.effect.duty.ticket);
            let keep = !stale || !kept;
            kept |= stale;
            keep
        });
    }

    fn forget_old_probes(&mut self, place: u8) {
        let place = usize::from(place);
        let matters = self.rows[place].sandbox().is_some_and(|sandbox| {
            matches!(sandbox.lease, Lease::Live(_) | Lease::Starting { step: StartStep::Probe, .. })
        });
        if !matters {
            self.memory[place].probed = None;
        }
    }

    fn number_tickets_by_order(&mut self, place: u8) {
        let mut known: Vec<Fence> = Vec::new();
        self.each_ticket(place, &mut |ticket| known.push(*ticket));
        known.sort_unstable();
        known.dedup();
        self.each_ticket(place, &mut |ticket| {
            *ticket = Fence(known.partition_point(|other| *other <= *ticket) as u64);
        });
    }

    fn each_ticket(&mut self, place: u8, visit: &mut impl FnMut(&mut Fence)) {
        if let Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } =
            &mut self.rows[usize::from(place)]
        {
            each_of_sandbox(sandbox, visit);
        }
        for job in self.jobs.iter_mut().filter(|job| job.place == place) {
            visit(&mut job.effect.duty.ticket);
            if let Stage::Answered(event) = &mut job.stage {
                each_of_event(event, visit);
            }
        }
        for thing in self.things.iter_mut().filter(|thing| thing.place == place) {
            visit(&mut thing.ticket);
        }
        let held = self.planes.iter_mut().filter_map(|plane| plane.held.as_deref_mut());
        for decision in held.filter(|decision| decision.place == place) {
            each_of_decision(decision, visit);
        }
    }
}

fn each_of_decision(decision: &mut Decision, visit: &mut impl FnMut(&mut Fence)) {
    each_of_sandbox(&mut decision.after, visit);
    for Effect { duty, .. } in &mut decision.effects {
        visit(&mut duty.ticket);
    }
    if let Trigger::Answered { event, ticket } = &mut decision.trigger {
        each_of_event(event, visit);
        visit(ticket);
    }
}

fn each_of_sandbox(sandbox: &mut Sandbox, visit: &mut impl FnMut(&mut Fence)) {
    visit(&mut sandbox.last_ticket);
    each_duty(sandbox, &mut |duty, _| visit(&mut duty.ticket));
}

/// Whether an answer to this duty counts from when it was asked for.
#[derive(PartialEq, Eq)]
enum Answer {
    Proves,
    Tells,
}

fn each_duty(sandbox: &mut Sandbox, visit: &mut impl FnMut(&mut PendingEffect, Answer)) {
    match &mut sandbox.lease {
        Lease::Starting { step: StartStep::Probe, duty, .. } => visit(duty, Answer::Proves),
        Lease::Starting { duty, .. } | Lease::Stopping { duty, .. } => visit(duty, Answer::Tells),
        Lease::Live(live) => {
            if let Some(check) = &mut live.check {
                visit(&mut check.duty, Answer::Proves);
            }
            if let Some(extension) = &mut live.extension {
                visit(&mut extension.duty, Answer::Tells);
            }
        }
        Lease::Quarantined { look, .. } => {
            if let Some(duty) = look {
                visit(duty, Answer::Tells);
            }
        }
        Lease::Free { .. } | Lease::LaunchWaiting { .. } | Lease::StopWaiting { .. } => {}
    }
    for Execution { state, .. } in &mut sandbox.executions {
        match state {
            ExecutionState::Starting { duty } | ExecutionState::Ending { kill: Some(duty), .. } => {
                visit(duty, Answer::Tells);
            }
            ExecutionState::Running { watch, .. } => visit(watch, Answer::Tells),
            ExecutionState::Queued { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { kill: None, .. }
            | ExecutionState::Ended { .. } => {}
        }
    }
}

fn each_of_event(event: &mut Event, visit: &mut impl FnMut(&mut Fence)) {
    match event {
        Event::Launched { ticket }
        | Event::LaunchFailed { ticket, .. }
        | Event::Probed { ticket, .. }
        | Event::Looked { ticket, .. }
        | Event::Stopped { ticket, .. }
        | Event::Extended { ticket }
        | Event::ExtendFailed { ticket, .. }
        | Event::ExecutionStarted { ticket, .. }
        | Event::ExecutionRefused { ticket, .. }
        | Event::ExecutionEnded { ticket, .. }
        | Event::ExecutionGone { ticket, .. } => visit(ticket),
        Event::Doubted { .. } | Event::Disagreed { .. } | Event::TimePassed => {}
    }
}

/// These say when something was, and no decision asks for them.
fn blur_times(sandbox: &mut Sandbox) {
    let long_ago = Timestamp::default();
    each_duty(sandbox, &mut |duty, answer| {
        if answer == Answer::Tells {
            duty.asked_at = long_ago;
        }
    });
    match &mut sandbox.life {
        Life::Wanted => {}
        Life::Ending { asked_at, .. } => *asked_at = long_ago,
        Life::Ended { at, receipt, .. } => {
            *at = long_ago;
            receipt.verified_at = long_ago;
        }
    }
    if let Lease::Quarantined { since, .. } = &mut sandbox.lease {
        *since = long_ago;
    }
    for execution in &mut sandbox.executions {
        execution.asked_at = long_ago;
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
