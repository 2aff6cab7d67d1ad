//! What each action does to the world.

use pinfold_lifecycle::{
    AdmissionLimits, Cause, Context, Demand, Event, ExecutionKind, ExecutionLimits, ExecutionState,
    Generation, Lease, NodeId, Request, Sandbox, Shape, Totals, Transition, admit, create, create_pooled,
    lease_orphan, quarantine_unreadable, request, step,
};

use crate::commit::add_up;
use crate::model::{execution_id, sandbox_id};
use crate::world::{Condition, Decision, EXECUTIONS, Inside, Row, Stage, Sums, Trigger};
use crate::{Action, Flaw, Promise, Small, Wish, World};

impl Small {
    pub(crate) fn perform(&self, world: &mut World, action: Action) {
        match action {
            Action::Create { plane, place } => self.create(world, plane, place),
            Action::Ask { plane, place, wish } => self.ask(world, plane, place, wish),
            Action::LetTimePass { plane, place } => {
                self.take(world, plane, place, Trigger::TimePassed, Event::TimePassed);
            }
            Action::Adopt { plane, place, dead } => {
                let wish = Request::Adopt { dead, rebooted: false };
                self.grant(world, plane, place, Trigger::Adopted, wish);
            }
            Action::LeaseStray { plane, place, generation } => {
                self.lease_stray(world, plane, place, generation)
            }
            Action::QuarantineUnreadable { plane, place } => self.quarantine(world, plane, place),
            Action::Commit { plane } => self.commit_held(world, plane),
            Action::Advance { job } => self.advance(world, job),
            Action::Fail { job } => {
                world.left.faults -= 1;
                self.fail(world, job);
            }
            Action::Deliver { job } => self.deliver(world, job),
            Action::DeliverAndKeep { job } => {
                world.left.faults -= 1;
                let answer = world.jobs[job].clone();
                self.deliver(world, job);
                world.add(answer);
            }
            Action::BodyDies { thing } => {
                world.left.faults -= 1;
                world.things.remove(thing);
            }
            Action::ProcessExits { thing, execution } => {
                world.things[thing].inside[execution] = Inside::Exited;
            }
            Action::Crash { plane } => crash(world, plane),
            Action::Restart { plane } => {
                // Numbers are not used again: a restarted process is another node.
                world.planes[plane].node =
                    NodeId(world.planes[plane].node.0 + u128::from(self.bounds.planes));
                world.planes[plane].condition = Condition::Awake;
            }
            Action::Pause { plane } => {
                world.left.pauses -= 1;
                world.planes[plane].condition = Condition::Paused;
            }
            Action::Wake { plane } => world.planes[plane].condition = Condition::Awake,
            Action::Tick => self.tick(world),
        }
    }

    fn create(&self, world: &mut World, plane: usize, place: u8) {
        if self.has_room(&world.totals) {
            let ctx = self.context(world.now, world.planes[plane].node);
            let id = sandbox_id(place);
            let transition =
                if self.bounds.pooled { create_pooled(id, Shape::default(), ctx) } else { create(id, ctx) };
            self.decide(world, plane, place, Trigger::Created, transition);
        }
    }

