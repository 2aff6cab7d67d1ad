//! The physical world: what work does to marks, bodies and processes, one step at a time, and how it goes wrong.

use pinfold_lifecycle::{
    BodySeen, Cause, EffectKind, Event, Evidence, ExecutionId, ExecutionSeen, Finding, Guard, Lease, Outcome,
    ProbeFailure, Probed, Receipt, ReceiptCheck, Seen, StopOutcome, Timestamp,
};

use crate::model::execution_id;
use crate::world::{EXECUTIONS, Inside, Job, Stage, Thing};
use crate::{Promise, Small, World};

impl Small {
    /// The next step of a piece of work, as it should go.
    pub(crate) fn advance(&self, world: &mut World, index: usize) {
        let job = world.jobs[index].clone();
        let (ticket, generation) = (job.effect.duty.ticket, job.effect.generation);
        let next = match (&job.stage, job.effect.work) {
            (Stage::Due, EffectKind::Launch) => {
                world.things.push(Thing {
                    place: job.place,
                    generation,
                    ticket,
                    whole: false,
                    ends_at: world.rows[usize::from(job.place)]
                        .sandbox()
                        .map_or_else(Timestamp::default, |row| row.expires_at),
                    inside: [Inside::Never; EXECUTIONS],
                });
                world.things.sort_unstable();
                Some(Stage::Marked)
            }
            (Stage::Marked, EffectKind::Launch) => self.ask_permit(world, &job),
            (Stage::Permitted, EffectKind::Launch) => Some(Stage::Answered(make_body(world, &job))),
            (Stage::Due, EffectKind::Stop { .. }) => {
                self.remove(world, &job);
                Some(Stage::Removed)
            }
            (Stage::Removed, EffectKind::Stop { .. }) => {
                Some(Stage::Answered(self.look_after_stop(world, &job)))
            }
            (Stage::Due, EffectKind::Look) => {
                Some(Stage::Answered(Event::Looked { ticket, evidence: self.look(world, job.place) }))
            }
            (Stage::Due, EffectKind::Probe | EffectKind::Ping) => Some(Stage::Answered(probe(world, &job))),
            (Stage::Due, EffectKind::Extend { ends_at }) => match body_of(world, &job) {
                Some(body) => {
                    body.ends_at = ends_at;
                    Some(Stage::Answered(Event::Extended { ticket }))
                }
                None => Some(Stage::Answered(Event::ExtendFailed { ticket, why: String::new() })),
            },
            (Stage::Due, EffectKind::Exec { execution }) => {
                Some(Stage::Answered(self.start_process(world, &job, execution)))
            }
            (Stage::Due, EffectKind::Watch { execution }) => match body_of(world, &job) {
                Some(body) if body.inside[number(execution)] == Inside::Exited => {
                    Some(Stage::Answered(Event::ExecutionEnded {
                        ticket,
                        execution,
                        outcome: Outcome::exited(0),
                    }))
                }
                // It waits on.
                Some(_) | None => return,
            },
            (Stage::Due, EffectKind::Kill { execution }) => match body_of(world, &job) {
                Some(body) => {
                    body.inside[number(execution)] = Inside::Barred;
                    Some(Stage::Answered(Event::ExecutionGone { ticket, execution }))
                }
                // Nobody to ask, and no look at the whole: no answer.
                None => None,
            },
            (Stage::Marked | Stage::Permitted | Stage::Removed | Stage::Answered(_), _) => return,
        };
        put(world, index, next);
    }

    /// The next step of a piece of work, as it should not go.
    pub(crate) fn fail(&self, world: &mut World, index: usize) {
        let job = world.jobs[index].clone();
        let ticket = job.effect.duty.ticket;
        let why = String::new();
        let next = match (&job.stage, job.effect.work) {
            // Half a body stays behind.
            (Stage::Permitted, _) => Some(Stage::Answered(Event::LaunchFailed { ticket, why })),
            (Stage::Due, EffectKind::Stop { .. }) => Some(Stage::Removed),
            (Stage::Removed, _) => {
                Some(Stage::Answered(Event::Stopped { ticket, outcome: StopOutcome::Unknown { why } }))
            }
            (Stage::Due, EffectKind::Look) => {
                Some(Stage::Answered(Event::Looked { ticket, evidence: Evidence::Unknown { why } }))
            }
            (Stage::Due, EffectKind::Probe | EffectKind::Ping) => Some(Stage::Answered(Event::Probed {
                ticket,
                probed: Probed::Failed(ProbeFailure::Exec { why }),
            })),
            // A body remembers whom it has refused, or an earlier request for the same could still succeed.
            (Stage::Due, EffectKind::Exec { execution }) => {
                if let Some(body) = body_of(world, &job)
                    && body.inside[number(execution)] == Inside::Never
                {
                    body.inside[number(execution)] = Inside::Barred;
                }
                Some(Stage::Answered(self.start_process(world, &job, execution)))
            }
            // Neither done nor answered.
            (Stage::Due, EffectKind::Kill { .. } | EffectKind::Extend { .. }) => None,
            (Stage::Due, EffectKind::Launch | EffectKind::Watch { .. })
            | (Stage::Marked | Stage::Answered(_), _) => {
                return;
            }
        };
        put(world, index, next);
    }

