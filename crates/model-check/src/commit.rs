//! The transaction: compare, write, add up, hand out the work. Every promise about steps is checked here.

use pinfold_lifecycle::{
    BodySeen, Cause, EffectKind, Event, Evidence, ExecutionState, Fence, Lease, Life, NodeId, OutcomeKind,
    Sandbox, Seen, StartStep, Timestamp, invariants,
};

use crate::world::{Decision, Inside, Row, Stage, Trigger};
use crate::{Flaw, Promise, Small, World};

impl Small {
    pub(crate) fn commit_held(&self, world: &mut World, plane: usize) {
        let Some(decision) = world.planes[plane].held.take() else {
            return;
        };
        let lands = self.flaw == Some(Flaw::CommitWithoutCompare)
            || world.rows[usize::from(decision.place)].version() == decision.version;
        let admitted = decision.trigger != Trigger::Created
            || self.flaw == Some(Flaw::AdmitBeforeTransaction)
            || self.has_room(&world.totals);
        // What does not land is decided anew: an answer is still in hand, and what is due is still due.
        if lands && admitted {
            self.commit(world, plane, *decision);
        }
    }

    pub(crate) fn commit(&self, world: &mut World, plane: usize, decision: Decision) {
        let place = usize::from(decision.place);
        let before = match &world.rows[place] {
            Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } => Some(sandbox.as_ref().clone()),
            Row::Unborn | Row::Forgotten { .. } => None,
        };
        if let Trigger::Answered { ticket, .. } = &decision.trigger {
            world.drop_answer(decision.place, *ticket, world.planes[plane].node);
        }
        self.check_step(world, before.as_ref(), &decision);
        self.remember(world, before.as_ref(), &decision);
        if self.flaw != Some(Flaw::CountBeforeCommit) {
            add_up(world, before.as_ref(), &decision.after);
        }
        if self.flaw != Some(Flaw::ActBeforeCommit) {
            for effect in &decision.effects {
                world.add_job(decision.place, effect.clone());
            }
        }
        write(world, before.as_ref(), decision, self.bounds.decides_apart);
        drop_vain_reads(world, place);
    }

    fn check_step(&self, world: &mut World, before: Option<&Sandbox>, decision: &Decision) {
        let after = &decision.after;
        if decision.trigger == Trigger::TimePassed
            && after.next_deadline().is_some_and(|next| next <= self.time(decision.at))
        {
            world.broken.note(Promise::NoWaitWithoutADeadline);
        }
        for execution in &decision.finished {
            let alive = world.things.iter().any(|thing| {
                let inside = usize::try_from(execution.id.0).map(|number| thing.inside[number]);
                thing.place == decision.place && matches!(inside, Ok(Inside::Running { .. }))
            });
            let lost = execution.outcome().is_some_and(|outcome| outcome.kind == OutcomeKind::Lost);
            if lost && alive && decision.trigger != Trigger::Attested {
                world.broken.note(Promise::TheLivingAreNotLost);
            }
        }
        let Some(before) = before else { return };
        if decision.trigger == Trigger::Unreadable {
            if after.last_ticket < before.last_ticket {
                world.broken.note(Promise::StaleAnswersChangeNothing);
            }
            return;
        }
        if let Some(rule) = invariants::broken_step(before, after) {
            world.broken.note(Promise::that_says(rule));
        }
        check_freeing(world, before, decision);
        self.check_pool(world, before, decision);
        if let Trigger::Answered { event, ticket } = &decision.trigger {
            check_answer(world, before, after, event, *ticket);
        }
        if decision.trigger == Trigger::StopWished
            && stop_under_way(before).is_some()
            && stop_under_way(before) != stop_under_way(after)
            && !is_one_attempt_more(before, after)
        {
            world.broken.note(Promise::AgainIsSafe);
        }
    }

    /// What waits in the pool is given to one, proven; and only what waits is given up.
    fn check_pool(&self, world: &mut World, before: &Sandbox, decision: &Decision) {
        let memory = &mut world.memory[usize::from(decision.place)];
        match decision.trigger {
            Trigger::Claimed => {
                if std::mem::replace(&mut memory.given_out, true) {
                    world.broken.note(Promise::GivenOutOnce);
                }
                let proven = memory.probed.is_some_and(|(generation, at)| {
                    let age = u64::from(decision.at - at);
                    generation == before.generation() && age <= self.policy.evidence_ms
                });
                if !proven {
                    world.broken.note(Promise::GivenOutProven);
                }
            }
            Trigger::GivenUp if memory.given_out => world.broken.note(Promise::OnlyTheStoppedEnds),
            _ => {}
        }
    }

    fn remember(&self, world: &mut World, before: Option<&Sandbox>, decision: &Decision) {
        let after = &decision.after;
        let memory = &mut world.memory[usize::from(decision.place)];
        memory.leased_up_to = memory.leased_up_to.max(after.generation());
        if let (Trigger::Attested, Some(before)) = (&decision.trigger, before) {
            memory.attested_up_to = memory.attested_up_to.max(before.generation());
        }
        let cause = match after.life {
            Life::Wanted => None,
            Life::Ending { cause, .. } | Life::Ended { cause, .. } => Some(cause),
        };
        if before.is_none() || decision.trigger == Trigger::Unreadable {
            memory.cause = cause;
        } else if let (Some(first), Some(cause)) = (memory.cause, cause)
            && first != cause
        {
            world.broken.note(Promise::OneCauseOfDeath);
        } else {
            memory.cause = memory.cause.or(cause);
        }
        let decided = after.executions.iter().filter_map(|e| match &e.state {
            ExecutionState::Ending { outcome, .. } => Some((e.id, outcome)),
            _ => None,
        });
        let finished = decision.finished.iter().filter_map(|e| Some((e.id, e.outcome()?)));
        for (id, outcome) in finished.chain(decided) {
            let Some(known) = usize::try_from(id.0).ok().and_then(|number| memory.outcomes.get_mut(number))
            else {
                continue;
            };
            if known.is_some_and(|(kind, cause)| (kind, cause) != (outcome.kind, outcome.cause)) {
                world.broken.note(Promise::OutcomeIsWrittenOnce);
            }
            *known = known.or(Some((outcome.kind, outcome.cause)));
        }
        if !matches!(after.lease, Lease::Stopping { .. } | Lease::StopWaiting { .. })
            || before.is_none_or(|before| before.generation() != after.generation())
        {
            memory.stopping = 0;
        }
        for number in 0..memory.waiting.len() {
            if self.wait_limit(after, number).is_none() {
                memory.waiting[number] = 0;
            }
        }
    }
}