    pub(crate) fn has_room(&self, sums: &Sums) -> bool {
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

    fn ask(&self, world: &mut World, plane: usize, place: u8, wish: Wish) {
        world.left.wishes -= 1;
        let stop = |cause, forced| (Trigger::StopWished, Request::Stop { cause, forced });
        let (trigger, wish) = match wish {
            Wish::Execute(number) => (
                Trigger::Wished,
                Request::Execute {
                    id: execution_id(number),
                    kind: ExecutionKind::Run,
                    limits: ExecutionLimits { timeout_ms: None, inactivity_ms: (number == 0).then_some(2) },
                    may_queue: true,
                },
            ),
            Wish::Cancel(number) => {
                (Trigger::Wished, Request::Cancel { id: execution_id(number), cause: Cause::Cancelled })
            }
            Wish::Stop => stop(Cause::StoppedByUser, false),
            Wish::StopForShutdown => stop(Cause::Shutdown, false),
            Wish::StopForced => stop(Cause::StoppedByUser, true),
            Wish::Forget => (Trigger::StopWished, Request::Forget),
            Wish::Restart => (Trigger::Wished, Request::Restart { cause: Cause::StoppedByUser }),
            Wish::Attest => (Trigger::Attested, Request::Attest { by: String::new(), reason: String::new() }),
            Wish::KeepAlive => (Trigger::Wished, Request::KeepAlive),
            Wish::Claim | Wish::ClaimShort => return self.claim(world, plane, place, wish),
            Wish::GiveUp => (Trigger::GivenUp, Request::GiveUp { cause: Cause::Cancelled }),
            Wish::Doubt => {
                let event = Event::Doubted { why: String::new() };
                return self.take(world, plane, place, Trigger::Doubted, event);
            }
            Wish::Spoil => return spoil(world, place),
        };
        self.grant(world, plane, place, trigger, wish);
    }

    fn take(&self, world: &mut World, plane: usize, place: u8, trigger: Trigger, event: Event) {
        let ctx = self.context(world.now, world.planes[plane].node);
        if let Some(sandbox) = world.rows[usize::from(place)].sandbox() {
            let transition = step(sandbox, event, ctx);
            self.decide(world, plane, place, trigger, transition);
        }
    }

    fn grant(&self, world: &mut World, plane: usize, place: u8, trigger: Trigger, wish: Request) {
        let ctx = self.context(world.now, world.planes[plane].node);
        if let Some(sandbox) = world.rows[usize::from(place)].sandbox()
            && let Ok(transition) = request(sandbox, wish, ctx)
        {
            self.decide(world, plane, place, trigger, transition);
        }
    }

    /// Decided under the policy of whoever claims.
    fn claim(&self, world: &mut World, plane: usize, place: u8, wish: Wish) {
        let policy = self.policy_of_claim(wish);
        let ctx = Context { policy: &policy, ..self.context(world.now, world.planes[plane].node) };
        if let Some(sandbox) = world.rows[usize::from(place)].sandbox()
            && let Ok(transition) = request(sandbox, Request::Claim { shape: Box::default() }, ctx)
        {
            self.decide(world, plane, place, Trigger::Claimed, transition);
        }
    }

    fn lease_stray(&self, world: &mut World, plane: usize, place: u8, generation: Generation) {
        if matches!(world.rows[usize::from(place)], Row::Forgotten { .. }) {
            let ctx = self.context(world.now, world.planes[plane].node);
            let transition = lease_orphan(sandbox_id(place), generation, ctx);
            self.decide(world, plane, place, Trigger::StrayFound, transition);
        } else {
            let wish = Request::LeaseStray { generation };
            self.grant(world, plane, place, Trigger::StrayFound, wish);
        }
    }

    fn quarantine(&self, world: &mut World, plane: usize, place: u8) {
        if let Row::Unreadable { sandbox, .. } = &world.rows[usize::from(place)] {
            let ctx = self.context(world.now, world.planes[plane].node);
            let transition =
                quarantine_unreadable(sandbox_id(place), sandbox.generation(), String::new(), ctx);
            self.decide(world, plane, place, Trigger::Unreadable, transition);
        }
    }

    /// The answer stays with the plane until what follows from it is committed.
    fn deliver(&self, world: &mut World, job: usize) {
        let (place, by) = (world.jobs[job].place, world.jobs[job].effect.duty.by);
        let ticket = world.jobs[job].effect.duty.ticket;
        let Stage::Answered(event) = world.jobs[job].stage.clone() else {
            return;
        };
        let Some(plane) = world.planes.iter().position(|plane| plane.node == by) else {
            return;
        };
        if world.rows[usize::from(place)].sandbox().is_some() {
            let trigger = Trigger::Answered { event: event.clone(), ticket };
            self.take(world, plane, place, trigger, event);
        } else {
            world.drop_answer(place, ticket, by);
        }
    }

    fn decide(&self, world: &mut World, plane: usize, place: u8, trigger: Trigger, turn: Transition) {
        let decision = Decision {
            place,
            version: world.rows[usize::from(place)].version(),
            at: world.now,
            trigger,
            after: turn.sandbox,
            finished: turn.finished,
            effects: turn.effects,
        };
        if !self.bounds.decides_apart {
            return self.commit(world, plane, decision);
        }
        if self.flaw == Some(Flaw::ActBeforeCommit) {
            for effect in &decision.effects {
                world.add_job(place, effect.clone());
            }
        }
        if self.flaw == Some(Flaw::CountBeforeCommit) {
            let before = world.rows[usize::from(place)].sandbox().cloned();
            add_up(world, before.as_ref(), &decision.after);
        }
        world.planes[plane].held = Some(Box::new(decision));
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
                if u64::from(memory.stopping) > self.longest_stop() {
                    world.broken.note(Promise::StopEnds);
                }
            }
            for number in 0..EXECUTIONS {
                let Some((promise, limit)) = self.wait_limit(sandbox, number) else {
                    continue;
                };
                memory.waiting[number] += 1;
                if u64::from(memory.waiting[number]) > limit {
                    world.broken.note(promise);
                }
            }
        }
    }

    /// How long an execution may wait in its present state, counted from its wish or the last time it ran.
    pub(crate) fn wait_limit(&self, sandbox: &Sandbox, number: usize) -> Option<(Promise, u64)> {
        let execution = sandbox.executions.iter().find(|e| usize::try_from(e.id.0) == Ok(number))?;
        // Where there are tries, each has its own time; the stop and the wait before it have theirs.
        let (tried, queued_ms) = match self.policy.recovery {
            Some(_) => (
                matches!(sandbox.lease, Lease::Starting { .. } | Lease::Live(_)),
                self.policy.start_ms + self.policy.queued_ms,
            ),
            None => (true, self.policy.queued_ms),
        };
        match execution.state {
            ExecutionState::Queued { .. } | ExecutionState::Starting { .. } => {
                tried.then_some((Promise::QueuedEnds, queued_ms))
            }
            ExecutionState::Ending { kill: Some(_), .. } => {
                Some((Promise::StopEnds, queued_ms + self.policy.kill_ms))
            }
            ExecutionState::Running { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { kill: None, .. }
            | ExecutionState::Ended { .. } => None,
        }
    }
}

/// The plane loses all it had in hand. What its helpers have begun goes on, unheard.
fn crash(world: &mut World, plane: usize) {
    world.left.crashes -= 1;
    let node = world.planes[plane].node;
    world.planes[plane].condition = Condition::Crashed;
    world.planes[plane].held = None;
    world.jobs.retain(|job| job.effect.duty.by != node || matches!(job.stage, Stage::Permitted));
    for job in world.jobs.iter_mut().filter(|job| job.effect.duty.by == node) {
        job.unheard = true;
    }
}

fn spoil(world: &mut World, place: u8) {
    let row = &mut world.rows[usize::from(place)];
    if let Row::Stored { sandbox, version } = row.clone() {
        *row = Row::Unreadable { sandbox, version };
    }
}
