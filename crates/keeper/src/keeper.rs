//! The keeper at work: one loop over its control socket, what runs and what that writes, ended children and deadlines.
//! Nothing in it waits for anything else, and no turn does more than a bounded piece of work for each.

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

use crate::breach::Counters;
use crate::confine::{Confinement, HeldBy, Limits, Profile};
use crate::console::Devices;
use crate::disk::DiskWatch;
use crate::execution::{Execution, LATEST_LOOK_MS};
use crate::files::children::{self, FileChildren};
use crate::files::wire::{FileReason, FileRequest};
use crate::kernel;
use crate::log::Spare;
use crate::peers::{Awaited, Peer};
use crate::probe::Probing;
use crate::tree::Tree;
use crate::wire::{BodyLimits, Ended, EndedBy, ProbeFailed, Reason, Request, Response, WorkGroup};

/// What a keeper is born with.
pub(crate) struct Inheritance {
    pub(crate) listener: UnixListener,
    pub(crate) output: OwnedFd,
    pub(crate) work_groups: Vec<OwnedFd>,
    pub(crate) work: WorkDescriptors,
    pub(crate) limits: BodyLimits,
    /// What of the host is seen inside.
    pub(crate) shared: Vec<PathBuf>,
    pub(crate) secret: String,
    pub(crate) left_ms: u64,
    /// Becomes readable when whoever this sandbox belongs to is gone.
    pub(crate) caller: Option<OwnedFd>,
    /// Whether its world could be built, or why not.
    pub(crate) built: Result<(), String>,
}

/// The group of all executions.
#[derive(Default)]
pub(crate) struct WorkDescriptors {
    directory: Option<OwnedFd>,
    counters: Counters,
}

impl WorkDescriptors {
    pub(crate) fn of(which: WorkGroup, descriptors: Vec<OwnedFd>) -> Self {
        let mut descriptors = descriptors.into_iter();
        let mut next = |wanted: bool| if wanted { descriptors.next() } else { None };
        Self {
            directory: next(which.directory),
            counters: Counters {
                memory: next(which.memory_events).map(Into::into),
                processes: next(which.process_events).map(Into::into),
            },
        }
    }
}

/// How long it waits to be told that it is wanted.
const BIRTH_MS: i64 = 10_000;

struct Keeper {
    inheritance: Inheritance,
    /// For what it runs.
    confinement: Confinement,
    /// None where the world could not be built.
    devices: Option<Devices>,
    signals: OwnedFd,
    wanted: bool,
    ends_at_ms: i64,
    running: BTreeMap<String, Execution>,
    ended: BTreeMap<String, Ended>,
    /// Ids that will never be started here, and why: killed, or refused once.
    void: BTreeMap<String, (Reason, String)>,
    /// What is left of those that were not started, and of probes.
    leaving: Vec<Tree>,
    probing: Vec<Probing>,
    /// How many there were.
    probes: u64,
    peers: Vec<Peer>,
    files: FileChildren,
    /// Children have ended that were not reaped in their turn.
    more_have_ended: bool,
    /// Executions started, and pieces of output of what has ended.
    operations: u64,
    last_busy_ms: i64,
    disk: DiskWatch,
    spare_log: Spare,
}

/// Serves until the end of its time. When process 1 ends, the kernel ends everything else inside.
pub(crate) fn run(mut inheritance: Inheritance) -> io::Result<()> {
    let now = now_ms();
    inheritance.listener.set_nonblocking(true)?;
    // Before anything untrusted is here that could take their places.
    let devices = Devices::open();
    let confined = confinement(inheritance.limits);
    let trouble = [devices.as_ref().err().map(ToString::to_string), confined.as_ref().err().cloned()];
    if let (Ok(()), Some(why)) = (&inheritance.built, trouble.into_iter().flatten().next()) {
        inheritance.built = Err(why);
    }
    // It is told apart from a sandbox that works by refusing to go, and until then it is confined all the same.
    let mut confinement = match confined {
        Ok(confinement) => confinement,
        Err(_) => Confinement::prepare(&Profile::default()).map_err(io::Error::other)?,
    };
    let held_by = if inheritance.work.directory.is_some() { HeldBy::Groups } else { HeldBy::Marks };
    // Code inside has the same ids: from here on it cannot look into this process or reach for what it holds.
    confinement.apply_to_keeper(held_by).map_err(io::Error::other)?;
    #[cfg(feature = "weakened")]
    crate::weakness::uncover_keeper()?;
    let mut keeper = Keeper {
        confinement,
        devices: devices.ok(),
        signals: kernel::signals_as_descriptor(&[libc::SIGCHLD])?,
        wanted: false,
        ends_at_ms: now.saturating_add(BIRTH_MS),
        inheritance,
        running: BTreeMap::new(),
        ended: BTreeMap::new(),
        void: BTreeMap::new(),
        leaving: Vec::new(),
        probing: Vec::new(),
        probes: 0,
        peers: Vec::new(),
        files: FileChildren::default(),
        more_have_ended: false,
        operations: 0,
        last_busy_ms: now,
        disk: DiskWatch::default(),
        spare_log: Spare::default(),
    };
    while now_ms() < keeper.ends_at_ms {
        keeper.turn()?;
    }
    Ok(())
}

