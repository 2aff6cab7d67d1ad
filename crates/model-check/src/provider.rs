//! The simulated provider: what each step of an effect does to markers, instances and processes, and how it fails.

use pinfold_lifecycle::{
    Cause, EffectKind, Event, Evidence, ExecutionId, ExecutionObservation, Finding, Guard,
    InstanceObservation, Lease, Outcome, ProbeFailure, ProbeResult, ProcessObservation, Receipt,
    ReceiptCheck, StopOutcome, Timestamp,
};

use crate::model::execution_id;
use crate::world::{EXECUTIONS, EffectRun, PhysicalInstance, ProcessState, Stage};
use crate::{Invariant, SmallModel, World};

impl SmallModel {
    /// Performs the next step of an effect.
    pub(crate) fn advance(&self, world: &mut World, index: usize) {
        let run = world.effect_runs[index].clone();
        let (fence, generation) = (run.effect.pending.fence, run.effect.generation);
        let next = match (&run.stage, run.effect.kind) {
            (Stage::Pending, EffectKind::Launch) => {
                world.instances.push(PhysicalInstance {
                    slot: run.slot,
                    generation,
                    fence,
                    whole: false,
                    ends_at: world.rows[usize::from(run.slot)]
                        .sandbox()
                        .map_or_else(Timestamp::default, |row| row.expires_at),
                    processes: [ProcessState::NotStarted; EXECUTIONS],
                });
                world.instances.sort_unstable();
                Some(Stage::MarkerWritten)
            }
            (Stage::MarkerWritten, EffectKind::Launch) => self.check_permit(world, &run),
            (Stage::Permitted, EffectKind::Launch) => Some(Stage::Completed(complete_instance(world, &run))),
            (Stage::Pending, EffectKind::Stop { .. }) => {
                self.remove(world, &run);
                Some(Stage::Removed)
            }
            (Stage::Removed, EffectKind::Stop { .. }) => {
                Some(Stage::Completed(self.observe_after_stop(world, &run)))
            }
            (Stage::Pending, EffectKind::Observe) => {
                Some(Stage::Completed(Event::Observed { fence, evidence: self.observe(world, run.slot) }))
            }
            (Stage::Pending, EffectKind::Probe | EffectKind::Ping) => {
                Some(Stage::Completed(probe(world, &run)))
            }
            (Stage::Pending, EffectKind::Extend { ends_at }) => match instance_of(world, &run) {
                Some(instance) => {
                    instance.ends_at = ends_at;
                    Some(Stage::Completed(Event::Extended { fence }))
                }
                None => Some(Stage::Completed(Event::ExtendFailed { fence, why: String::new() })),
            },
            (Stage::Pending, EffectKind::PutFiles { execution }) => {
                let put = instance_of(world, &run).is_some();
                Some(Stage::Completed(if put {
                    Event::FilesPut { fence, execution }
                } else {
                    refused(&run, execution)
                }))
            }
            // The collector reports its end, whatever it could store.
            (Stage::Pending, EffectKind::Collect { execution }) => {
                Some(Stage::Completed(Event::Collected { fence, execution }))
            }
            (Stage::Pending, EffectKind::Exec { execution }) => {
                Some(Stage::Completed(self.start_process(world, &run, execution)))
            }
            (Stage::Pending, EffectKind::Watch { execution }) => match instance_of(world, &run) {
                Some(instance) if instance.processes[number(execution)] == ProcessState::Exited => {
                    Some(Stage::Completed(Event::ExecutionEnded {
                        fence,
                        execution,
                        outcome: Outcome::exited(0),
                    }))
                }
                // Still waiting.
                Some(_) | None => return,
            },
            (Stage::Pending, EffectKind::Kill { execution }) => match instance_of(world, &run) {
                Some(instance) => {
                    instance.processes[number(execution)] = ProcessState::Blocked;
                    Some(Stage::Completed(Event::ExecutionGone { fence, execution }))
                }
                // The instance does not exist, so the kill gives no result.
                None => None,
            },
            (Stage::MarkerWritten | Stage::Permitted | Stage::Removed | Stage::Completed(_), _) => return,
        };
        put(world, index, next);
    }

