//! The keeper's event loop over its control socket, executions and their output, exited children and deadlines.
//! No step blocks, and each iteration does a bounded amount of work per source.

mod operations;
mod requests;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, wait};
use rustix::time::{ClockId, clock_gettime};

use crate::connection::{AwaitedEnd, Connection};
use crate::console::ConsoleDevices;
use crate::disk::DiskWatch;
use crate::execution::{Execution, MAX_EXIT_CHECK_MS};
use crate::files::children::{self, FileChildren};
use crate::limit_counters::LimitCounters;
use crate::probe::PendingProbe;
use crate::process_tree::ProcessTree;
use crate::syscalls;
use pinfold_confine::{Confinement, Limits, ProcessTracking, Profile};
use pinfold_keeper_wire::files::{FileReason, FileRequest};
use pinfold_keeper_wire::{
    Ended, EndedBy, InstanceLimits, ProbeFailure, RefusalReason, Request, Response, WorkloadCgroup,
};
use pinfold_output_log::SpareLog;

/// What a new keeper gets from the spawner.
pub(crate) struct KeeperInit {
    pub(crate) listener: UnixListener,
    pub(crate) output: OwnedFd,
    pub(crate) workload_cgroups: Vec<OwnedFd>,
    pub(crate) workload: WorkloadDescriptors,
    pub(crate) limits: InstanceLimits,
    /// Directories of the host that are mounted inside.
    pub(crate) shared: Vec<PathBuf>,
    pub(crate) secret: String,
    pub(crate) lifetime_ms: u64,
    /// Becomes readable when the process that this sandbox belongs to exits.
    pub(crate) caller: Option<OwnedFd>,
    /// Result of the setup: mounts and network.
    pub(crate) setup_result: Result<(), String>,
}

/// Descriptors of the cgroup of all executions.
#[derive(Default)]
pub(crate) struct WorkloadDescriptors {
    directory: Option<OwnedFd>,
    counters: LimitCounters,
}

impl WorkloadDescriptors {
    pub(crate) fn of(which: WorkloadCgroup, descriptors: Vec<OwnedFd>) -> Self {
        let mut descriptors = descriptors.into_iter();
        let mut next = |present: bool| if present { descriptors.next() } else { None };
        Self {
            directory: next(which.directory),
            counters: LimitCounters {
                memory: next(which.memory_events).map(Into::into),
                processes: next(which.process_events).map(Into::into),
            },
        }
    }
}

/// How long a new keeper waits for `Confirm` before it exits.
const CONFIRM_WITHIN_MS: i64 = 10_000;

struct Keeper {
    init: KeeperInit,
    /// Confinement of executions.
    confinement: Confinement,
    /// None if the setup failed.
    devices: Option<ConsoleDevices>,
    signals: OwnedFd,
    confirmed: bool,
    ends_at_ms: i64,
    running: BTreeMap<String, Execution>,
    ended: BTreeMap<String, Ended>,
    /// Execution ids that are never started here: killed or refused before.
    refused_ids: BTreeMap<String, (RefusalReason, String)>,
    /// Process trees of failed starts and of probes, until they are gone.
    dying_trees: Vec<ProcessTree>,
    pending_probes: Vec<PendingProbe>,
    /// Number of probes so far.
    probes: u64,
    connections: Vec<Connection>,
    files: FileChildren,
    /// More exited children are left to reap.
    more_to_reap: bool,
    /// Executions started, plus output chunks of ended executions.
    operations: u64,
    last_busy_ms: i64,
    disk: DiskWatch,
    spare_log: SpareLog,
}

/// Serves until the deadline. When process 1 exits, the kernel kills everything else inside.
pub(crate) fn run(mut init: KeeperInit) -> io::Result<()> {
    let now = now_ms();
    init.listener.set_nonblocking(true)?;
    // Open the devices before untrusted code can replace them.
    let devices = ConsoleDevices::open();
    let confined = confinement(init.limits);
    let failure = [devices.as_ref().err().map(ToString::to_string), confined.as_ref().err().cloned()];
    if let (Ok(()), Some(why)) = (&init.setup_result, failure.into_iter().flatten().next()) {
        init.setup_result = Err(why);
    }
    // With a bad profile the keeper refuses `Confirm`. Until it exits it is confined by the default profile.
    let mut confinement = match confined {
        Ok(confinement) => confinement,
        Err(_) => Confinement::prepare(&Profile::default()).map_err(io::Error::other)?,
    };
    let tracking = if init.workload.directory.is_some() {
        ProcessTracking::Cgroups
    } else {
        ProcessTracking::CgroupNamespaces
    };
    // Code inside has the keeper's ids. From here on it cannot read this process's memory or descriptors.
    confinement.apply_to_keeper(tracking).map_err(io::Error::other)?;
    #[cfg(feature = "weakened")]
    crate::disabled_guards::make_keeper_dumpable()?;
    let mut keeper = Keeper {
        confinement,
        devices: devices.ok(),
        signals: syscalls::signal_fd(&[libc::SIGCHLD])?,
        confirmed: false,
        ends_at_ms: now.saturating_add(CONFIRM_WITHIN_MS),
        init,
        running: BTreeMap::new(),
        ended: BTreeMap::new(),
        refused_ids: BTreeMap::new(),
        dying_trees: Vec::new(),
        pending_probes: Vec::new(),
        probes: 0,
        connections: Vec::new(),
        files: FileChildren::default(),
        more_to_reap: false,
        operations: 0,
        last_busy_ms: now,
        disk: DiskWatch::default(),
        spare_log: SpareLog::default(),
    };
    while now_ms() < keeper.ends_at_ms {
        keeper.run_once()?;
    }
    Ok(())
}