    /// Seen after the mark was made: a stop that was committed before finds the mark, one committed later
    /// removes it, and without it no body is made.
    fn ask_permit(&self, world: &mut World, job: &Job) -> Option<Stage> {
        let row = world.rows[usize::from(job.place)].sandbox();
        let permitted = row.is_some_and(|sandbox| sandbox.permits_launch(job.effect.duty.ticket));
        if permitted || !self.policy.guards.hold(Guard::PermitBeforeBody) {
            return Some(Stage::Permitted);
        }
        world.things.retain(|thing| thing.whole || !is_made_by(thing, job));
        None
    }

    fn remove(&self, world: &mut World, job: &Job) {
        let keeps_to_itself = self.policy.guards.hold(Guard::StopKeepsToItsGeneration);
        let doomed = |thing: &Thing| {
            thing.place == job.place && (thing.generation <= job.effect.generation || !keeps_to_itself)
        };
        let wanted = match world.rows[usize::from(job.place)].sandbox().map(|row| &row.lease) {
            Some(lease @ (Lease::Starting { .. } | Lease::Live(_))) => Some(lease.generation()),
            Some(_) | None => None,
        };
        if world.things.iter().any(|thing| doomed(thing) && thing.whole && Some(thing.generation) == wanted) {
            world.broken.note(Promise::OnlyTheStoppedEnds);
        }
        world.things.retain(|thing| !doomed(thing));
    }

    fn look_after_stop(&self, world: &World, job: &Job) -> Event {
        let left = world
            .things
            .iter()
            .any(|thing| thing.place == job.place && thing.generation <= job.effect.generation);
        let outcome = if left {
            StopOutcome::StillPresent { what: String::new() }
        } else {
            StopOutcome::Gone(Box::new(Receipt {
                generation: job.effect.generation,
                verified_at: self.time(world.now),
                checks: vec![absent()],
                freed_bytes: 0,
                used: None,
                attested: None,
            }))
        };
        Event::Stopped { ticket: job.effect.duty.ticket, outcome }
    }

    fn look(&self, world: &World, place: u8) -> Evidence {
        let things = world.things.iter().filter(|thing| thing.place == place);
        let bodies: Vec<_> = things.map(|thing| self.see(thing)).collect();
        if bodies.is_empty() { Evidence::Absent(vec![absent()]) } else { Evidence::Present(bodies) }
    }

    fn see(&self, thing: &Thing) -> BodySeen {
        let executions = (0u8..).zip(thing.inside).filter_map(|(number, inside)| {
            let seen = match inside {
                Inside::Running { since } => Seen::Running { last_activity_at: self.time(since) },
                Inside::Exited => Seen::Ended(Outcome::exited(0)),
                Inside::Never | Inside::Barred => return None,
            };
            Some(ExecutionSeen { execution: execution_id(number), seen })
        });
        BodySeen {
            generation: thing.generation,
            whole: thing.whole,
            executions: executions.collect(),
            last_busy_at: None,
        }
    }

    fn start_process(&self, world: &mut World, job: &Job, execution: ExecutionId) -> Event {
        let ticket = job.effect.duty.ticket;
        let now = world.now;
        let started = body_of(world, job).is_some_and(|body| {
            let inside = &mut body.inside[number(execution)];
            if *inside == Inside::Never {
                *inside = Inside::Running { since: now };
            }
            *inside != Inside::Barred
        });
        if started {
            Event::ExecutionStarted { ticket, execution }
        } else {
            Event::ExecutionRefused { ticket, execution, cause: Cause::ProviderError, why: String::new() }
        }
    }
}

fn make_body(world: &mut World, job: &Job) -> Event {
    let ticket = job.effect.duty.ticket;
    match world.things.iter_mut().find(|thing| is_made_by(thing, job)) {
        Some(mark) => {
            mark.whole = true;
            Event::Launched { ticket }
        }
        None => Event::LaunchFailed { ticket, why: String::new() },
    }
}

fn probe(world: &mut World, job: &Job) -> Event {
    let (ticket, generation) = (job.effect.duty.ticket, job.effect.generation);
    let probed = if body_of(world, job).is_some() {
        world.memory[usize::from(job.place)].probed = Some((generation, world.now));
        Probed::Passed
    } else {
        Probed::Failed(ProbeFailure::Control { why: String::new() })
    };
    Event::Probed { ticket, probed }
}

fn put(world: &mut World, index: usize, next: Option<Stage>) {
    let unheard = world.jobs[index].unheard;
    match next {
        Some(Stage::Answered(_)) if unheard => {
            world.jobs.remove(index);
        }
        Some(stage) => world.jobs[index].stage = stage,
        None => {
            world.jobs.remove(index);
        }
    }
}

fn is_made_by(thing: &Thing, job: &Job) -> bool {
    thing.place == job.place
        && thing.generation == job.effect.generation
        && thing.ticket == job.effect.duty.ticket
}

fn body_of<'a>(world: &'a mut World, job: &Job) -> Option<&'a mut Thing> {
    world
        .things
        .iter_mut()
        .find(|thing| thing.place == job.place && thing.whole && thing.generation == job.effect.generation)
}

fn number(execution: ExecutionId) -> usize {
    usize::try_from(execution.0).unwrap_or(usize::MAX)
}

fn absent() -> ReceiptCheck {
    ReceiptCheck { kind: String::new(), result: Finding::Absent, means: String::new(), detail: None }
}