fn confinement(limits: BodyLimits) -> Result<Confinement, String> {
    let usual = Limits::default();
    let limits = Limits { open_files: limits.open_files.unwrap_or(usual.open_files), ..usual };
    let profile = Profile { limits, ..Profile::default() };
    #[cfg(feature = "weakened")]
    let profile = crate::weakness::profile(profile);
    Confinement::prepare(&profile).map_err(|error| error.to_string())
}

/// How long after a command the file for the next one's log is made.
const SPARE_LOG_AFTER_MS: i64 = 1;

/// How many children are reaped before everything else has its turn: what runs inside can make them without end.
const REAPED_AT_ONCE: usize = 64;

/// The kernel's counter: no change of the clock makes a sandbox live longer.
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

/// What woke the keeper up.
enum Woken {
    Signal,
    Visitor,
    CallerGone,
    Peer(usize),
    Output(String, usize),
    Input(String),
}

impl Keeper {
    fn turn(&mut self) -> io::Result<()> {
        // From the back, so that what is removed does not move what is still to come.
        for woken in self.sleep()?.into_iter().rev() {
            match woken {
                Woken::Signal => self.reap(),
                Woken::Visitor => self.welcome(),
                // Process 1 ends, and with it everything inside.
                Woken::CallerGone => self.ends_at_ms = now_ms(),
                Woken::Peer(index) => self.listen(index),
                Woken::Output(id, index) => self.drain(&id, index),
                Woken::Input(id) => self.pass_on(&id),
            }
        }
        if self.more_have_ended {
            self.reap();
        }
        let now = now_ms();
        self.running.values_mut().for_each(|execution| execution.enforce(now));
        self.enforce_operations();
        self.files.end_overdue(now);
        self.disk.look(now, self.running.is_empty());
        self.spare_log.look(now, &self.inheritance.output);
        self.settle_ended();
        self.settle_probes(now);
        self.leaving.retain(|tree| !tree.is_gone());
        Ok(())
    }

