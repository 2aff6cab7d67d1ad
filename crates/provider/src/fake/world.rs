//! The physical world of the fake: marks, bodies, processes. It outlives the engines that act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pinfold_lifecycle::{ExecutionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::process::Process;
use super::shared::Locked;
use crate::{Capacity, DiscoverError, InstanceId};

/// What is there, shared by every engine on the host.
#[derive(Debug, Default)]
pub struct FakeWorld {
    contents: Mutex<Contents>,
    /// Where several processes share it.
    file: Option<PathBuf>,
    /// What the host has left. None: plenty.
    capacity: Mutex<Option<Result<Capacity, DiscoverError>>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contents {
    #[serde(with = "super::shared::pairs")]
    pub(crate) bodies: BTreeMap<InstanceId, Anatomy>,
    /// Grows with every mark, so that a launch knows its own from a later one.
    last_mark: u64,
}

/// A body and its parts. One with only a mark is inert: nothing runs in it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Anatomy {
    pub(crate) mark: u64,
    pub(crate) alive: bool,
    pub(crate) processes: BTreeMap<ExecutionId, Process>,
    /// Executions that were killed, also before they were started, or refused.
    pub(crate) killed: BTreeSet<ExecutionId>,
    pub(crate) ends_at: Timestamp,
}

/// What a checker sees, without going through the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Physical {
    pub body: InstanceId,
    /// Something can run in it. False: only a mark.
    pub alive: bool,
    pub running: usize,
    /// When it ends itself.
    pub ends_at: Timestamp,
}

impl FakeWorld {
    /// A world that several processes share, and that outlives them.
    #[must_use]
    pub fn on_file(file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// What the host is found to have left from now on.
    pub fn has_left(&self, capacity: Result<Capacity, DiscoverError>) {
        *self.capacity.lock().unwrap_or_else(PoisonError::into_inner) = Some(capacity);
    }

    pub(crate) fn capacity(&self) -> Result<Capacity, DiscoverError> {
        let plenty = Capacity {
            memory_mb_left: Some(1_024),
            disk_mb_left: Some(1_024),
            processes_left: Some(1_024),
            memory_mb_total: Some(2_048),
            disk_mb_total: Some(2_048),
            processes_total: Some(2_048),
            ids_left: Some(1_024),
            disk_unusable: None,
        };
        let capacity = self.capacity.lock().unwrap_or_else(PoisonError::into_inner);
        capacity.clone().unwrap_or(Ok(plenty))
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        Locked::new(contents, self.file.as_deref())
    }

    #[must_use]
    pub fn everything(&self, now: Timestamp) -> Vec<Physical> {
        let contents = self.lock();
        let bodies = contents.bodies.iter();
        bodies
            .map(|(body, anatomy)| Physical {
                body: *body,
                alive: anatomy.is_alive(now),
                running: anatomy.running(now),
                ends_at: anatomy.ends_at,
            })
            .collect()
    }

    /// A body dies by itself, with all that is in it; `leave_mark`: not without a trace.
    pub fn kill_body(&self, body: InstanceId, leave_mark: bool) {
        let mut contents = self.lock();
        if leave_mark {
            if let Some(anatomy) = contents.bodies.get_mut(&body) {
                anatomy.die();
            }
        } else {
            contents.bodies.remove(&body);
        }
    }

    /// The host restarts: nothing that ran is left.
    pub fn reboot(&self) {
        self.lock().bodies.clear();
    }
}

impl Contents {
    /// Makes the mark of a launch, or finds the body already there.
    pub(crate) fn mark(&mut self, body: InstanceId) -> u64 {
        self.last_mark += 1;
        let mark = self.last_mark;
        let anatomy = self.bodies.entry(body).or_default();
        anatomy.mark = mark;
        mark
    }

    pub(crate) fn marked(&mut self, body: InstanceId, mark: u64) -> Option<&mut Anatomy> {
        self.bodies.get_mut(&body).filter(|anatomy| anatomy.mark == mark)
    }

    /// Takes back the mark of a launch that is no longer wanted, if nothing else has become of it.
    pub(crate) fn unmark(&mut self, body: InstanceId, mark: u64) {
        if self.marked(body, mark).is_some_and(|anatomy| !anatomy.alive) {
            self.bodies.remove(&body);
        }
    }

    pub(crate) fn alive(&mut self, body: InstanceId, now: Timestamp) -> Option<&mut Anatomy> {
        self.bodies.get_mut(&body).filter(|anatomy| anatomy.is_alive(now))
    }

    /// Ends the bodies that are covered; `leave_marks`: what ran is dead, the rest is still there.
    pub(crate) fn end_bodies(&mut self, leave_marks: bool, is_covered: impl Fn(InstanceId) -> bool) {
        if leave_marks {
            for (_, anatomy) in self.bodies.iter_mut().filter(|(body, _)| is_covered(**body)) {
                anatomy.die();
            }
        } else {
            self.bodies.retain(|body, _| !is_covered(*body));
        }
    }
}

impl Anatomy {
    /// It also ends itself when its time is up.
    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        self.alive && now < self.ends_at
    }

    /// Nothing that ran in it before its end comes back with it.
    pub(crate) fn come_alive(&mut self, ends_at: Timestamp, now: Timestamp) {
        if !self.is_alive(now) {
            self.processes.clear();
        }
        self.alive = true;
        self.ends_at = ends_at;
    }

    /// What remains is inert, and nobody's launch can make it whole again.
    pub(crate) fn die(&mut self) {
        self.alive = false;
        self.mark = 0;
        self.processes.clear();
    }

    pub(crate) fn running(&self, now: Timestamp) -> usize {
        if !self.is_alive(now) {
            return 0;
        }
        self.processes.values().filter(|process| process.outcome(now).is_none()).count()
    }
}
