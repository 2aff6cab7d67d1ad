//! State of the fake host: markers, instances, processes. It outlives the engines that use it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pinfold_lifecycle::{Cause, ExecutionId, Limits, ResourceUsage, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

use super::file_tree::FileTree;
use super::output::SandboxOutput;
use super::process::Process;
use super::shared::Locked;
use super::shell::Written;
use crate::{Capacity, DiscoverError, InstanceId, Usage};

/// The fake host, shared by its engines.
#[derive(Debug, Default)]
pub struct FakeWorld {
    contents: Mutex<Contents>,
    /// The file, if several processes share the host.
    file: Option<PathBuf>,
    /// Configured free capacity. None: ample.
    capacity: Mutex<Option<Result<Capacity, DiscoverError>>>,
    /// The sandboxes whose output is locked.
    pub(crate) locked_outputs: Mutex<BTreeSet<SandboxId>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contents {
    #[serde(with = "super::shared::pairs")]
    pub(crate) instances: BTreeMap<InstanceId, FakeInstance>,
    /// It outlives the instances.
    pub(crate) output: BTreeMap<SandboxId, SandboxOutput>,
    /// Incremented by every launch, so that a launch recognizes its own marker.
    last_marker: u64,
}

/// An instance. With only a marker, nothing can run in it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FakeInstance {
    pub(crate) marker: u64,
    pub(crate) alive: bool,
    pub(crate) processes: BTreeMap<ExecutionId, Process>,
    /// Executions killed (also before their start) or refused.
    pub(crate) killed: BTreeSet<ExecutionId>,
    pub(crate) ends_at: Timestamp,
    pub(crate) limits: Limits,
    pub(crate) files: FileTree,
    /// Executions started, output chunks kept and file requests served.
    pub(crate) operations: u64,
    memory_peak_bytes: u64,
}

/// Memory of the keeper, and of each process.
const PROCESS_BYTES: u64 = 1 << 20;

/// An instance as a test sees it, bypassing the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhysicalInstance {
    pub instance: InstanceId,
    /// Processes can run in it. False: only a marker exists.
    pub alive: bool,
    pub running: usize,
    /// When the instance ends itself.
    pub ends_at: Timestamp,
}

impl FakeWorld {
    /// A host shared by several processes through a file.
    #[must_use]
    pub fn on_file(file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// Sets the capacity that the host reports.
    pub fn set_capacity(&self, capacity: Result<Capacity, DiscoverError>) {
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
            disk_unusable: None,
        };
        let capacity = self.capacity.lock().unwrap_or_else(PoisonError::into_inner);
        capacity.clone().unwrap_or(Ok(plenty))
    }

    /// Locks the host after its processes have run up to this time.
    pub(crate) fn lock_at(&self, now: Timestamp) -> Locked<'_> {
        let mut contents = self.lock();
        contents.advance(now);
        contents
    }

    fn lock(&self) -> Locked<'_> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        Locked::new(contents, self.file.as_deref())
    }

    #[must_use]
    pub fn instances(&self, now: Timestamp) -> Vec<PhysicalInstance> {
        let contents = self.lock_at(now);
        let instances = contents.instances.iter();
        instances
            .map(|(instance, fake)| PhysicalInstance {
                instance: *instance,
                alive: fake.is_alive(now),
                running: fake.running(now),
                ends_at: fake.ends_at,
            })
            .collect()
    }

    /// Kills an instance with all its processes; with `leave_marker` its marker stays.
    pub fn kill_instance(&self, instance: InstanceId, leave_marker: bool) {
        let mut contents = self.lock();
        if leave_marker {
            if let Some(fake) = contents.instances.get_mut(&instance) {
                fake.die();
            }
        } else {
            contents.instances.remove(&instance);
        }
    }

    /// Reboots the host: every instance is gone.
    pub fn reboot(&self) {
        self.lock().instances.clear();
    }
}

impl Contents {
    pub(crate) fn advance(&mut self, now: Timestamp) {
        for (instance, fake) in self.instances.iter_mut().filter(|(_, fake)| fake.alive) {
            for (execution, written) in fake.advance(now) {
                self.output.entry(instance.sandbox).or_default().append(execution, written);
            }
        }
    }

    /// Sets the marker of a launch.
    pub(crate) fn marker(&mut self, instance: InstanceId) -> u64 {
        self.last_marker += 1;
        let marker = self.last_marker;
        let fake = self.instances.entry(instance).or_default();
        fake.marker = marker;
        marker
    }

    pub(crate) fn with_marker(&mut self, instance: InstanceId, marker: u64) -> Option<&mut FakeInstance> {
        self.instances.get_mut(&instance).filter(|fake| fake.marker == marker)
    }

