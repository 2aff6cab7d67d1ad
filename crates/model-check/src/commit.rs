//! The commit of a decision: compare versions, write the row, update the totals, start the effects. The invariants
//! about transitions are checked here.

use pinfold_lifecycle::{
    Cause, EffectKind, Event, Evidence, ExecutionId, ExecutionState, Fence, InstanceObservation, Lease, Life,
    NodeId, OutcomeKind, ProcessObservation, Sandbox, StartStep, Timestamp, invariants,
};

use crate::world::{Decision, ProcessState, Row, Stage, Trigger};
use crate::{Flaw, Invariant, SmallModel, World};

impl SmallModel {
    pub(crate) fn commit_decision(&self, world: &mut World, plane: usize) {
        let Some(decision) = world.planes[plane].uncommitted.take() else {
            return;
        };
        let lands = self.flaw == Some(Flaw::CommitWithoutCompare)
            || world.rows[usize::from(decision.slot)].version() == decision.version;
        let admitted = decision.trigger != Trigger::Created
            || self.flaw == Some(Flaw::AdmitBeforeTransaction)
            || self.has_capacity(&world.totals);
        // A decision that is not committed is made again: its result is still undelivered, and its deadline is still
        // due.
        if lands && admitted {
            self.commit(world, plane, *decision);
        }
    }

