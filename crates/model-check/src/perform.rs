//! The effect of each action on the state.

use pinfold_lifecycle::{
    AdmissionLimits, Cause, Context, Demand, Event, ExecutionKind, ExecutionLimits, ExecutionState,
    Generation, Lease, NodeId, Request, Sandbox, Shape, Totals, Transition, admit, create, create_pooled,
    lease_orphan, quarantine_unreadable, request, step,
};

use crate::commit::update_totals;
use crate::model::{execution_id, sandbox_id};
use crate::world::{Condition, Decision, EXECUTIONS, ProcessState, Row, Stage, StoreTotals, Trigger};
use crate::{Action, ExternalRequest, Flaw, Invariant, SmallModel, World};

impl SmallModel {
    pub(crate) fn perform(&self, world: &mut World, action: Action) {
        match action {
            Action::Create { plane, slot } => self.create(world, plane, slot),
            Action::Request { plane, slot, request } => self.external_request(world, plane, slot, request),
            Action::EnforceDeadlines { plane, slot } => {
                self.apply_event(world, plane, slot, Trigger::TimePassed, Event::TimePassed);
            }
            Action::Adopt { plane, slot, dead } => {
                let request = Request::Adopt { dead, rebooted: false };
                self.apply_request(world, plane, slot, Trigger::Adopted, request);
            }
            Action::LeaseStray { plane, slot, generation } => {
                self.lease_stray(world, plane, slot, generation)
            }
            Action::QuarantineUnreadable { plane, slot } => self.quarantine(world, plane, slot),
            Action::Commit { plane } => self.commit_decision(world, plane),
            Action::Advance { run } => self.advance(world, run),
            Action::Fail { run } => {
                world.budget.faults -= 1;
                self.fail(world, run);
            }
            Action::Deliver { run } => self.deliver(world, run),
            Action::DeliverAndKeep { run } => {
                world.budget.faults -= 1;
                let answer = world.effect_runs[run].clone();
                self.deliver(world, run);
                world.add(answer);
            }
            Action::InstanceDies { instance } => {
                world.budget.faults -= 1;
                world.instances.remove(instance);
            }
            Action::ProcessExits { instance, execution } => {
                world.instances[instance].processes[execution] = ProcessState::Exited;
            }
            Action::Crash { plane } => crash(world, plane),
            Action::Restart { plane } => {
                // Node ids are not reused: a restarted process is another node.
                world.planes[plane].node =
                    NodeId(world.planes[plane].node.0 + u128::from(self.bounds.planes));
                world.planes[plane].condition = Condition::Awake;
            }
            Action::Pause { plane } => {
                world.budget.pauses -= 1;
                world.planes[plane].condition = Condition::Paused;
            }
            Action::Wake { plane } => world.planes[plane].condition = Condition::Awake,
            Action::Tick => self.tick(world),
        }
    }

    fn create(&self, world: &mut World, plane: usize, slot: u8) {
        if self.has_capacity(&world.totals) {
            let ctx = self.context(world.now, world.planes[plane].node);
            let id = sandbox_id(slot);
            let transition =
                if self.bounds.pooled { create_pooled(id, Shape::default(), ctx) } else { create(id, ctx) };
            self.decide(world, plane, slot, Trigger::Created, transition);
        }
    }

    pub(crate) fn has_capacity(&self, sums: &StoreTotals) -> bool {
        let totals = Totals {
            created: u64::from(sums.created),
            destroyed: u64::from(sums.destroyed),
            pooled: u64::from(sums.pooled),
            ..Totals::default()
        };
        let limits =
            AdmissionLimits { sandboxes: Some(u64::from(self.bounds.limit)), ..AdmissionLimits::default() };
        admit(&totals, &Demand::default(), &limits).is_ok()
    }