    fn sleep(&self) -> io::Result<Vec<Woken>> {
        let mut sources = vec![Woken::Signal, Woken::Visitor];
        let mut descriptors = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.inheritance.listener, PollFlags::IN),
        ];
        if let Some(caller) = &self.inheritance.caller {
            sources.push(Woken::CallerGone);
            descriptors.push(PollFd::new(caller, PollFlags::IN));
        }
        for (index, peer) in self.peers.iter().enumerate() {
            sources.push(Woken::Peer(index));
            let readiness = if peer.has_unsent() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            descriptors.push(PollFd::new(&peer.stream, readiness));
        }
        for execution in self.running.values() {
            for (index, (_, output)) in execution.outputs.iter().enumerate() {
                sources.push(Woken::Output(execution.id.clone(), index));
                descriptors.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
            }
            if let Some(input) = execution.input.as_ref().and_then(|input| input.waits_for()) {
                sources.push(Woken::Input(execution.id.clone()));
                descriptors.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::OUT));
            }
        }
        let left = if self.more_have_ended { 0 } else { self.next_look().saturating_sub(now_ms()).max(0) };
        let timeout = Timespec { tv_sec: left / 1_000, tv_nsec: (left % 1_000) * 1_000_000 };
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<_> = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        Ok(sources.into_iter().zip(ready).filter_map(|(source, ready)| ready.then_some(source)).collect())
    }

    /// When time alone calls for a turn.
    fn next_look(&self) -> i64 {
        let executions = self.running.values().filter_map(Execution::next_look);
        let probes = self.probing.iter().map(|probing| probing.ends_at_ms);
        let leaving = (!self.leaving.is_empty()).then(|| now_ms().saturating_add(LATEST_LOOK_MS));
        let own = [self.ends_at_ms];
        executions
            .chain(probes)
            .chain(self.files.next_deadline())
            .chain(self.disk.next_look_ms())
            .chain(self.spare_log.next_look_ms())
            .chain(leaving)
            .chain(own)
            .min()
            .unwrap_or(self.ends_at_ms)
    }

    /// Ended children, ours and those whose parents have left them to process 1.
    fn reap(&mut self) {
        let mut told = [0; 128];
        let _ = rustix::io::read(&self.signals, &mut told);
        let now = now_ms();
        for _ in 0..REAPED_AT_ONCE {
            let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) else {
                self.more_have_ended = false;
                return;
            };
            // A child that has itself traced by its parent is told of when it stops, too.
            if !status.exited() && !status.signaled() {
                continue;
            }
            if self.files.reaped(pid) {
                continue;
            }
            if let Some(index) = self.probing.iter().position(|probing| probing.pid == pid) {
                let probing = self.probing.swap_remove(index);
                self.tell_probed(probing, Probing::ended(status));
                continue;
            }
            for execution in self.running.values_mut() {
                if execution.reaped(pid, status, now) {
                    break;
                }
            }
        }
        self.more_have_ended = true;
    }

    /// Whoever comes has mostly said what it wants by now.
    fn welcome(&mut self) {
        while let Ok((stream, _)) = self.inheritance.listener.accept() {
            if let Ok(peer) = Peer::new(stream) {
                self.peers.push(peer);
                self.listen(self.peers.len() - 1);
            }
        }
    }

    fn listen(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        let Ok(requests) = peer.send_on().and_then(|()| peer.read()) else {
            self.peers.remove(index);
            return;
        };
        for request in requests {
            if let Request::Files(request) = request {
                return self.hand_over(index, &request);
            }
            let response = self.respond(index, request);
            if let Some(response) = response
                && self.peers[index].answer(&response).is_err()
            {
                self.peers.remove(index);
                return;
            }
        }
    }

    /// Files are served by a child, which goes on with the connection.
    fn hand_over(&mut self, peer: usize, request: &FileRequest) {
        let connection = self.peers.remove(peer).into_stream();
        if self.wanted {
            self.last_busy_ms = now_ms();
            self.files.hand_over(request, connection, &self.confinement, now_ms());
        } else {
            children::refuse(connection, FileReason::Failed, "it was not told to go");
        }
    }

    fn drain(&mut self, id: &str, index: usize) {
        let now = now_ms();
        if let Some(execution) = self.running.get_mut(id) {
            self.last_busy_ms = now;
            if execution.drain(index, now, wall_ms()).is_err() {
                // Output that cannot be kept is not lost in silence: the execution ends with it.
                execution.end(EndedBy::OutputLimit);
                execution.outputs.clear();
            }
        }
    }

    fn pass_on(&mut self, id: &str) {
        if let Some(input) = self.running.get_mut(id).and_then(|execution| execution.input.as_mut()) {
            input.pass_on();
        }
    }

    fn settle_ended(&mut self) {
        let (now, wall) = (now_ms(), wall_ms());
        let counters = &self.inheritance.work.counters;
        let settled = self.running.values_mut().filter_map(|execution| {
            let ended = self.disk.explain(execution.settle(counters, now, wall)?, execution.began_ms);
            Some((execution.id.clone(), ended, execution.pieces()))
        });
        for (id, ended, pieces) in settled.collect::<Vec<_>>() {
            self.running.remove(&id);
            self.operations += pieces;
            let ended = self.explain_by_operations(ended);
            self.tell(&Awaited::Execution(id.clone()), &Response::Ended(ended));
            self.ended.insert(id, ended);
            // The end of its last command is for many a sandbox its own.
            self.spare_log.is_needed(now.saturating_add(SPARE_LOG_AFTER_MS));
        }
    }

    fn settle_probes(&mut self, now: i64) {
        let late: Vec<_> = self.probing.extract_if(.., |probing| probing.ends_at_ms <= now).collect();
        for probing in late {
            let failed = probing.give_up();
            self.tell_probed(probing, Some(failed));
        }
    }

    fn tell_probed(&mut self, probing: Probing, failed: Option<ProbeFailed>) {
        let response = self.probed(probing.nonce, failed);
        self.tell(&Awaited::Probe(probing.pid), &response);
        self.leaving.extend(probing.tree);
        // While whoever asked writes down that it is ready.
        self.spare_log.is_needed(now_ms());
    }

    /// A peer that cannot be told is let go.
    fn tell(&mut self, about: &Awaited, response: &Response) {
        self.peers.retain_mut(|peer| {
            if peer.waits_for.as_ref() != Some(about) {
                return true;
            }
            peer.waits_for = None;
            peer.answer(response).is_ok()
        });
    }
}
