//! The actions that are possible in a state, and their description in a counterexample.

use pinfold_lifecycle::{Effect, EffectKind, Event, Generation, Lease, Life, NodeId, Sandbox, step};

use crate::model::execution_id;
use crate::world::{Condition, ControlPlane, EffectRun, ProcessState, Row, Stage};
use crate::{ExternalRequest, SmallModel, World};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    Create {
        plane: usize,
        slot: u8,
    },
    Request {
        plane: usize,
        slot: u8,
        request: ExternalRequest,
    },
    EnforceDeadlines {
        plane: usize,
        slot: u8,
    },
    Adopt {
        plane: usize,
        slot: u8,
        dead: NodeId,
    },
    LeaseStray {
        plane: usize,
        slot: u8,
        generation: Generation,
    },
    QuarantineUnreadable {
        plane: usize,
        slot: u8,
    },
    /// Commits the decision made before.
    Commit {
        plane: usize,
    },
    Advance {
        run: usize,
    },
    /// The next step of the effect fails.
    Fail {
        run: usize,
    },
    /// A result that is lost needs no action of its own: it is simply never delivered.
    Deliver {
        run: usize,
    },
    DeliverAndKeep {
        run: usize,
    },
    InstanceDies {
        instance: usize,
    },
    ProcessExits {
        instance: usize,
        execution: usize,
    },
    Crash {
        plane: usize,
    },
    Restart {
        plane: usize,
    },
    Pause {
        plane: usize,
    },
    Wake {
        plane: usize,
    },
    Tick,
}

impl SmallModel {
    pub(crate) fn list_actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (index, plane) in world.planes.iter().enumerate() {
            self.plane_actions(world, index, plane, actions);
        }
        for (index, run) in world.effect_runs.iter().enumerate() {
            self.list_of_effect(world, index, run, actions);
        }
        for (instance, physical) in world.instances.iter().enumerate().filter(|(_, instance)| instance.whole)
        {
            if world.budget.faults > 0 {
                actions.push(Action::InstanceDies { instance });
            }
            for (execution, process) in physical.processes.iter().enumerate() {
                if self.bounds.processes_end && matches!(process, ProcessState::Running { .. }) {
                    actions.push(Action::ProcessExits { instance, execution });
                }
            }
        }
        if world.now < self.bounds.ticks && self.time_may_pass(world) {
            actions.push(Action::Tick);
        }
    }

    fn plane_actions(&self, world: &World, index: usize, plane: &ControlPlane, actions: &mut Vec<Action>) {
        match plane.condition {
            Condition::Crashed => return actions.push(Action::Restart { plane: index }),
            Condition::Paused => return actions.push(Action::Wake { plane: index }),
            Condition::Awake => {}
        }
        if is_needed(world, plane) {
            if world.budget.crashes > 0 {
                actions.push(Action::Crash { plane: index });
            }
            if world.budget.pauses > 0 {
                actions.push(Action::Pause { plane: index });
            }
        }
        if plane.uncommitted.is_some() {
            return actions.push(Action::Commit { plane: index });
        }
        // If decisions are committed at once, it makes no difference which running node decides.
        let earlier_awake = world.planes[..index].iter().any(|earlier| earlier.condition == Condition::Awake);
        if earlier_awake && !self.bounds.decides_apart {
            return;
        }
        for slot in 0..self.bounds.sandboxes {
            self.sandbox_actions(world, index, slot, actions);
        }
    }

    fn sandbox_actions(&self, world: &World, plane: usize, slot: u8, actions: &mut Vec<Action>) {
        let no_instance = match &world.rows[usize::from(slot)] {
            Row::NotCreated => return actions.push(Action::Create { plane, slot }),
            Row::Unreadable { .. } => return actions.push(Action::QuarantineUnreadable { plane, slot }),
            Row::Forgotten { .. } => true,
            Row::Stored { sandbox, .. } => {
                if sandbox.next_deadline().is_some_and(|at| at <= self.time(world.now)) {
                    actions.push(Action::EnforceDeadlines { plane, slot });
                }
                for dead in dead_nodes(world, sandbox) {
                    actions.push(Action::Adopt { plane, slot, dead });
                }
                for request in self.bounds.request_kinds {
                    if world.budget.requests > 0 && is_possible(world, slot, sandbox, *request) {
                        actions.push(Action::Request { plane, slot, request: *request });
                    }
                }
                !sandbox.lease.may_have_instance()
            }
        };
        if no_instance && let Some(instance) = world.instances.iter().find(|instance| instance.slot == slot) {
            actions.push(Action::LeaseStray { plane, slot, generation: instance.generation });
        }
    }

    fn list_of_effect(&self, world: &World, index: usize, run: &EffectRun, actions: &mut Vec<Action>) {
        let awake = world.is_awake(run.effect.pending.node);
        let may_fail = world.budget.faults > 0;
        match &run.stage {
            // The helper process that creates the instance continues by itself.
            Stage::Permitted => {
                actions.push(Action::Advance { run: index });
                if may_fail {
                    actions.push(Action::Fail { run: index });
                }
            }
            _ if !awake => {}
            Stage::Completed(_) => {
                let uncommitted = world
                    .planes
                    .iter()
                    .any(|plane| plane.node == run.effect.pending.node && plane.uncommitted.is_some());
                if !uncommitted {
                    actions.push(Action::Deliver { run: index });
                    if may_fail {
                        actions.push(Action::DeliverAndKeep { run: index });
                    }
                }
            }
            Stage::MarkerWritten => actions.push(Action::Advance { run: index }),
            Stage::Removed | Stage::Pending => {
                actions.push(Action::Advance { run: index });
                if may_fail && !matches!(run.effect.kind, EffectKind::Launch | EffectKind::Watch { .. }) {
                    actions.push(Action::Fail { run: index });
                }
            }
        }
    }

    /// A running node acts on due deadlines before time advances. If all nodes are down, time advances anyway.
    fn time_may_pass(&self, world: &World) -> bool {
        let mut awake = world.planes.iter().filter(|plane| plane.condition == Condition::Awake);
        let Some(first) = awake.clone().next() else {
            return true;
        };
        let ctx = self.context(world.now, first.node);
        awake.all(|plane| plane.uncommitted.is_none())
            && world.rows.iter().filter_map(Row::sandbox).all(|sandbox| {
                sandbox.next_deadline().is_none_or(|at| at > ctx.now)
                    || step(sandbox, Event::TimePassed, ctx).sandbox == *sandbox
            })
    }
}

