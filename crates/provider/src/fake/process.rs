//! Processes of the fake: the threads of a command, its standard streams, its limits and its outcome.

use pinfold_lifecycle::{Cause, Command, ExecutionLimits, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

use super::file_tree::FileTree;
use super::shell::{Activity, Input, Node, Shared, Stream, Thread, Wait, Written, to_terminal};
use crate::{
    ProcessInfo, ProcessState, ResizeError, SignalError, StdinError, StdinWrite, TerminalSize, WriteResult,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    started_at: Timestamp,
    /// The execution ends with the first thread. Empty after its end.
    threads: Vec<Thread>,
    input: Option<Input>,
    /// Columns and rows.
    terminal: Option<(u16, u16)>,
    limits: ExecutionLimits,
    cpu_limit_ms: Option<u64>,
    last_output_at: Timestamp,
    /// Set at its end, with the CPU time that it used.
    ended: Option<(Outcome, u64)>,
}

/// Signals that do not end a program without a handler: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
const HARMLESS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];
const SIGKILL: i32 = 9;
const DEFAULT_TERMINAL: (u16, u16) = (80, 24);

impl Process {
    pub(crate) fn start(
        command: &Command,
        directory: Vec<u8>,
        limits: ExecutionLimits,
        cpu_limit_ms: Option<u64>,
        now: Timestamp,
    ) -> Self {
        let thread = Thread::start(Node::command(&command.argv), command.env.clone(), directory, now);
        Self {
            started_at: now,
            threads: vec![thread],
            input: (command.stdin || command.tty).then(Input::default),
            terminal: command.tty.then(|| command.tty_size.unwrap_or(DEFAULT_TERMINAL)),
            limits,
            cpu_limit_ms,
            last_output_at: now,
            ended: None,
        }
    }

    /// One that was not started, for a cause.
    pub(crate) fn not_started(command: &Command, cause: Cause, now: Timestamp) -> Self {
        let unlimited = ExecutionLimits::default();
        let mut process = Self::start(command, Vec::new(), unlimited, None, now);
        process.end(Outcome::ended_for(cause), now);
        process
    }