    /// Lets the next step of an effect fail.
    pub(crate) fn fail(&self, world: &mut World, index: usize) {
        let run = world.effect_runs[index].clone();
        let fence = run.effect.pending.fence;
        let why = String::new();
        let next = match (&run.stage, run.effect.kind) {
            // An incomplete instance stays behind.
            (Stage::Permitted, _) => Some(Stage::Completed(Event::LaunchFailed { fence, why })),
            (Stage::Pending, EffectKind::Stop { .. }) => Some(Stage::Removed),
            (Stage::Removed, _) => {
                Some(Stage::Completed(Event::Stopped { fence, outcome: StopOutcome::Unknown { why } }))
            }
            (Stage::Pending, EffectKind::Observe) => {
                Some(Stage::Completed(Event::Observed { fence, evidence: Evidence::Unknown { why } }))
            }
            (Stage::Pending, EffectKind::Probe | EffectKind::Ping) => Some(Stage::Completed(Event::Probed {
                fence,
                result: ProbeResult::Failed(ProbeFailure::Exec { why }),
            })),
            // The instance remembers the refusal. Otherwise an earlier request for the same execution could still
            // succeed.
            (Stage::Pending, EffectKind::Exec { execution }) => {
                if let Some(instance) = instance_of(world, &run)
                    && instance.processes[number(execution)] == ProcessState::NotStarted
                {
                    instance.processes[number(execution)] = ProcessState::Blocked;
                }
                Some(Stage::Completed(self.start_process(world, &run, execution)))
            }
            // Not performed, and no result.
            (
                Stage::Pending,
                EffectKind::Kill { .. } | EffectKind::Extend { .. } | EffectKind::Collect { .. },
            ) => None,
            (Stage::Pending, EffectKind::PutFiles { execution }) => {
                Some(Stage::Completed(refused(&run, execution)))
            }
            (Stage::Pending, EffectKind::Launch | EffectKind::Watch { .. })
            | (Stage::MarkerWritten | Stage::Completed(_), _) => {
                return;
            }
        };
        put(world, index, next);
    }

    /// The permit is checked after the marker is written. A stop committed earlier is seen by the check; a stop
    /// committed later removes the marker, without which no instance is created.
    fn check_permit(&self, world: &mut World, run: &EffectRun) -> Option<Stage> {
        let row = world.rows[usize::from(run.slot)].sandbox();
        let permitted = row.is_some_and(|sandbox| sandbox.permits_launch(run.effect.pending.fence));
        if permitted || !self.policy.guards.hold(Guard::PermitBeforeInstance) {
            return Some(Stage::Permitted);
        }
        world.instances.retain(|instance| instance.whole || !is_launched_by(instance, run));
        None
    }

    fn remove(&self, world: &mut World, run: &EffectRun) {
        let keeps_to_itself = self.policy.guards.hold(Guard::StopSparesLaterGenerations);
        let doomed = |instance: &PhysicalInstance| {
            instance.slot == run.slot && (instance.generation <= run.effect.generation || !keeps_to_itself)
        };
        let wanted = match world.rows[usize::from(run.slot)].sandbox().map(|row| &row.lease) {
            Some(lease @ (Lease::Starting { .. } | Lease::Live(_))) => Some(lease.generation()),
            Some(_) | None => None,
        };
        if world
            .instances
            .iter()
            .any(|instance| doomed(instance) && instance.whole && Some(instance.generation) == wanted)
        {
            world.violated.note(Invariant::StopAffectsOnlyItsTarget);
        }
        world.instances.retain(|instance| !doomed(instance));
    }

    fn observe_after_stop(&self, world: &World, run: &EffectRun) -> Event {
        let left = world
            .instances
            .iter()
            .any(|instance| instance.slot == run.slot && instance.generation <= run.effect.generation);
        let outcome = if left {
            StopOutcome::StillPresent { what: String::new() }
        } else {
            StopOutcome::Gone(Box::new(Receipt {
                generation: run.effect.generation,
                verified_at: self.time(world.now),
                checks: vec![absent()],
                freed_bytes: 0,
                used: None,
                attested: None,
            }))
        };
        Event::Stopped { fence: run.effect.pending.fence, outcome }
    }