fn confinement(limits: InstanceLimits) -> Result<Confinement, String> {
    let usual = Limits::default();
    let limits = Limits { open_files: limits.open_files.unwrap_or(usual.open_files), ..usual };
    let profile = Profile { limits, ..Profile::default() };
    #[cfg(feature = "weakened")]
    let profile = crate::disabled_guards::profile(profile);
    Confinement::prepare(&profile).map_err(|error| error.to_string())
}

/// Delay after a command before the spare log file for the next one is made.
const SPARE_LOG_AFTER_MS: i64 = 1;

/// Children reaped per iteration: code inside can create them without end.
const MAX_REAPED_AT_ONCE: usize = 64;

/// Monotonic time since boot: changing the wall clock does not extend a sandbox's life.
fn now_ms() -> i64 {
    milliseconds(ClockId::Boottime)
}

fn wall_ms() -> i64 {
    milliseconds(ClockId::Realtime)
}

fn milliseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// A ready event source.
enum Event {
    Signal,
    NewConnection,
    CallerGone,
    Connection(usize),
    Output(String, usize),
    Input(String),
}

impl Keeper {
    fn run_once(&mut self) -> io::Result<()> {
        // In reverse, so that removing a connection does not shift the indexes still to be handled.
        for event in self.wait_for_events()?.into_iter().rev() {
            match event {
                Event::Signal => self.reap(),
                Event::NewConnection => self.accept_connections(),
                // End process 1, and with it everything inside.
                Event::CallerGone => self.ends_at_ms = now_ms(),
                Event::Connection(index) => self.handle_requests(index),
                Event::Output(id, index) => self.drain(&id, index),
                Event::Input(id) => self.flush_input(&id),
            }
        }
        if self.more_to_reap {
            self.reap();
        }
        let now = now_ms();
        self.running.values_mut().for_each(|execution| execution.enforce(now));
        self.enforce_operations();
        self.files.end_overdue(now);
        self.disk.check(now, self.running.is_empty());
        self.spare_log.create_if_due(now, &self.init.output);
        self.finish_ended();
        self.expire_probes(now);
        self.dying_trees.retain(|tree| !tree.is_gone());
        Ok(())
    }

