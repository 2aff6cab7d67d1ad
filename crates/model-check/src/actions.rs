//! What may happen next in a world, and how a counterexample tells it.

use pinfold_lifecycle::{Effect, EffectKind, Event, Generation, Lease, Life, NodeId, Sandbox, step};

use crate::model::execution_id;
use crate::world::{Condition, Inside, Job, Plane, Row, Stage};
use crate::{Small, Wish, World};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    Create {
        plane: usize,
        place: u8,
    },
    Ask {
        plane: usize,
        place: u8,
        wish: Wish,
    },
    LetTimePass {
        plane: usize,
        place: u8,
    },
    Adopt {
        plane: usize,
        place: u8,
        dead: NodeId,
    },
    LeaseStray {
        plane: usize,
        place: u8,
        generation: Generation,
    },
    QuarantineUnreadable {
        plane: usize,
        place: u8,
    },
    /// Commits what was decided before.
    Commit {
        plane: usize,
    },
    Advance {
        job: usize,
    },
    /// The next step of the work goes wrong.
    Fail {
        job: usize,
    },
    /// An answer that is never delivered is one that is lost: no action is needed for that.
    Deliver {
        job: usize,
    },
    DeliverAndKeep {
        job: usize,
    },
    BodyDies {
        thing: usize,
    },
    ProcessExits {
        thing: usize,
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

impl Small {
    pub(crate) fn list(&self, world: &World, actions: &mut Vec<Action>) {
        for (index, plane) in world.planes.iter().enumerate() {
            self.list_of_plane(world, index, plane, actions);
        }
        for (index, job) in world.jobs.iter().enumerate() {
            self.list_of_job(world, index, job, actions);
        }
        for (thing, body) in world.things.iter().enumerate().filter(|(_, thing)| thing.whole) {
            if world.left.faults > 0 {
                actions.push(Action::BodyDies { thing });
            }
            for (execution, inside) in body.inside.iter().enumerate() {
                if self.bounds.processes_end && matches!(inside, Inside::Running { .. }) {
                    actions.push(Action::ProcessExits { thing, execution });
                }
            }
        }
        if world.now < self.bounds.ticks && self.time_may_pass(world) {
            actions.push(Action::Tick);
        }
    }

    fn list_of_plane(&self, world: &World, index: usize, plane: &Plane, actions: &mut Vec<Action>) {
        match plane.condition {
            Condition::Crashed => return actions.push(Action::Restart { plane: index }),
            Condition::Paused => return actions.push(Action::Wake { plane: index }),
            Condition::Awake => {}
        }
        if is_needed(world, plane) {
            if world.left.crashes > 0 {
                actions.push(Action::Crash { plane: index });
            }
            if world.left.pauses > 0 {
                actions.push(Action::Pause { plane: index });
            }
        }
        if plane.held.is_some() {
            return actions.push(Action::Commit { plane: index });
        }
        // Where decisions are not made apart, it makes no difference who of those awake is asked.
        let earlier_awake = world.planes[..index].iter().any(|earlier| earlier.condition == Condition::Awake);
        if earlier_awake && !self.bounds.decides_apart {
            return;
        }
        for place in 0..self.bounds.sandboxes {
            self.list_of_sandbox(world, index, place, actions);
        }
    }

    fn list_of_sandbox(&self, world: &World, plane: usize, place: u8, actions: &mut Vec<Action>) {
        let no_body = match &world.rows[usize::from(place)] {
            Row::Unborn => return actions.push(Action::Create { plane, place }),
            Row::Unreadable { .. } => return actions.push(Action::QuarantineUnreadable { plane, place }),
            Row::Forgotten { .. } => true,
            Row::Stored { sandbox, .. } => {
                if sandbox.next_deadline().is_some_and(|at| at <= self.time(world.now)) {
                    actions.push(Action::LetTimePass { plane, place });
                }
                for dead in left_behind(world, sandbox) {
                    actions.push(Action::Adopt { plane, place, dead });
                }
                for wish in self.bounds.wish_list {
                    if world.left.wishes > 0 && makes_sense(world, place, sandbox, *wish) {
                        actions.push(Action::Ask { plane, place, wish: *wish });
                    }
                }
                !sandbox.lease.may_have_a_body()
            }
        };
        if no_body && let Some(thing) = world.things.iter().find(|thing| thing.place == place) {
            actions.push(Action::LeaseStray { plane, place, generation: thing.generation });
        }
    }

    fn list_of_job(&self, world: &World, index: usize, job: &Job, actions: &mut Vec<Action>) {
        let awake = world.is_awake(job.effect.duty.by);
        let may_fail = world.left.faults > 0;
        match &job.stage {
            // The helper that makes the body goes on by itself.
            Stage::Permitted => {
                actions.push(Action::Advance { job: index });
                if may_fail {
                    actions.push(Action::Fail { job: index });
                }
            }
            _ if !awake => {}
            Stage::Answered(_) => {
                let held =
                    world.planes.iter().any(|plane| plane.node == job.effect.duty.by && plane.held.is_some());
                if !held {
                    actions.push(Action::Deliver { job: index });
                    if may_fail {
                        actions.push(Action::DeliverAndKeep { job: index });
                    }
                }
            }
            Stage::Marked => actions.push(Action::Advance { job: index }),
            Stage::Removed | Stage::Due => {
                actions.push(Action::Advance { job: index });
                if may_fail && !matches!(job.effect.work, EffectKind::Launch | EffectKind::Watch { .. }) {
                    actions.push(Action::Fail { job: index });
                }
            }
        }
    }

    /// An awake plane does what is due before time goes on. If all are down, time goes on anyway.
    fn time_may_pass(&self, world: &World) -> bool {
        let mut awake = world.planes.iter().filter(|plane| plane.condition == Condition::Awake);
        let Some(first) = awake.clone().next() else {
            return true;
        };
        let ctx = self.context(world.now, first.node);
        awake.all(|plane| plane.held.is_none())
            && world.rows.iter().filter_map(Row::sandbox).all(|sandbox| {
                sandbox.next_deadline().is_none_or(|at| at > ctx.now)
                    || step(sandbox, Event::TimePassed, ctx).sandbox == *sandbox
            })
    }
}

/// Whether anything depends on this plane. The absence of any other is not noticed.
fn is_needed(world: &World, plane: &Plane) -> bool {
    let owns = |sandbox: &Sandbox| sandbox.owner == plane.node && !sandbox.is_settled();
    plane.held.is_some()
        || world.jobs.iter().any(|job| job.effect.duty.by == plane.node)
        || world.rows.iter().filter_map(Row::sandbox).any(owns)
}

/// Nodes that are not awake and that the row still counts on.
fn left_behind(world: &World, sandbox: &Sandbox) -> Vec<NodeId> {
    if sandbox.is_settled() {
        return Vec::new();
    }
    let busy = sandbox.effects().into_iter().map(|Effect { duty, .. }| duty.by);
    let mut nodes: Vec<_> = busy.chain([sandbox.owner]).filter(|node| !world.is_awake(*node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Leaves out what would certainly be refused.
fn makes_sense(world: &World, place: u8, sandbox: &Sandbox, wish: Wish) -> bool {
    let known = |number| sandbox.executions.iter().any(|execution| execution.id == execution_id(number));
    match wish {
        Wish::Execute(number) => {
            !known(number) && world.memory[usize::from(place)].outcomes[usize::from(number)].is_none()
        }
        Wish::Cancel(number) => known(number),
        Wish::Attest => matches!(sandbox.lease, Lease::Quarantined { .. }),
        Wish::Restart => matches!(sandbox.lease, Lease::Starting { .. } | Lease::Live(_)),
        Wish::KeepAlive | Wish::Doubt | Wish::Claim | Wish::ClaimShort => {
            matches!(sandbox.lease, Lease::Live(_))
        }
        Wish::GiveUp => matches!(sandbox.life, Life::Wanted),
        Wish::Stop | Wish::StopForShutdown | Wish::StopForced => !sandbox.is_settled(),
        Wish::Forget => true,
        Wish::Spoil => matches!(sandbox.life, Life::Wanted),
    }
}

impl Action {
    /// One line of a counterexample, told in the world in which it happens.
    #[must_use]
    pub fn tell(&self, world: &World) -> String {
        let node = |plane: &usize| world.planes[*plane].node.0;
        let of = |job: &usize| {
            let Job { place, effect, stage, .. } = &world.jobs[*job];
            let (by, ticket, generation) = (effect.duty.by.0, effect.duty.ticket.0, effect.generation.0);
            format!(
                "{:?} of generation {generation} for sandbox {place} (node {by}, ticket {ticket}, {stage:?})",
                effect.work
            )
        };
        let what = match self {
            Self::Create { plane, place } => format!("node {} creates sandbox {place}", node(plane)),
            Self::Ask { plane, place, wish } => {
                format!("node {} is asked for {wish:?} of sandbox {place}", node(plane))
            }
            Self::LetTimePass { plane, place } => {
                format!("node {} sees what is due for sandbox {place}", node(plane))
            }
            Self::Adopt { plane, place, dead } => {
                format!("node {} adopts sandbox {place} from node {}", node(plane), dead.0)
            }
            Self::LeaseStray { plane, place, generation } => {
                let generation = generation.0;
                format!("node {} leases a stray of sandbox {place}, generation {generation}", node(plane))
            }
            Self::QuarantineUnreadable { plane, place } => {
                format!("node {} cannot read sandbox {place}", node(plane))
            }
            Self::Commit { plane } => format!("node {} commits", node(plane)),
            Self::Advance { job } => format!("goes on: {}", of(job)),
            Self::Fail { job } => format!("goes wrong: {}", of(job)),
            Self::Deliver { job } => format!("is delivered: {}", of(job)),
            Self::DeliverAndKeep { job } => format!("is delivered, not for the last time: {}", of(job)),
            Self::BodyDies { thing } => format!("dies by itself: {:?}", world.things[*thing]),
            Self::ProcessExits { thing, execution } => {
                format!("execution {execution} exits in {:?}", world.things[*thing])
            }
            Self::Crash { plane } => format!("node {} crashes", node(plane)),
            Self::Restart { plane } => format!("node {} is restarted as another", node(plane)),
            Self::Pause { plane } => format!("node {} is paused", node(plane)),
            Self::Wake { plane } => format!("node {} wakes", node(plane)),
            Self::Tick => "a tick".to_owned(),
        };
        format!("t={} {what}", world.now)
    }
}