    /// When something happens next without a call.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        let wakes = self.threads.iter().filter_map(wakes_at);
        wakes.chain(self.next_limit().map(|(at, _)| at)).min()
    }

    /// Does what happens next, and returns what was written.
    pub(crate) fn step(&mut self, files: &mut FileTree) -> Vec<Written> {
        let threads = self.threads.iter().enumerate();
        let next_thread = threads.filter_map(|(index, thread)| Some((wakes_at(thread)?, index))).min();
        match (next_thread, self.next_limit()) {
            (Some((at, index)), limit) if limit.is_none_or(|(limit, _)| at <= limit) => {
                self.run_thread(index, at, files)
            }
            (_, Some((at, cause))) => {
                self.kill(cause, at);
                Vec::new()
            }
            (_, None) => Vec::new(),
        }
    }

    fn run_thread(&mut self, index: usize, at: Timestamp, files: &mut FileTree) -> Vec<Written> {
        let mut shared = Shared {
            files,
            input: self.input.as_mut(),
            terminal: self.terminal,
            written: Vec::new(),
            spawned: Vec::new(),
            raised: None,
        };
        self.threads[index].run(at, &mut shared);
        let Shared { written, spawned, raised, .. } = shared;
        self.threads.extend(spawned);
        if let Some(last) = written.last() {
            self.last_output_at = last.at;
        }
        if let Some(signal) = raised {
            self.deliver(signal, at);
        }
        let mut others = self.threads.iter().skip(1);
        let alone = others.all(|thread| thread.wait == Wait::Ended);
        match self.threads.first_mut() {
            Some(Thread { wait: Wait::Ended, status, .. }) => {
                let outcome = Outcome::exited(*status);
                self.end(outcome, at);
            }
            Some(Thread { wait: wait @ Wait::Others, .. }) if alone => {
                *wait = Wait::Until(at, Activity::Sleeps);
            }
            Some(_) | None => {}
        }
        written
    }

    fn next_limit(&self) -> Option<(Timestamp, Cause)> {
        if self.ended.is_some() {
            return None;
        }
        let timeout = self.limits.timeout_ms.map(|ms| (self.started_at.after_ms(ms), Cause::TimeLimit));
        let quiet = self.limits.inactivity_ms.filter(|_| !self.does(Activity::Works));
        let quiet = quiet.map(|ms| (self.last_output_at.after_ms(ms), Cause::Inactivity));
        let cpu = self.cpu_limit_at().map(|at| (at, Cause::CpuLimit));
        timeout.into_iter().chain(quiet).chain(cpu).min_by_key(|(at, _)| *at)
    }

    /// When its CPU time is used up, if a thread uses it from now on.
    fn cpu_limit_at(&self) -> Option<Timestamp> {
        let busy = self.threads.iter().filter(|thread| thread.wait.is_busy());
        let since = busy.map(|thread| thread.now).max()?;
        let left_ms = self.cpu_limit_ms?.saturating_sub(self.cpu_ms(since));
        Some(since.after_ms(left_ms))
    }

    /// Ends it for a cause, unless it has ended.
    pub(crate) fn kill(&mut self, cause: Cause, now: Timestamp) {
        let exit_code = Some(128 + SIGKILL);
        self.end(Outcome { exit_code, ..Outcome::ended_for(cause) }, now);
    }

    fn end(&mut self, outcome: Outcome, now: Timestamp) {
        if self.ended.is_none() {
            self.ended = Some((outcome, self.cpu_ms(now)));
            self.threads.clear();
        }
    }

    pub(crate) fn signal(&mut self, signal: i32, now: Timestamp) -> Result<(), SignalError> {
        if !(1..=64).contains(&signal) {
            return Err(SignalError::NoSuchSignal { signal });
        }
        if self.ended.is_some() {
            return Err(SignalError::NotRunning);
        }
        self.deliver(signal, now);
        Ok(())
    }

    /// The signal goes to every thread: all are in one process group.
    fn deliver(&mut self, signal: i32, now: Timestamp) {
        if HARMLESS.contains(&signal) {
            return;
        }
        let mut ends = false;
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if signal == SIGKILL || !thread.trap(signal, now) {
                thread.wait = Wait::Ended;
                ends |= index == 0;
            }
        }
        if ends {
            self.end(Outcome::exited(128 + signal), now);
        }
    }

    /// Returns also what a terminal shows of it.
    pub(crate) fn write(
        &mut self,
        write: StdinWrite<'_>,
        now: Timestamp,
    ) -> Result<(WriteResult, Option<Written>), StdinError> {
        if self.ended.is_some() {
            return Err(StdinError::NotRunning);
        }
        let input = self.input.as_mut().ok_or(StdinError::NoInput)?;
        let end = write.at.saturating_add(write.bytes.len() as u64);
        let mut echoed = None;
        if !input.closed && write.at <= input.accepted {
            let known = usize::try_from(input.accepted - write.at).unwrap_or(usize::MAX);
            let new = &write.bytes[known.min(write.bytes.len())..];
            input.unread.extend(new);
            input.accepted = input.accepted.max(end);
            input.closed = write.close && input.accepted == end;
            let shows = self.terminal.is_some() && !new.is_empty();
            echoed = shows.then(|| Written { at: now, stream: Stream::Stdout, bytes: to_terminal(new) });
            for thread in self.threads.iter_mut().filter(|thread| thread.wait == Wait::Input) {
                thread.wait = Wait::Until(now, Activity::Sleeps);
            }
        }
        Ok((WriteResult { accepted: input.accepted, closed: input.closed }, echoed))
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) -> Result<(), ResizeError> {
        if self.ended.is_some() {
            return Err(ResizeError::NotRunning);
        }
        let terminal = self.terminal.as_mut().ok_or(ResizeError::NoTerminal)?;
        *terminal = (size.columns, size.rows);
        Ok(())
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.ended.as_ref().map(|(outcome, _)| outcome)
    }

    pub(crate) fn cpu_ms(&self, now: Timestamp) -> u64 {
        match &self.ended {
            Some((_, used)) => *used,
            None => self.threads.iter().map(|thread| thread.cpu_ms_at(now)).sum(),
        }
    }

    /// Uses a CPU or waits for one.
    pub(crate) fn is_runnable(&self) -> bool {
        [Activity::Computes, Activity::Starves, Activity::Works].into_iter().any(|it| self.does(it))
    }

    fn does(&self, activity: Activity) -> bool {
        self.threads.iter().any(|thread| match thread.wait {
            Wait::Until(_, doing) | Wait::Forever(doing) => doing == activity,
            Wait::Input | Wait::Others | Wait::Ended => false,
        })
    }

    pub(crate) fn last_activity_at(&self, now: Timestamp) -> Timestamp {
        if self.does(Activity::Works) { now } else { self.last_output_at }
    }

    /// Its threads, as processes of the instance.
    pub(crate) fn processes(&self) -> impl Iterator<Item = ProcessInfo> {
        let running = self.threads.iter().filter(|thread| thread.wait != Wait::Ended);
        running.map(|thread| {
            let (state, wait_channel) = match thread.wait {
                Wait::Until(_, Activity::Sleeps) => (ProcessState::Sleeping, Some("hrtimer_nanosleep")),
                Wait::Forever(Activity::Sleeps) => (ProcessState::Sleeping, Some("wait_for_partner")),
                Wait::Input => (ProcessState::Sleeping, Some("pipe_read")),
                Wait::Others => (ProcessState::Sleeping, Some("do_wait")),
                Wait::Until(..) | Wait::Forever(_) | Wait::Ended => (ProcessState::Running, None),
            };
            ProcessInfo {
                name: thread.program.clone(),
                state,
                wait_channel: wait_channel.map(str::to_owned),
                waits_for_input: thread.wait == Wait::Input,
                sockets: 0,
            }
        })
    }
}

fn wakes_at(thread: &Thread) -> Option<Timestamp> {
    match thread.wait {
        Wait::Until(at, _) => Some(at),
        Wait::Input | Wait::Others | Wait::Forever(_) | Wait::Ended => None,
    }
}