    fn external_request(&self, world: &mut World, plane: usize, slot: u8, wanted: ExternalRequest) {
        world.budget.requests -= 1;
        let stop = |cause, grace_ms| (Trigger::StopRequested, Request::Stop { cause, grace_ms });
        let (trigger, request) = match wanted {
            ExternalRequest::Execute(number) => (
                Trigger::Requested,
                Request::Execute {
                    id: execution_id(number),
                    kind: ExecutionKind::Run,
                    limits: ExecutionLimits { timeout_ms: None, inactivity_ms: (number == 0).then_some(2) },
                    transfers: self.bounds.transfers,
                    may_queue: true,
                },
            ),
            ExternalRequest::Cancel(number) => {
                (Trigger::Requested, Request::Cancel { id: execution_id(number), cause: Cause::Cancelled })
            }
            ExternalRequest::Stop => stop(Cause::StoppedByUser, None),
            ExternalRequest::StopForShutdown => stop(Cause::Shutdown, None),
            ExternalRequest::StopForced => stop(Cause::StoppedByUser, Some(0)),
            ExternalRequest::Forget => (Trigger::StopRequested, Request::Forget),
            ExternalRequest::Restart => {
                (Trigger::Requested, Request::Restart { cause: Cause::StoppedByUser })
            }
            ExternalRequest::Attest => {
                (Trigger::Attested, Request::Attest { by: String::new(), reason: String::new() })
            }
            ExternalRequest::KeepAlive => (Trigger::Requested, Request::KeepAlive),
            ExternalRequest::Claim | ExternalRequest::ClaimShort => {
                return self.claim(world, plane, slot, wanted);
            }
            ExternalRequest::DiscardPooled => {
                (Trigger::Discarded, Request::DiscardPooled { cause: Cause::Cancelled })
            }
            ExternalRequest::Doubt => {
                let event = Event::Doubted { why: String::new() };
                return self.apply_event(world, plane, slot, Trigger::Doubted, event);
            }
            ExternalRequest::CorruptRow => return corrupt_row(world, slot),
        };
        self.apply_request(world, plane, slot, trigger, request);
    }

    fn apply_event(&self, world: &mut World, plane: usize, slot: u8, trigger: Trigger, event: Event) {
        let ctx = self.context(world.now, world.planes[plane].node);
        if let Some(sandbox) = world.rows[usize::from(slot)].sandbox() {
            let transition = step(sandbox, event, ctx);
            self.decide(world, plane, slot, trigger, transition);
        }
    }

    fn apply_request(&self, world: &mut World, plane: usize, slot: u8, trigger: Trigger, wanted: Request) {
        let ctx = self.context(world.now, world.planes[plane].node);
        if let Some(sandbox) = world.rows[usize::from(slot)].sandbox()
            && let Ok(transition) = request(sandbox, wanted, ctx)
        {
            self.decide(world, plane, slot, trigger, transition);
        }
    }

    /// Decides a claim under the claimant's policy.
    fn claim(&self, world: &mut World, plane: usize, slot: u8, wanted: ExternalRequest) {
        let policy = self.claim_policy(wanted);
        let ctx = Context { policy: &policy, ..self.context(world.now, world.planes[plane].node) };
        if let Some(sandbox) = world.rows[usize::from(slot)].sandbox()
            && let Ok(transition) = request(sandbox, Request::Claim { shape: Box::default() }, ctx)
        {
            self.decide(world, plane, slot, Trigger::Claimed, transition);
        }
    }

    fn lease_stray(&self, world: &mut World, plane: usize, slot: u8, generation: Generation) {
        if matches!(world.rows[usize::from(slot)], Row::Forgotten { .. }) {
            let ctx = self.context(world.now, world.planes[plane].node);
            let transition = lease_orphan(sandbox_id(slot), generation, ctx);
            self.decide(world, plane, slot, Trigger::StrayFound, transition);
        } else {
            let request = Request::LeaseStray { generation };
            self.apply_request(world, plane, slot, Trigger::StrayFound, request);
        }
    }

    fn quarantine(&self, world: &mut World, plane: usize, slot: u8) {
        if let Row::Unreadable { sandbox, .. } = &world.rows[usize::from(slot)] {
            let ctx = self.context(world.now, world.planes[plane].node);
            let transition =
                quarantine_unreadable(sandbox_id(slot), sandbox.generation(), String::new(), ctx);
            self.decide(world, plane, slot, Trigger::Unreadable, transition);
        }
    }