    /// Removes the marker of a cancelled launch, unless the instance became alive.
    pub(crate) fn remove_marker(&mut self, instance: InstanceId, marker: u64) {
        if self.with_marker(instance, marker).is_some_and(|fake| !fake.alive) {
            self.instances.remove(&instance);
        }
    }

    pub(crate) fn alive(&mut self, instance: InstanceId, now: Timestamp) -> Option<&mut FakeInstance> {
        self.instances.get_mut(&instance).filter(|fake| fake.is_alive(now))
    }

    /// Ends the covered instances; with `leave_markers` their markers stay.
    pub(crate) fn end_instances(
        &mut self,
        leave_markers: bool,
        now: Timestamp,
        is_covered: impl Fn(InstanceId) -> bool,
    ) -> EndedInstances {
        let mut ended = EndedInstances::default();
        for (_, fake) in self.instances.iter_mut().filter(|(instance, _)| is_covered(**instance)) {
            ended.freed_bytes += fake.files.size();
            ended.used = fake.alive.then(|| fake.life_usage(now)).or(ended.used);
            fake.die();
        }
        if !leave_markers {
            self.instances.retain(|instance, _| !is_covered(*instance));
        }
        ended
    }
}

/// What a stop ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndedInstances {
    pub(crate) freed_bytes: u64,
    /// Of the last of them. None: none was alive.
    pub(crate) used: Option<ResourceUsage>,
}

impl FakeInstance {
    /// An instance ends itself when its time is up.
    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        self.alive && now < self.ends_at
    }

    /// Processes and files from before its end do not come back.
    pub(crate) fn set_alive(&mut self, limits: Limits, ends_at: Timestamp, now: Timestamp) {
        if !self.is_alive(now) {
            self.processes.clear();
            self.files = FileTree::new(now);
            self.operations = 0;
        }
        self.alive = true;
        self.limits = limits;
        self.ends_at = ends_at;
    }

    /// What remains is inert, and no launch in progress can complete it.
    pub(crate) fn die(&mut self) {
        self.alive = false;
        self.marker = 0;
        self.processes.clear();
        self.files = FileTree::default();
    }

    pub(crate) fn running(&self, now: Timestamp) -> usize {
        if !self.is_alive(now) {
            return 0;
        }
        self.processes.values().filter(|process| process.outcome().is_none()).count()
    }

    /// Runs its processes up to a time, in the order of events, and returns what they wrote.
    fn advance(&mut self, now: Timestamp) -> Vec<(ExecutionId, Written)> {
        let until = now.min(self.ends_at);
        let mut all_written = Vec::new();
        loop {
            let events = self.processes.iter_mut().filter_map(|(id, it)| Some((it.next_event()?, *id, it)));
            let next = events.min_by_key(|(at, id, _)| (*at, *id));
            let Some((at, execution, process)) = next.filter(|(at, ..)| *at <= until) else { break };
            let written = process.step(&mut self.files);
            self.operations += written.len() as u64;
            self.enforce_operations(at);
            all_written.extend(written.into_iter().map(|written| (execution, written)));
        }
        self.memory_peak_bytes = self.memory_peak_bytes.max(self.memory_bytes(until));
        all_written
    }

    /// Whether this many operations are within the limit.
    pub(crate) fn allows(&self, operations: u64) -> bool {
        self.limits.operations.is_none_or(|most| operations <= most)
    }

    /// Ends all executions when there were too many operations.
    fn enforce_operations(&mut self, now: Timestamp) {
        if !self.allows(self.operations) {
            self.processes.values_mut().for_each(|process| process.kill(Cause::OperationLimit, now));
        }
    }

    fn memory_bytes(&self, now: Timestamp) -> u64 {
        (1 + self.running(now) as u64) * PROCESS_BYTES
    }

    pub(crate) fn usage(&self, now: Timestamp) -> Usage {
        Usage {
            cpu_ms: Some(self.cpu_ms(now)),
            runs: Some(self.processes.values().any(Process::is_runnable)),
            memory_bytes: Some(self.memory_bytes(now)),
            memory_peak_bytes: Some(self.memory_peak_bytes),
            disk_bytes: Some(self.files.size()),
            processes: Some(self.running(now) as u64),
            io_read_bytes: Some(0),
            io_written_bytes: Some(0),
            operations: self.operations,
        }
    }

    /// What a receipt says about its life.
    pub(crate) fn life_usage(&self, now: Timestamp) -> ResourceUsage {
        ResourceUsage {
            cpu_ms: Some(self.cpu_ms(now)),
            memory_peak_bytes: Some(self.memory_peak_bytes),
            io_read_bytes: Some(0),
            io_written_bytes: Some(0),
        }
    }

    fn cpu_ms(&self, now: Timestamp) -> u64 {
        self.processes.values().map(|process| process.cpu_ms(now)).sum()
    }
}