/// A lease that is freed, or passes on to the next generation, had no body left.
fn check_freeing(world: &mut World, before: &Sandbox, decision: &Decision) {
    let freed = before.lease.may_have_a_body()
        && (!decision.after.lease.may_have_a_body() || decision.after.generation() > before.generation());
    let attested = decision.trigger == Trigger::Attested;
    let left = world.bodies(decision.place).any(|body| body.generation <= before.generation());
    if freed && left && !attested {
        world.broken.note(Promise::OnlyEvidenceFrees);
    }
}

fn check_answer(world: &mut World, before: &Sandbox, after: &Sandbox, event: &Event, ticket: Fence) {
    let awaited = before.effects().iter().any(|effect| effect.duty.ticket == ticket);
    // That a process has ended is true whoever says it, and its outcome is decided already.
    let proof = matches!(event, Event::ExecutionEnded { execution, .. } if before.executions.iter().any(|e| {
        e.id == *execution && matches!(e.state, ExecutionState::Ending { kill: Some(_), .. })
    }));
    if !awaited && !proof && before != after {
        world.broken.note(Promise::StaleAnswersChangeNothing);
    }
    if let Event::ExecutionEnded { execution, .. } = event
        && awaited
        && after.executions.iter().any(|e| e.id == *execution)
    {
        world.broken.note(Promise::OutcomeIsWrittenOnce);
    }
    let Event::Looked { evidence: Evidence::Present(bodies), .. } = event else {
        return;
    };
    let is_used = matches!(after.lease, Lease::Live(_) | Lease::Starting { step: StartStep::Probe, .. });
    if awaited && is_used && !is_exactly(before, bodies) {
        world.broken.note(Promise::OneBody);
    }
    let works = bodies
        .iter()
        .flat_map(|body| &body.executions)
        .any(|execution| matches!(execution.seen, Seen::Running { .. }));
    let gave_up = matches!(after.life, Life::Ending { cause: Cause::StartDeadline, .. });
    if works && gave_up && matches!(before.life, Life::Wanted) && matches!(before.lease, Lease::Live(_)) {
        world.broken.note(Promise::AcceptedWorkGoesOn);
    }
}