    /// The result stays pending until the decision that it leads to is committed.
    fn deliver(&self, world: &mut World, run: usize) {
        let (slot, by) = (world.effect_runs[run].slot, world.effect_runs[run].effect.pending.node);
        let fence = world.effect_runs[run].effect.pending.fence;
        let Stage::Completed(event) = world.effect_runs[run].stage.clone() else {
            return;
        };
        let Some(plane) = world.planes.iter().position(|plane| plane.node == by) else {
            return;
        };
        if world.rows[usize::from(slot)].sandbox().is_some() {
            let trigger = Trigger::Completed { event: event.clone(), fence };
            self.apply_event(world, plane, slot, trigger, event);
        } else {
            world.drop_result(slot, fence, by);
        }
    }

    fn decide(&self, world: &mut World, plane: usize, slot: u8, trigger: Trigger, transition: Transition) {
        let decision = Decision {
            slot,
            version: world.rows[usize::from(slot)].version(),
            at: world.now,
            trigger,
            after: transition.sandbox,
            finished: transition.finished,
            effects: transition.effects,
        };
        if !self.bounds.decides_apart {
            return self.commit(world, plane, decision);
        }
        if self.flaw == Some(Flaw::ActBeforeCommit) {
            for effect in &decision.effects {
                world.start_effect(slot, effect.clone());
            }
        }
        if self.flaw == Some(Flaw::CountBeforeCommit) {
            let before = world.rows[usize::from(slot)].sandbox().cloned();
            update_totals(world, before.as_ref(), &decision.after);
        }
        world.planes[plane].uncommitted = Some(Box::new(decision));
    }

    fn tick(&self, world: &mut World) {
        world.now += 1;
        if !world.any_awake() {
            return;
        }
        for (row, memory) in world.rows.iter().zip(&mut world.memory) {
            let Some(sandbox) = row.sandbox() else { continue };
            if matches!(sandbox.lease, Lease::Stopping { .. } | Lease::StopWaiting { .. }) {
                memory.stopping += 1;
                if u64::from(memory.stopping) > self.max_stop_ms() {
                    world.violated.note(Invariant::StopEnds);
                }
            }
            for number in 0..EXECUTIONS {
                let Some((invariant, limit)) = self.wait_limit(sandbox, number) else {
                    continue;
                };
                memory.waiting[number] += 1;
                if u64::from(memory.waiting[number]) > limit {
                    world.violated.note(invariant);
                }
            }
        }
    }

    /// How long an execution may stay in its present state, and the invariant that this limit belongs to.
    pub(crate) fn wait_limit(&self, sandbox: &Sandbox, number: usize) -> Option<(Invariant, u64)> {
        let execution = sandbox.executions.iter().find(|e| usize::try_from(e.id.0) == Ok(number))?;
        // With retries each attempt has its own time, and so do the stop and the backoff before it.
        let (tried, queued_ms) = match self.policy.recovery {
            Some(_) => (
                matches!(sandbox.lease, Lease::Starting { .. } | Lease::Live(_)),
                self.policy.start_ms + self.policy.queued_ms,
            ),
            None => (true, self.policy.queued_ms),
        };
        match execution.state {
            ExecutionState::Queued { .. }
            | ExecutionState::Preparing { .. }
            | ExecutionState::Starting { .. } => tried.then_some((Invariant::QueuedEnds, queued_ms)),
            ExecutionState::Ending { kill: Some(_), .. } => {
                Some((Invariant::StopEnds, queued_ms + self.policy.kill_ms))
            }
            ExecutionState::Running { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { kill: None, .. }
            | ExecutionState::Collecting { .. }
            | ExecutionState::Ended { .. } => None,
        }
    }
}

/// The node loses everything in memory. Helper processes that it started continue, but their results are dropped.
fn crash(world: &mut World, plane: usize) {
    world.budget.crashes -= 1;
    let node = world.planes[plane].node;
    world.planes[plane].condition = Condition::Crashed;
    world.planes[plane].uncommitted = None;
    world.effect_runs.retain(|run| run.effect.pending.node != node || matches!(run.stage, Stage::Permitted));
    for run in world.effect_runs.iter_mut().filter(|run| run.effect.pending.node == node) {
        run.abandoned = true;
    }
}

fn corrupt_row(world: &mut World, slot: u8) {
    let row = &mut world.rows[usize::from(slot)];
    if let Row::Stored { sandbox, version } = row.clone() {
        *row = Row::Unreadable { sandbox, version };
    }
}
