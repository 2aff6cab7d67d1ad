//! One command inside: what it writes, what it is held to, and how it ended.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, WaitStatus, kill_process_group};

use crate::breach::{Breaches, Counters};
use crate::console::{self, Devices, Read};
use crate::input::Input;
use crate::log::{Stream, Writer};
use crate::plan::{NotStarted, Place, Plan, refused};
use crate::tree::{Grouped, Tree, processors};
use crate::wire::{BodyLimits, Ended, EndedBy, Exec, TerminalSize};

pub(crate) struct Execution {
    pub(crate) id: String,
    leader: Pid,
    tree: Tree,
    pub(crate) outputs: Vec<(Stream, OwnedFd)>,
    pub(crate) input: Option<Input>,
    terminal: Option<OwnedFd>,
    log: Writer,
    output_bytes: u64,
    pub(crate) began_ms: i64,
    pub(crate) last_output_ms: i64,
    ends_at_ms: Option<i64>,
    inactivity_ms: Option<i64>,
    cpu: Option<CpuWatch>,
    /// What others had breached before it began.
    before: Breaches,
    /// Why it is being ended, if it is.
    ending: Option<EndedBy>,
    exited: Option<WaitStatus>,
    /// When to look again whether all of it is gone, and after how long then. None while nobody expects it to be.
    look_again: Option<(i64, i64)>,
}

/// CPU time is counted by the kernel and compared by us, never later than it can be used up.
struct CpuWatch {
    limit_ms: u64,
    look_at_ms: i64,
}

/// A chunk is read at a time, so that a flood is taken in turns with everything else.
const CHUNK: usize = 64 * 1024;
/// What a pipe can hold at the most, in chunks.
const LAST_CHUNKS: usize = 16;
const SOONEST_LOOK_MS: i64 = 1;
pub(crate) const LATEST_LOOK_MS: i64 = 20;

impl Execution {
    /// The group of one that was not started comes back with the reason, to be taken away when it is empty.
    pub(crate) fn start(
        exec: &Exec,
        log: Writer,
        place: Place<'_>,
        (devices, counters, limits): (&Devices, &Counters, BodyLimits),
        now_ms: i64,
    ) -> Result<Self, (NotStarted, Option<Tree>)> {
        let prepare = || -> Result<_, NotStarted> {
            let plan = Plan::of(&exec.argv, &exec.env, &exec.workdir)?;
            let ends = console::make(exec.console, devices)?;
            let group = place.work.map(|work| Grouped::make(work, &exec.execution)).transpose()?;
            Ok((plan, ends, group))
        };
        let (plan, (here, there), group) = prepare().map_err(|error| (error, None))?;
        let before = counters.read();
        let launched = plan.launch(place, group.as_ref().map(Grouped::descriptor), there);
        let (leader, tree) = match (launched, group) {
            (Ok(launched), Some(group)) => (launched.pid, Tree::Grouped(group)),
            (Ok(launched), None) => {
                let mark = launched.mark.ok_or_else(|| (refused("it has no mark"), None))?;
                (launched.pid, Tree::Marked(mark))
            }
            (Err(error), group) => return Err((error, group.map(Tree::Grouped))),
        };
        Ok(Self {
            id: exec.execution.clone(),
            leader,
            tree,
            outputs: here.outputs,
            input: here.input,
            terminal: here.terminal,
            log,
            output_bytes: limits.output_bytes,
            began_ms: now_ms,
            last_output_ms: now_ms,
            ends_at_ms: exec.timeout_ms.map(|ms| now_ms.saturating_add_unsigned(ms)),
            inactivity_ms: exec.inactivity_ms.and_then(|ms| i64::try_from(ms).ok()),
            cpu: limits.cpu_time_ms.map(|limit_ms| CpuWatch { limit_ms, look_at_ms: now_ms }),
            before,
            ending: None,
            exited: None,
            look_again: None,
        })
    }

    /// Takes what one of its outputs holds.
    pub(crate) fn drain(&mut self, index: usize, now_ms: i64, wall_ms: i64) -> io::Result<()> {
        let Some((stream, output)) = self.outputs.get(index) else { return Ok(()) };
        let mut chunk = Vec::with_capacity(CHUNK);
        match console::read(output, &mut chunk)? {
            Read::Nothing => {}
            Read::End => {
                self.outputs.remove(index);
            }
            Read::Bytes(bytes) => {
                let stream = *stream;
                self.last_output_ms = now_ms;
                if !self.keep(stream, wall_ms, bytes)? {
                    // In this order: it dies of the limit and not of a broken pipe.
                    self.end(EndedBy::OutputLimit);
                    self.outputs.clear();
                }
            }
        }
        Ok(())
    }

    /// No more than the limit is kept, and nothing is read beyond it. Says whether there is more to come.
    fn keep(&mut self, stream: Stream, wall_ms: i64, bytes: &[u8]) -> io::Result<bool> {
        let left = usize::try_from(self.output_bytes.saturating_sub(self.log.written)).unwrap_or(usize::MAX);
        self.log.append(stream, wall_ms, &bytes[..bytes.len().min(left)])?;
        Ok(bytes.len() <= left)
    }