    pub(crate) fn commit(&self, world: &mut World, plane: usize, decision: Decision) {
        let slot = usize::from(decision.slot);
        let before = match &world.rows[slot] {
            Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } => Some(sandbox.as_ref().clone()),
            Row::NotCreated | Row::Forgotten { .. } => None,
        };
        if let Trigger::Completed { fence, .. } = &decision.trigger {
            world.drop_result(decision.slot, *fence, world.planes[plane].node);
        }
        self.check_step(world, before.as_ref(), &decision);
        self.remember(world, before.as_ref(), &decision);
        if self.flaw != Some(Flaw::CountBeforeCommit) {
            update_totals(world, before.as_ref(), &decision.after);
        }
        if self.flaw != Some(Flaw::ActBeforeCommit) {
            for effect in &decision.effects {
                world.start_effect(decision.slot, effect.clone());
            }
        }
        write(world, before.as_ref(), decision, self.bounds.decides_apart);
        drop_unawaited_reads(world, slot);
    }

    fn check_step(&self, world: &mut World, before: Option<&Sandbox>, decision: &Decision) {
        let after = &decision.after;
        if decision.trigger == Trigger::TimePassed
            && after.next_deadline().is_some_and(|next| next <= self.time(decision.at))
        {
            world.violated.note(Invariant::NoWaitWithoutADeadline);
        }
        for execution in &decision.finished {
            let alive = world.instances.iter().any(|instance| {
                let process = usize::try_from(execution.id.0).map(|number| instance.processes[number]);
                instance.slot == decision.slot && matches!(process, Ok(ProcessState::Running { .. }))
            });
            let lost = execution.outcome().is_some_and(|outcome| outcome.kind == OutcomeKind::Lost);
            if lost && alive && decision.trigger != Trigger::Attested {
                world.violated.note(Invariant::RunningExecutionsAreNotLost);
            }
        }
        let Some(before) = before else { return };
        if decision.trigger == Trigger::Unreadable {
            if after.last_fence < before.last_fence {
                world.violated.note(Invariant::StaleAnswersChangeNothing);
            }
            return;
        }
        if let Some(rule) = invariants::violated_between(before, after) {
            world.violated.note(Invariant::of_rule(rule));
        }
        check_freeing(world, before, decision);
        self.check_pool(world, before, decision);
        if let Trigger::Completed { event, fence } = &decision.trigger {
            self.check_result(world, before, decision, event, *fence);
        }
        if decision.trigger == Trigger::StopRequested
            && stop_under_way(before).is_some()
            && stop_under_way(before) != stop_under_way(after)
            && !is_one_attempt_more(before, after)
        {
            world.violated.note(Invariant::AgainIsSafe);
        }
    }

    /// A pooled instance is claimed once and with a fresh probe, and only pooled instances are discarded.
    fn check_pool(&self, world: &mut World, before: &Sandbox, decision: &Decision) {
        let memory = &mut world.memory[usize::from(decision.slot)];
        match decision.trigger {
            Trigger::Claimed => {
                if std::mem::replace(&mut memory.claimed, true) {
                    world.violated.note(Invariant::ClaimedOnce);
                }
                let proven = memory.probed.is_some_and(|(generation, at)| {
                    let age = u64::from(decision.at - at);
                    generation == before.generation() && age <= self.policy.evidence_ms
                });
                if !proven {
                    world.violated.note(Invariant::ClaimNeedsFreshProbe);
                }
            }
            Trigger::Discarded if memory.claimed => world.violated.note(Invariant::StopAffectsOnlyItsTarget),
            _ => {}
        }
    }

    fn remember(&self, world: &mut World, before: Option<&Sandbox>, decision: &Decision) {
        let after = &decision.after;
        let memory = &mut world.memory[usize::from(decision.slot)];
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
            world.violated.note(Invariant::OneCauseOfDeath);
        } else {
            memory.cause = memory.cause.or(cause);
        }
        let decided = after.executions.iter().filter_map(|e| Some((e.id, e.decided_outcome()?)));
        let finished = decision.finished.iter().filter_map(|e| Some((e.id, e.outcome()?)));
        for (id, outcome) in finished.chain(decided) {
            let Some(known) = usize::try_from(id.0).ok().and_then(|number| memory.outcomes.get_mut(number))
            else {
                continue;
            };
            if known.is_some_and(|(kind, cause)| (kind, cause) != (outcome.kind, outcome.cause)) {
                world.violated.note(Invariant::OutcomeIsWrittenOnce);
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

    fn check_result(
        &self,
        world: &mut World,
        before: &Sandbox,
        decision: &Decision,
        event: &Event,
        fence: Fence,
    ) {
        let after = &decision.after;
        let awaited = before.effects().iter().any(|effect| effect.pending.fence == fence);
        // The proof that a process has ended holds for any fence, because the outcome is already decided.
        let proof = matches!(event, Event::ExecutionEnded { execution, .. } if before.executions.iter().any(|e| {
            e.id == *execution && matches!(e.state, ExecutionState::Ending { kill: Some(_), .. })
        }));
        if !awaited && !proof && before != after {
            world.violated.note(Invariant::StaleAnswersChangeNothing);
        }
        if let Event::ExecutionEnded { execution, .. } = event
            && awaited
            && after.executions.iter().any(|e| e.id == *execution && e.decided_outcome().is_none())
        {
            world.violated.note(Invariant::OutcomeIsWrittenOnce);
        }
        let Event::Observed { evidence: Evidence::Present(instances), .. } = event else {
            return;
        };
        let is_used = matches!(after.lease, Lease::Live(_) | Lease::Starting { step: StartStep::Probe, .. });
        if awaited && is_used && !is_exactly(before, instances) {
            world.violated.note(Invariant::OneInstance);
        }
        let works = instances
            .iter()
            .flat_map(|instance| &instance.executions)
            .any(|execution| matches!(execution.process, ProcessObservation::Running { .. }));
        let gave_up = matches!(after.life, Life::Ending { cause: Cause::StartDeadline, .. });
        if works
            && gave_up
            && !self.is_own_end(before, decision)
            && matches!(before.life, Life::Wanted)
            && matches!(before.lease, Lease::Live(_))
        {
            world.violated.note(Invariant::AcceptedWorkContinues);
        }
    }

    /// Whether a one-shot sandbox ends with its last execution, which was killed at its own start deadline after its
    /// process had been observed.
    fn is_own_end(&self, before: &Sandbox, decision: &Decision) -> bool {
        let decided = |id: ExecutionId| before.executions.iter().find(|e| e.id == id)?.decided_outcome();
        self.policy.one_shot
            && decision.after.executions.is_empty()
            && before.executions.iter().all(|e| e.decided_outcome().is_some())
            && decision
                .finished
                .last()
                .and_then(|last| decided(last.id))
                .is_some_and(|outcome| outcome.cause == Cause::StartDeadline)
    }
}

/// A lease that is freed or advances to the next generation has no instance budget.
fn check_freeing(world: &mut World, before: &Sandbox, decision: &Decision) {
    let freed = before.lease.may_have_instance()
        && (!decision.after.lease.may_have_instance() || decision.after.generation() > before.generation());
    let attested = decision.trigger == Trigger::Attested;
    let left =
        world.complete_instances(decision.slot).any(|instance| instance.generation <= before.generation());
    if freed && left && !attested {
        world.violated.note(Invariant::OnlyEvidenceFrees);
    }
}

fn is_exactly(leased: &Sandbox, instances: &[InstanceObservation]) -> bool {
    matches!(instances, [instance] if instance.whole && instance.generation == leased.generation())
}

/// The progress of a stop: its attempts, and when it continues.
fn stop_under_way(sandbox: &Sandbox) -> Option<(u32, Option<Timestamp>)> {
    match &sandbox.lease {
        Lease::Stopping { attempt, pending, .. } => Some((*attempt, Some(pending.deadline))),
        Lease::StopWaiting { attempts, next_at, .. } => Some((*attempts, Some(*next_at))),
        Lease::Quarantined { attempts, .. } => Some((*attempts, None)),
        Lease::Free { .. } | Lease::LaunchWaiting { .. } | Lease::Starting { .. } | Lease::Live(_) => None,
    }
}

/// In quarantine no stop is under way, so a forced stop may begin one.
fn is_one_attempt_more(before: &Sandbox, after: &Sandbox) -> bool {
    matches!(
        (&before.lease, &after.lease),
        (Lease::Quarantined { attempts, .. }, Lease::Stopping { attempt, forced: true, .. }) if attempt >= attempts
    )
}

pub(crate) fn update_totals(world: &mut World, before: Option<&Sandbox>, after: &Sandbox) {
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
    let row = &mut world.rows[usize::from(decision.slot)];
    let version = match row.version() {
        known if before == Some(&decision.after) && !matches!(row, Row::Unreadable { .. }) => known,
        // Versions matter only if a decision can be outdated when it is committed.
        known if counts_versions => known + 1,
        _ => 1,
    };
    *row = if decision.after.is_to_be_forgotten() {
        Row::Forgotten { version }
    } else {
        Row::Stored { sandbox: Box::new(decision.after), version }
    };
}

/// Drops effects that no state awaits and that change neither instances nor processes. They need not be explored
/// further.
fn drop_unawaited_reads(world: &mut World, slot: usize) {
    let awaited: Vec<(Fence, NodeId)> = world.rows[slot].sandbox().map_or(Vec::new(), |sandbox| {
        let effects = sandbox.effects().into_iter();
        effects.map(|e| (e.pending.fence, e.pending.node)).collect()
    });
    world.effect_runs.retain(|run| {
        let reads = matches!(
            run.effect.kind,
            EffectKind::Probe
                | EffectKind::Ping
                | EffectKind::Observe
                | EffectKind::Watch { .. }
                | EffectKind::PutFiles { .. }
                | EffectKind::Collect { .. }
        );
        let vain = usize::from(run.slot) == slot
            && reads
            && run.stage == Stage::Pending
            && !awaited.contains(&(run.effect.pending.fence, run.effect.pending.node));
        !vain
    });
}
