//! One running command: its output, its limits and how it ended.

use std::io;
use std::os::fd::OwnedFd;

use pinfold_backoff::Backoff;
use rustix::process::{Pid, Signal, WaitStatus, kill_process_group};

use crate::console::{self, ConsoleDevices, ReadResult};
use crate::disk;
use crate::input::Input;
use crate::launch::{LaunchContext, LaunchError, LaunchPlan, launch_failed};
use crate::limit_counters::{LimitCounters, LimitCounts};
use crate::process_tree::{ExecutionCgroup, ProcessTree, processors};
use pinfold_keeper_wire::{Ended, EndedBy, Exec, InstanceLimits, TerminalSize};
use pinfold_output_log::{LogWriter, OutputStream};

pub(crate) struct Execution {
    pub(crate) id: String,
    leader: Pid,
    tree: ProcessTree,
    pub(crate) outputs: Vec<(OutputStream, OwnedFd)>,
    pub(crate) input: Option<Input>,
    terminal: Option<OwnedFd>,
    log: LogWriter,
    output_bytes: u64,
    pub(crate) started_ms: i64,
    pub(crate) last_output_ms: i64,
    /// Its error output says that no space is left.
    pub(crate) reported_no_space: bool,
    ends_at_ms: Option<i64>,
    inactivity_ms: Option<i64>,
    cpu: Option<CpuWatch>,
    /// Values of the kernel's counters at its start.
    counts_at_start: LimitCounts,
    /// Why the keeper is ending it, if it is.
    ending: Option<EndedBy>,
    exited: Option<WaitStatus>,
    /// Time of the next check whether all its processes are gone, and the interval after that. None while it runs.
    next_exit_check: Option<(i64, Backoff)>,
}

/// CPU limit check. The kernel counts CPU time; the keeper compares it no later than it can be used up.
struct CpuWatch {
    limit_ms: u64,
    check_at_ms: i64,
}

/// Bytes read at a time, so that heavy output does not starve other events.
const CHUNK: usize = 64 * 1024;
/// Capacity of the largest pipe, in chunks.
const LAST_CHUNKS: usize = 16;
const MIN_EXIT_CHECK_MS: u64 = 1;
pub(crate) const MAX_EXIT_CHECK_MS: u64 = 20;

impl Execution {
    /// Starts the command. On failure the error comes with its cgroup, if one was made, to be removed when it is empty.
    pub(crate) fn start(
        exec: &Exec,
        log: LogWriter,
        context: LaunchContext<'_>,
        (devices, counters, limits): (&ConsoleDevices, &LimitCounters, InstanceLimits),
        now_ms: i64,
    ) -> Result<Self, (LaunchError, Option<ProcessTree>)> {
        let prepare = || -> Result<_, LaunchError> {
            let plan = LaunchPlan::of(&exec.argv, &exec.env, &exec.workdir)?;
            let ends = console::make(exec.console, devices)?;
            let group = context
                .workload
                .map(|workload| ExecutionCgroup::make(workload, &exec.execution))
                .transpose()?;
            Ok((plan, ends, group))
        };
        let (plan, (keeper_ends, execution_ends), group) = prepare().map_err(|error| (error, None))?;
        let counts_at_start = counters.read();
        let launched = plan.launch(context, group.as_ref().map(ExecutionCgroup::descriptor), execution_ends);
        let (leader, tree) = match (launched, group) {
            (Ok(launched), Some(group)) => (launched.pid, ProcessTree::Cgroup(group)),
            (Ok(launched), None) => {
                let namespace = launched
                    .namespace
                    .ok_or_else(|| (launch_failed("the child did not report its cgroup namespace"), None))?;
                (launched.pid, ProcessTree::Namespace(namespace))
            }
            (Err(error), group) => return Err((error, group.map(ProcessTree::Cgroup))),
        };
        Ok(Self {
            id: exec.execution.clone(),
            leader,
            tree,
            outputs: keeper_ends.outputs,
            input: keeper_ends.input,
            terminal: keeper_ends.terminal,
            log,
            output_bytes: limits.output_bytes,
            started_ms: now_ms,
            last_output_ms: now_ms,
            reported_no_space: false,
            ends_at_ms: exec.timeout_ms.map(|ms| now_ms.saturating_add_unsigned(ms)),
            inactivity_ms: exec.inactivity_ms.and_then(|ms| i64::try_from(ms).ok()),
            cpu: limits.cpu_time_ms.map(|limit_ms| CpuWatch { limit_ms, check_at_ms: now_ms }),
            counts_at_start,
            ending: None,
            exited: None,
            next_exit_check: None,
        })
    }

    /// Reads from one of its outputs into the log.
    pub(crate) fn drain(&mut self, index: usize, now_ms: i64, wall_ms: i64) -> io::Result<()> {
        let Some((stream, output)) = self.outputs.get(index) else { return Ok(()) };
        let mut chunk = Vec::with_capacity(CHUNK);
        match console::read(output, &mut chunk)? {
            ReadResult::Nothing => {}
            ReadResult::End => {
                self.outputs.remove(index);
            }
            ReadResult::Bytes(bytes) => {
                let stream = *stream;
                self.last_output_ms = now_ms;
                if !self.append_output(stream, wall_ms, bytes)? {
                    // End it before closing the pipes: otherwise it dies of SIGPIPE instead of the limit.
                    self.end(EndedBy::OutputLimit);
                    self.outputs.clear();
                }
            }
        }
        Ok(())
    }