    fn wait_for_events(&self) -> io::Result<Vec<Event>> {
        let mut sources = vec![Event::Signal, Event::NewConnection];
        let mut descriptors =
            vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.init.listener, PollFlags::IN)];
        if let Some(caller) = &self.init.caller {
            sources.push(Event::CallerGone);
            descriptors.push(PollFd::new(caller, PollFlags::IN));
        }
        for (index, connection) in self.connections.iter().enumerate() {
            sources.push(Event::Connection(index));
            let readiness =
                if connection.has_unsent() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            descriptors.push(PollFd::new(&connection.stream, readiness));
        }
        for execution in self.running.values() {
            for (index, (_, output)) in execution.outputs.iter().enumerate() {
                sources.push(Event::Output(execution.id.clone(), index));
                descriptors.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
            }
            if let Some(input) = execution.input.as_ref().and_then(|input| input.poll_for_write()) {
                sources.push(Event::Input(execution.id.clone()));
                descriptors.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::OUT));
            }
        }
        let left = if self.more_to_reap { 0 } else { self.next_check().saturating_sub(now_ms()).max(0) };
        let timeout = Timespec { tv_sec: left / 1_000, tv_nsec: (left % 1_000) * 1_000_000 };
        // Wait for events (poll).
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<_> = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        Ok(sources.into_iter().zip(ready).filter_map(|(source, ready)| ready.then_some(source)).collect())
    }

    /// Time of the next scheduled check.
    fn next_check(&self) -> i64 {
        let executions = self.running.values().filter_map(Execution::next_check);
        let probes = self.pending_probes.iter().map(|probe| probe.ends_at_ms);
        let dying_trees =
            (!self.dying_trees.is_empty()).then(|| now_ms().saturating_add_unsigned(MAX_EXIT_CHECK_MS));
        let own = [self.ends_at_ms];
        executions
            .chain(probes)
            .chain(self.files.next_deadline())
            .chain(self.disk.next_check_ms())
            .chain(self.spare_log.next_check_ms())
            .chain(dying_trees)
            .chain(own)
            .min()
            .unwrap_or(self.ends_at_ms)
    }

    /// Reaps exited children: the keeper's own and orphans that the kernel reparented to process 1.
    fn reap(&mut self) {
        // Clear the pending SIGCHLD (read of the signalfd).
        let mut buffer = [0; 128];
        let _ = rustix::io::read(&self.signals, &mut buffer);
        let now = now_ms();
        for _ in 0..MAX_REAPED_AT_ONCE {
            // Reap one exited child without blocking (waitpid WNOHANG).
            let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) else {
                self.more_to_reap = false;
                return;
            };
            // wait also reports stops of a child that asked to be traced by its parent.
            if !status.exited() && !status.signaled() {
                continue;
            }
            if self.files.reaped(pid) {
                continue;
            }
            if let Some(index) = self.pending_probes.iter().position(|probe| probe.pid == pid) {
                let probe = self.pending_probes.swap_remove(index);
                self.answer_probe(probe, PendingProbe::failure(status));
                continue;
            }
            for execution in self.running.values_mut() {
                if execution.reaped(pid, status, now) {
                    break;
                }
            }
        }
        self.more_to_reap = true;
    }

    /// Accepts connections. Their first request has usually arrived by now.
    fn accept_connections(&mut self) {
        while let Ok((stream, _)) = self.init.listener.accept() {
            if let Ok(connection) = Connection::new(stream) {
                self.connections.push(connection);
                self.handle_requests(self.connections.len() - 1);
            }
        }
    }

    fn handle_requests(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Ok(requests) = connection.flush().and_then(|()| connection.read()) else {
            self.connections.remove(index);
            return;
        };
        for request in requests {
            if let Request::Files(request) = request {
                return self.hand_over(index, &request);
            }
            let response = self.respond(index, request);
            if let Some(response) = response
                && self.connections[index].respond(&response).is_err()
            {
                self.connections.remove(index);
                return;
            }
        }
    }

    /// Hands the connection of a file request to a child process.
    fn hand_over(&mut self, connection: usize, request: &FileRequest) {
        let connection = self.connections.remove(connection).into_stream();
        if self.confirmed {
            self.last_busy_ms = now_ms();
            self.files.hand_over(request, connection, &self.confinement, now_ms());
        } else {
            children::refuse(connection, FileReason::Failed, "the launch was not confirmed");
        }
    }

    fn drain(&mut self, id: &str, index: usize) {
        let now = now_ms();
        if let Some(execution) = self.running.get_mut(id) {
            self.last_busy_ms = now;
            if execution.drain(index, now, wall_ms()).is_err() {
                // Output that cannot be stored must not be lost silently: end the execution.
                execution.end(EndedBy::OutputLimit);
                execution.outputs.clear();
            }
        }
    }

    fn flush_input(&mut self, id: &str) {
        if let Some(input) = self.running.get_mut(id).and_then(|execution| execution.input.as_mut()) {
            input.flush();
        }
    }

    fn finish_ended(&mut self) {
        let (now, wall) = (now_ms(), wall_ms());
        let counters = &self.init.workload.counters;
        let finished = self.running.values_mut().filter_map(|execution| {
            let ended = execution.finish(counters, now, wall)?;
            let reported_no_space = execution.reported_no_space && self.disk.is_full();
            let ended = self.disk.explain(ended, execution.started_ms, reported_no_space);
            Some((execution.id.clone(), ended, execution.chunks()))
        });
        for (id, ended, chunks) in finished.collect::<Vec<_>>() {
            self.running.remove(&id);
            self.operations += chunks;
            let ended = self.explain_by_operations(ended);
            self.answer_waiting(&AwaitedEnd::Execution(id.clone()), &Response::Ended(ended));
            self.ended.insert(id, ended);
            // Delayed: many sandboxes end right after their last command and need no further log.
            self.spare_log.schedule(now.saturating_add(SPARE_LOG_AFTER_MS));
        }
    }

    fn expire_probes(&mut self, now: i64) {
        let expired: Vec<_> = self.pending_probes.extract_if(.., |probe| probe.ends_at_ms <= now).collect();
        for probe in expired {
            let failed = probe.kill();
            self.answer_probe(probe, Some(failed));
        }
    }

    fn answer_probe(&mut self, probe: PendingProbe, failed: Option<ProbeFailure>) {
        let response = self.probe_response(probe.nonce, failed);
        self.answer_waiting(&AwaitedEnd::Probe(probe.pid), &response);
        self.dying_trees.extend(probe.tree);
        // Make the spare log file while the control plane records that the sandbox is ready.
        self.spare_log.schedule(now_ms());
    }

    /// Answers all connections that wait for this. One that cannot be answered is closed.
    fn answer_waiting(&mut self, about: &AwaitedEnd, response: &Response) {
        self.connections.retain_mut(|connection| {
            if connection.waits_for.as_ref() != Some(about) {
                return true;
            }
            connection.waits_for = None;
            connection.respond(response).is_ok()
        });
    }
}