fn is_exactly(leased: &Sandbox, bodies: &[BodySeen]) -> bool {
    matches!(bodies, [body] if body.whole && body.generation == leased.generation())
}

/// How far a stop has come: its attempts, and when it goes on.
fn stop_under_way(sandbox: &Sandbox) -> Option<(u32, Option<Timestamp>)> {
    match &sandbox.lease {
        Lease::Stopping { attempt, duty, .. } => Some((*attempt, Some(duty.deadline))),
        Lease::StopWaiting { attempts, next_at, .. } => Some((*attempts, Some(*next_at))),
        Lease::Quarantined { attempts, .. } => Some((*attempts, None)),
        Lease::Free { .. } | Lease::LaunchWaiting { .. } | Lease::Starting { .. } | Lease::Live(_) => None,
    }
}

/// Of what is quarantined nothing is under way, and whoever insists begins.
fn is_one_attempt_more(before: &Sandbox, after: &Sandbox) -> bool {
    matches!(
        (&before.lease, &after.lease),
        (Lease::Quarantined { attempts, .. }, Lease::Stopping { attempt, forced: true, .. }) if attempt >= attempts
    )
}

pub(crate) fn add_up(world: &mut World, before: Option<&Sandbox>, after: &Sandbox) {
    let (created, destroyed) = before.map_or((0, 0), Sandbox::created_and_destroyed);
    let (created_now, destroyed_now) = after.created_and_destroyed();
    let change = |sum: u8, from: u64, to: u64| {
        u8::try_from(u64::from(sum).wrapping_add(to).wrapping_sub(from)).unwrap_or(u8::MAX)
    };
    let in_pool = |sandbox: &Sandbox| u64::from(sandbox.is_in_pool());
    world.totals.pooled = change(world.totals.pooled, before.map_or(0, in_pool), in_pool(after));
    world.totals.created = change(world.totals.created, created, created_now);
    world.totals.destroyed = change(world.totals.destroyed, destroyed, destroyed_now);
}

fn write(world: &mut World, before: Option<&Sandbox>, decision: Decision, counts_versions: bool) {
    let row = &mut world.rows[usize::from(decision.place)];
    let version = match row.version() {
        known if before == Some(&decision.after) && !matches!(row, Row::Unreadable { .. }) => known,
        // Versions are told apart only where decisions may be old when they land.
        known if counts_versions => known + 1,
        _ => 1,
    };
    *row = if decision.after.is_to_be_forgotten() {
        Row::Forgotten { version }
    } else {
        Row::Stored { sandbox: Box::new(decision.after), version }
    };
}

/// Reading changes nothing, so a read that nobody waits for need not be followed any further.
fn drop_vain_reads(world: &mut World, place: usize) {
    let awaited: Vec<(Fence, NodeId)> = world.rows[place].sandbox().map_or(Vec::new(), |sandbox| {
        let effects = sandbox.effects().into_iter();
        effects.map(|e| (e.duty.ticket, e.duty.by)).collect()
    });
    world.jobs.retain(|job| {
        let reads = matches!(
            job.effect.work,
            EffectKind::Probe | EffectKind::Ping | EffectKind::Look | EffectKind::Watch { .. }
        );
        let vain = usize::from(job.place) == place
            && reads
            && job.stage == Stage::Due
            && !awaited.contains(&(job.effect.duty.ticket, job.effect.duty.by));
        !vain
    });
}