    pub(crate) fn pieces(&self) -> u64 {
        self.log.pieces()
    }

    /// It ends already, or its first process has.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some() || self.exited.is_some()
    }

    /// Ends it if it has used up something that the keeper counts.
    pub(crate) fn enforce(&mut self, now_ms: i64) {
        if self.is_ending() {
            return;
        }
        if self.ends_at_ms.is_some_and(|at| at <= now_ms) {
            self.end(EndedBy::TimeLimit);
        } else if self.inactivity_ms.is_some_and(|ms| self.last_output_ms.saturating_add(ms) <= now_ms) {
            self.end(EndedBy::Inactivity);
        } else if let Some(cpu) = self.cpu.as_mut().filter(|cpu| cpu.look_at_ms <= now_ms) {
            let used = self.tree.cpu_ms();
            if used >= cpu.limit_ms {
                self.end(EndedBy::CpuLimit);
            } else {
                let soonest = ((cpu.limit_ms - used) / processors()).max(SOONEST_CPU_LOOK_MS);
                cpu.look_at_ms = now_ms.saturating_add_unsigned(soonest);
            }
        }
    }

    /// When time alone calls for a look at it, at the earliest.
    pub(crate) fn next_look(&self) -> Option<i64> {
        if self.is_ending() {
            return self.look_again.map(|(at, _)| at);
        }
        let quiet = self.inactivity_ms.map(|ms| self.last_output_ms.saturating_add(ms));
        let cpu = self.cpu.as_ref().map(|cpu| cpu.look_at_ms);
        self.ends_at_ms.into_iter().chain(quiet).chain(cpu).min()
    }

    /// The first reason is the reason.
    pub(crate) fn end(&mut self, by: EndedBy) {
        if self.exited.is_none() {
            self.ending.get_or_insert(by);
        }
        self.tree.kill(self.alive());
    }

    fn alive(&self) -> Option<Pid> {
        self.exited.is_none().then_some(self.leader)
    }

    /// Says whether there was anybody to signal.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        self.alive().is_some_and(|leader| kill_process_group(leader, signal).is_ok())
    }

    /// None: it has no terminal.
    pub(crate) fn resize(&self, size: TerminalSize) -> Option<io::Result<()>> {
        self.terminal.as_ref().map(|terminal| console::resize(terminal, size))
    }

    /// The process with this id has ended; says whether it was the first one of this execution.
    pub(crate) fn reaped(&mut self, pid: Pid, status: WaitStatus, now_ms: i64) -> bool {
        let own = pid == self.leader && self.exited.is_none();
        if own {
            self.exited = Some(status);
            self.look_again = Some((now_ms, SOONEST_LOOK_MS));
        }
        own
    }

    /// How it ended, once the first process is gone, and all that it left behind with it, and all that was
    /// written is kept.
    pub(crate) fn settle(&mut self, counters: &Counters, now_ms: i64, wall_ms: i64) -> Option<Ended> {
        if !self.is_ending() || !self.is_gone(now_ms) {
            return None;
        }
        self.take_the_rest(wall_ms);
        let (code, signal) = match self.exited {
            Some(status) => (status.exit_status(), status.terminating_signal()),
            None => (None, Some(Signal::KILL.as_raw())),
        };
        let breaches = counters.read();
        let by = self.ending.unwrap_or_else(|| breaches.cause(self.before, code == Some(0)));
        let survived = breaches.survived(self.before, by);
        Some(Ended { by, code, signal, survived })
    }

    /// One that was killed mostly says so at once. Where another process inside traces it, only that one is told, and
    /// may keep it to itself: then it is enough that nothing of it lives.
    fn is_gone(&mut self, now_ms: i64) -> bool {
        let late = (now_ms.saturating_add(LATEST_LOOK_MS), LATEST_LOOK_MS);
        let (at, pause) = *self.look_again.get_or_insert(late);
        if self.exited.is_none() && now_ms < at {
            return false;
        }
        let gone = self.tree.is_gone();
        if !gone {
            self.look_again = Some((now_ms.saturating_add(pause), (pause * 2).min(LATEST_LOOK_MS)));
        }
        gone
    }

    /// What is still in its pipes. Somebody else inside may hold them open, so their end is not waited for.
    fn take_the_rest(&mut self, wall_ms: i64) {
        let mut chunk = Vec::with_capacity(CHUNK);
        for (stream, output) in std::mem::take(&mut self.outputs) {
            for _ in 0..LAST_CHUNKS {
                let Ok(Read::Bytes(bytes)) = console::read(&output, &mut chunk) else { break };
                if !self.keep(stream, wall_ms, bytes).unwrap_or(false) {
                    self.ending.get_or_insert(EndedBy::OutputLimit);
                    return;
                }
            }
        }
    }
}

/// A look costs some microseconds.
const SOONEST_CPU_LOOK_MS: u64 = 5;