    fn observe(&self, world: &World, slot: u8) -> Evidence {
        let instances = world.instances.iter().filter(|instance| instance.slot == slot);
        let instances: Vec<_> = instances.map(|instance| self.observe_instance(instance)).collect();
        if instances.is_empty() { Evidence::Absent(vec![absent()]) } else { Evidence::Present(instances) }
    }

    fn observe_instance(&self, instance: &PhysicalInstance) -> InstanceObservation {
        let executions = (0u8..).zip(instance.processes).filter_map(|(number, process)| {
            let seen = match process {
                ProcessState::Running { since } => {
                    ProcessObservation::Running { last_activity_at: self.time(since) }
                }
                ProcessState::Exited => ProcessObservation::Ended(Outcome::exited(0)),
                ProcessState::NotStarted | ProcessState::Blocked => return None,
            };
            Some(ExecutionObservation { execution: execution_id(number), process: seen })
        });
        InstanceObservation {
            generation: instance.generation,
            whole: instance.whole,
            keeper_end: None,
            executions: executions.collect(),
            last_busy_at: None,
        }
    }

    fn start_process(&self, world: &mut World, run: &EffectRun, execution: ExecutionId) -> Event {
        let fence = run.effect.pending.fence;
        let now = world.now;
        let started = instance_of(world, run).is_some_and(|instance| {
            let process = &mut instance.processes[number(execution)];
            if *process == ProcessState::NotStarted {
                *process = ProcessState::Running { since: now };
            }
            *process != ProcessState::Blocked
        });
        if started { Event::ExecutionStarted { fence, execution } } else { refused(run, execution) }
    }
}

fn refused(run: &EffectRun, execution: ExecutionId) -> Event {
    let fence = run.effect.pending.fence;
    Event::ExecutionRefused { fence, execution, cause: Cause::ProviderError, why: String::new() }
}

fn complete_instance(world: &mut World, run: &EffectRun) -> Event {
    let fence = run.effect.pending.fence;
    match world.instances.iter_mut().find(|instance| is_launched_by(instance, run)) {
        Some(mark) => {
            mark.whole = true;
            Event::Launched { fence }
        }
        None => Event::LaunchFailed { fence, why: String::new() },
    }
}

fn probe(world: &mut World, run: &EffectRun) -> Event {
    let (fence, generation) = (run.effect.pending.fence, run.effect.generation);
    let probed = if instance_of(world, run).is_some() {
        world.memory[usize::from(run.slot)].probed = Some((generation, world.now));
        ProbeResult::Passed
    } else {
        ProbeResult::Failed(ProbeFailure::Control { why: String::new() })
    };
    Event::Probed { fence, result: probed }
}

fn put(world: &mut World, index: usize, next: Option<Stage>) {
    let abandoned = world.effect_runs[index].abandoned;
    match next {
        Some(Stage::Completed(_)) if abandoned => {
            world.effect_runs.remove(index);
        }
        Some(stage) => world.effect_runs[index].stage = stage,
        None => {
            world.effect_runs.remove(index);
        }
    }
}

fn is_launched_by(instance: &PhysicalInstance, run: &EffectRun) -> bool {
    instance.slot == run.slot
        && instance.generation == run.effect.generation
        && instance.fence == run.effect.pending.fence
}

fn instance_of<'a>(world: &'a mut World, run: &EffectRun) -> Option<&'a mut PhysicalInstance> {
    world.instances.iter_mut().find(|instance| {
        instance.slot == run.slot && instance.whole && instance.generation == run.effect.generation
    })
}

fn number(execution: ExecutionId) -> usize {
    usize::try_from(execution.0).unwrap_or(usize::MAX)
}

fn absent() -> ReceiptCheck {
    ReceiptCheck { kind: String::new(), result: Finding::Absent, means: String::new(), detail: None }
}