    /// Appends output to the log, up to the output limit. False: the limit is reached.
    fn append_output(&mut self, stream: OutputStream, wall_ms: i64, bytes: &[u8]) -> io::Result<bool> {
        let left = usize::try_from(self.output_bytes.saturating_sub(self.log.written)).unwrap_or(usize::MAX);
        self.log.append(stream, wall_ms, &bytes[..bytes.len().min(left)])?;
        // A terminal has one stream for output and errors.
        if !self.reported_no_space && (stream == OutputStream::Stderr || self.terminal.is_some()) {
            self.reported_no_space = disk::reports_no_space(bytes);
        }
        Ok(bytes.len() <= left)
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.log.chunks()
    }

    /// Whether the keeper is ending it or its first process has exited.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some() || self.exited.is_some()
    }

    /// Ends it if it exceeds its time, inactivity or CPU limit.
    pub(crate) fn enforce(&mut self, now_ms: i64) {
        if self.is_ending() {
            return;
        }
        if self.ends_at_ms.is_some_and(|at| at <= now_ms) {
            self.end(EndedBy::TimeLimit);
        } else if self.inactivity_ms.is_some_and(|ms| self.last_output_ms.saturating_add(ms) <= now_ms) {
            self.end(EndedBy::Inactivity);
        } else if let Some(cpu) = self.cpu.as_mut().filter(|cpu| cpu.check_at_ms <= now_ms) {
            let used = self.tree.cpu_ms();
            if used >= cpu.limit_ms {
                self.end(EndedBy::CpuLimit);
            } else {
                let soonest = ((cpu.limit_ms - used) / processors()).max(MIN_CPU_CHECK_MS);
                cpu.check_at_ms = now_ms.saturating_add_unsigned(soonest);
            }
        }
    }

    /// Time of its next check.
    pub(crate) fn next_check(&self) -> Option<i64> {
        if self.is_ending() {
            return self.next_exit_check.map(|(at, _)| at);
        }
        let quiet = self.inactivity_ms.map(|ms| self.last_output_ms.saturating_add(ms));
        let cpu = self.cpu.as_ref().map(|cpu| cpu.check_at_ms);
        self.ends_at_ms.into_iter().chain(quiet).chain(cpu).min()
    }

    /// Kills it. The first cause is kept.
    pub(crate) fn end(&mut self, by: EndedBy) {
        if self.exited.is_none() {
            self.ending.get_or_insert(by);
        }
        self.tree.kill(self.alive());
    }

    fn alive(&self) -> Option<Pid> {
        self.exited.is_none().then_some(self.leader)
    }

    /// Signals its process group. False: the first process has exited.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        self.alive().is_some_and(|leader| kill_process_group(leader, signal).is_ok())
    }

    /// Resizes its terminal. None: it has none.
    pub(crate) fn resize(&self, size: TerminalSize) -> Option<io::Result<()>> {
        self.terminal.as_ref().map(|terminal| console::resize(terminal, size))
    }

    /// Records the exit of a process. True: it was the first process of this execution.
    pub(crate) fn reaped(&mut self, pid: Pid, status: WaitStatus, now_ms: i64) -> bool {
        let own = pid == self.leader && self.exited.is_none();
        if own {
            self.exited = Some(status);
            self.next_exit_check = Some((now_ms, Backoff::from_ms(MIN_EXIT_CHECK_MS, MAX_EXIT_CHECK_MS)));
        }
        own
    }

    /// How it ended. None until all its processes are gone and all output is in the log.
    pub(crate) fn finish(&mut self, counters: &LimitCounters, now_ms: i64, wall_ms: i64) -> Option<Ended> {
        if !self.is_ending() || !self.is_gone(now_ms) {
            return None;
        }
        self.drain_rest(wall_ms);
        let (code, signal) = match self.exited {
            Some(status) => (status.exit_status(), status.terminating_signal()),
            None => (None, Some(Signal::KILL.as_raw())),
        };
        let counts = counters.read();
        let by = self.ending.unwrap_or_else(|| counts.cause(self.counts_at_start, code == Some(0)));
        let survived = counts.hits_since(self.counts_at_start, by);
        Some(Ended { by, code, signal, limit_hits: survived })
    }

    /// Whether all its processes are gone. A killed process is usually reaped at once. If another process inside traces
    /// it, only the tracer is notified; then it is enough that none of its processes is alive.
    fn is_gone(&mut self, now_ms: i64) -> bool {
        let rarely = Backoff::from_ms(MAX_EXIT_CHECK_MS, MAX_EXIT_CHECK_MS);
        let late = (now_ms.saturating_add_unsigned(MAX_EXIT_CHECK_MS), rarely);
        let (at, mut backoff) = *self.next_exit_check.get_or_insert(late);
        if self.exited.is_none() && now_ms < at {
            return false;
        }
        let gone = self.tree.is_gone();
        if !gone {
            let pause_ms = backoff.next_pause_ms();
            self.next_exit_check = Some((now_ms.saturating_add_unsigned(pause_ms), backoff));
        }
        gone
    }

    /// Reads the rest of its pipes. Does not wait for end of file: another process inside may hold them open.
    fn drain_rest(&mut self, wall_ms: i64) {
        let mut chunk = Vec::with_capacity(CHUNK);
        for (stream, output) in std::mem::take(&mut self.outputs) {
            for _ in 0..LAST_CHUNKS {
                let Ok(ReadResult::Bytes(bytes)) = console::read(&output, &mut chunk) else { break };
                if !self.append_output(stream, wall_ms, bytes).unwrap_or(false) {
                    self.ending.get_or_insert(EndedBy::OutputLimit);
                    return;
                }
            }
        }
    }
}

/// Minimum interval of CPU checks, each of which costs some microseconds.
const MIN_CPU_CHECK_MS: u64 = 5;