/// Whether anything depends on this node. Otherwise its absence has no effect.
fn is_needed(world: &World, plane: &ControlPlane) -> bool {
    let owns = |sandbox: &Sandbox| sandbox.owner == plane.node && !sandbox.is_settled();
    plane.uncommitted.is_some()
        || world.effect_runs.iter().any(|run| run.effect.pending.node == plane.node)
        || world.rows.iter().filter_map(Row::sandbox).any(owns)
}

/// Nodes that are not running, and that own the row or one of its pending effects.
fn dead_nodes(world: &World, sandbox: &Sandbox) -> Vec<NodeId> {
    if sandbox.is_settled() {
        return Vec::new();
    }
    let busy = sandbox.effects().into_iter().map(|Effect { pending, .. }| pending.node);
    let mut nodes: Vec<_> = busy.chain([sandbox.owner]).filter(|node| !world.is_awake(*node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Skips requests that would certainly be refused.
fn is_possible(world: &World, slot: u8, sandbox: &Sandbox, request: ExternalRequest) -> bool {
    let known = |number| sandbox.executions.iter().any(|execution| execution.id == execution_id(number));
    match request {
        ExternalRequest::Execute(number) => {
            !known(number) && world.memory[usize::from(slot)].outcomes[usize::from(number)].is_none()
        }
        ExternalRequest::Cancel(number) => known(number),
        ExternalRequest::Attest => matches!(sandbox.lease, Lease::Quarantined { .. }),
        ExternalRequest::Restart => matches!(sandbox.lease, Lease::Starting { .. } | Lease::Live(_)),
        ExternalRequest::KeepAlive
        | ExternalRequest::Doubt
        | ExternalRequest::Claim
        | ExternalRequest::ClaimShort => {
            matches!(sandbox.lease, Lease::Live(_))
        }
        ExternalRequest::DiscardPooled => matches!(sandbox.life, Life::Wanted),
        ExternalRequest::Stop | ExternalRequest::StopForShutdown | ExternalRequest::StopForced => {
            !sandbox.is_settled()
        }
        ExternalRequest::Forget => true,
        ExternalRequest::CorruptRow => matches!(sandbox.life, Life::Wanted),
    }
}

impl Action {
    /// One line of a counterexample, described in the state in which it happens.
    #[must_use]
    pub fn describe(&self, world: &World) -> String {
        let node = |plane: &usize| world.planes[*plane].node.0;
        let of = |run: &usize| {
            let EffectRun { slot, effect, stage, .. } = &world.effect_runs[*run];
            let (by, fence, generation) =
                (effect.pending.node.0, effect.pending.fence.0, effect.generation.0);
            format!(
                "{:?} of generation {generation} for sandbox {slot} (node {by}, fence {fence}, {stage:?})",
                effect.kind
            )
        };
        let what = match self {
            Self::Create { plane, slot } => format!("node {} creates sandbox {slot}", node(plane)),
            Self::Request { plane, slot, request } => {
                format!("node {} gets request {request:?} for sandbox {slot}", node(plane))
            }
            Self::EnforceDeadlines { plane, slot } => {
                format!("node {} enforces due deadlines of sandbox {slot}", node(plane))
            }
            Self::Adopt { plane, slot, dead } => {
                format!("node {} adopts sandbox {slot} from node {}", node(plane), dead.0)
            }
            Self::LeaseStray { plane, slot, generation } => {
                let generation = generation.0;
                format!("node {} leases a stray of sandbox {slot}, generation {generation}", node(plane))
            }
            Self::QuarantineUnreadable { plane, slot } => {
                format!("node {} cannot read sandbox {slot}", node(plane))
            }
            Self::Commit { plane } => format!("node {} commits", node(plane)),
            Self::Advance { run } => format!("next step: {}", of(run)),
            Self::Fail { run } => format!("fails: {}", of(run)),
            Self::Deliver { run } => format!("result delivered: {}", of(run)),
            Self::DeliverAndKeep { run } => format!("result delivered, and will be again: {}", of(run)),
            Self::InstanceDies { instance } => format!("instance dies: {:?}", world.instances[*instance]),
            Self::ProcessExits { instance, execution } => {
                format!("execution {execution} exits in {:?}", world.instances[*instance])
            }
            Self::Crash { plane } => format!("node {} crashes", node(plane)),
            Self::Restart { plane } => format!("node {} restarts as another node", node(plane)),
            Self::Pause { plane } => format!("node {} is paused", node(plane)),
            Self::Wake { plane } => format!("node {} resumes", node(plane)),
            Self::Tick => "a tick".to_owned(),
        };
        format!("t={} {what}", world.now)
    }
}
