//! Runs a script: one thread of control takes tasks from its stack until one of them has to wait.

use std::collections::BTreeMap;

use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::expand::{Variables, expand_unsplit, expand_words};
use super::parse::parse;
use super::streams::{ReadResult, Sink, Streams};
use super::syntax::{Node, Redirect, Simple, Stream, Word};
use crate::fake::file_tree::absolute;

/// A thread of control: the first one of a process, or a command in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Thread {
    /// The name of the command that runs.
    pub(crate) program: String,
    pub(crate) status: i32,
    pub(crate) wait: Wait,
    /// Its own time: it has run up to here.
    pub(crate) now: Timestamp,
    pub(super) cpu_ms: u64,
    pub(super) directory: Vec<u8>,
    pub(super) variables: Variables,
    /// Commands by signal; an empty command ignores the signal.
    pub(super) traps: BTreeMap<i32, String>,
    tasks: Vec<Task>,
    streams: Vec<Streams>,
    captured: Vec<Vec<u8>>,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wait {
    Until(Timestamp, Activity),
    /// For input, or the end of it.
    Input,
    /// For the other threads of the process.
    Others,
    Forever(Activity),
    /// It has ended.
    Ended,
}

/// What a thread does while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Activity {
    Sleeps,
    /// Uses a CPU.
    Computes,
    /// Waits for a CPU.
    Starves,
    /// Uses a CPU and counts as active, as if it printed all the time.
    Works,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    Run(Node),
    AndThen(Node),
    OrElse(Node),
    /// The left side has ended: its output is the input of the right side.
    PipeInto(Node),
    /// The next iteration of a loop. The time is that of the last one.
    Iterate {
        condition: Node,
        body: Node,
        last: Option<Timestamp>,
    },
    /// The condition of a loop has ended.
    RunBody {
        condition: Node,
        body: Node,
        began: Timestamp,
    },
    RunFor {
        name: String,
        values: Vec<String>,
        body: Node,
    },
    /// A substitution has ended: its output becomes part of the command.
    Substitute(Simple),
    RestoreStreams,
    /// Where `exit` stops, with the depth of the other stacks.
    EndScope {
        streams: usize,
        captured: usize,
    },
    /// Copies input to output.
    CopyInput,
    /// Reads all input for a command.
    Gather {
        argv: Vec<String>,
        input: Vec<u8>,
    },
    /// Reads one line into a variable.
    ReadLine {
        name: String,
        line: Vec<u8>,
    },
    /// Runs the next line of input as a command.
    RunLine {
        line: Vec<u8>,
    },
}

/// Time of a loop's iteration that does not sleep, so that an endless loop takes time.
const ITERATION_MS: u64 = 1;

impl Wait {
    /// Whether the thread uses a CPU meanwhile.
    pub(crate) fn is_busy(self) -> bool {
        match self {
            Self::Until(_, activity) | Self::Forever(activity) => {
                matches!(activity, Activity::Computes | Activity::Works)
            }
            Self::Input | Self::Others | Self::Ended => false,
        }
    }
}

impl Thread {
    pub(crate) fn start(node: Node, variables: Variables, directory: Vec<u8>, now: Timestamp) -> Self {
        Self {
            program: String::new(),
            status: 0,
            wait: Wait::Until(now, Activity::Sleeps),
            now,
            cpu_ms: 0,
            directory,
            variables,
            traps: BTreeMap::new(),
            tasks: vec![Task::Run(node)],
            streams: vec![Streams::of_process()],
            captured: Vec::new(),
        }
    }

    /// Continues at a time, until it waits or ends.
    pub(crate) fn run(&mut self, at: Timestamp, shared: &mut Shared<'_>) {
        self.cpu_ms = self.cpu_ms_at(at);
        self.now = self.now.max(at);
        loop {
            let Some(task) = self.tasks.pop() else {
                self.wait = Wait::Ended;
                return;
            };
            if let Some(wait) = self.perform(task, shared) {
                self.wait = wait;
                return;
            }
        }
    }

    pub(crate) fn cpu_ms_at(&self, now: Timestamp) -> u64 {
        let until = match self.wait {
            Wait::Until(at, _) => now.min(at),
            _ => now,
        };
        if self.wait.is_busy() { self.cpu_ms + until.ms_since(self.now) } else { self.cpu_ms }
    }

    /// Handles a signal at a time. False: it has no trap for it.
    pub(crate) fn trap(&mut self, signal: i32, now: Timestamp) -> bool {
        let Some(commands) = self.traps.get(&signal) else { return false };
        if let (false, Ok(node)) = (commands.is_empty(), parse(commands)) {
            self.tasks.push(Task::Run(node));
            self.wait = Wait::Until(now, Activity::Sleeps);
        }
        true
    }

    fn perform(&mut self, task: Task, shared: &mut Shared<'_>) -> Option<Wait> {
        match task {
            Task::Run(node) => return self.run_node(node, shared),
            Task::AndThen(node) if self.status == 0 => self.tasks.push(Task::Run(node)),
            Task::OrElse(node) if self.status != 0 => self.tasks.push(Task::Run(node)),
            Task::AndThen(_) | Task::OrElse(_) => {}
            Task::PipeInto(node) => {
                let input = self.captured.pop().unwrap_or_default();
                self.run_with(self.current().clone().reading(input), node);
            }
            Task::Iterate { condition, body, last } => {
                if last == Some(self.now) {
                    self.tasks.push(Task::Iterate { condition, body, last: None });
                    return Some(Wait::Until(self.now.after_ms(ITERATION_MS), Activity::Computes));
                }
                self.tasks.push(Task::RunBody { condition: condition.clone(), body, began: self.now });
                self.tasks.push(Task::Run(condition));
            }
            Task::RunBody { .. } if self.status != 0 => self.status = 0,
            Task::RunBody { condition, body, began } => {
                self.tasks.push(Task::Iterate { condition, body: body.clone(), last: Some(began) });
                self.tasks.push(Task::Run(body));
            }
            Task::RunFor { name, mut values, body } => {
                if !values.is_empty() {
                    self.variables.insert(name.clone(), values.remove(0));
                    self.tasks.push(Task::RunFor { name, values, body: body.clone() });
                    self.tasks.push(Task::Run(body));
                }
            }
            Task::Substitute(mut simple) => {
                let output = self.captured.pop().unwrap_or_default();
                simple.substitute(&String::from_utf8_lossy(&output));
                self.tasks.push(Task::Run(Node::Simple(simple)));
            }
            Task::RestoreStreams => drop(self.streams.pop()),
            Task::EndScope { .. } => {}
            Task::CopyInput | Task::Gather { .. } | Task::ReadLine { .. } | Task::RunLine { .. } => {
                return self.read_on(task, shared);
            }
        }
        None
    }

    fn run_node(&mut self, node: Node, shared: &mut Shared<'_>) -> Option<Wait> {
        match node {
            Node::Simple(simple) => return self.run_simple(simple, shared),
            Node::Sequence(nodes) => self.tasks.extend(nodes.into_iter().rev().map(Task::Run)),
            Node::And(left, right) => self.tasks.extend([Task::AndThen(*right), Task::Run(*left)]),
            Node::Or(left, right) => self.tasks.extend([Task::OrElse(*right), Task::Run(*left)]),
            Node::Pipe(left, right) => {
                self.tasks.push(Task::PipeInto(*right));
                self.run_captured(*left);
            }
            Node::While { condition, body } => {
                self.tasks.push(Task::Iterate { condition: *condition, body: *body, last: None });
            }
            Node::For { name, words, body } => {
                let values = expand_words(&words, &self.variables);
                self.tasks.push(Task::RunFor { name, values, body: *body });
            }
            Node::Background(node) => {
                let streams = vec![self.current().clone()];
                let wait = Wait::Until(self.now, Activity::Sleeps);
                let tasks = vec![Task::Run(*node)];
                // Ignored signals stay ignored; other traps are those of the script alone.
                let mut traps = self.traps.clone();
                traps.retain(|_, commands| commands.is_empty());
                shared.spawned.push(Self { streams, wait, tasks, traps, cpu_ms: 0, ..self.clone() });
                self.status = 0;
            }
        }
        None
    }

    fn run_simple(&mut self, simple: Simple, shared: &mut Shared<'_>) -> Option<Wait> {
        if let Some(commands) = simple.first_substitution().cloned() {
            self.tasks.push(Task::Substitute(simple));
            self.run_captured(commands);
            return None;
        }
        self.status = 0;
        let argv = expand_words(&simple.words, &self.variables);
        for (name, word) in &simple.assignments {
            let value = expand_unsplit(word, &self.variables);
            self.variables.insert(name.clone(), value);
        }
        if !simple.redirects.is_empty() {
            match self.redirect(&simple.redirects, shared) {
                Ok(streams) => {
                    self.tasks.push(Task::RestoreStreams);
                    self.streams.push(streams);
                }
                Err(why) => {
                    self.complain(shared, &why);
                    self.status = 2;
                    return None;
                }
            }
        }
        if argv.is_empty() { None } else { self.run_command(argv, shared) }
    }

    /// Runs a script in a scope of its own.
    pub(super) fn run_script(&mut self, script: &str, shared: &mut Shared<'_>) {
        match parse(script) {
            Ok(node) => {
                self.begin_scope();
                self.tasks.push(Task::Run(node));
            }
            Err(error) => {
                self.complain(shared, &error.to_string());
                self.status = 2;
            }
        }
    }

    /// Pushes tasks that capture the output of commands.
    fn run_captured(&mut self, commands: Node) {
        let streams = self.current().clone().captured(self.captured.len());
        self.captured.push(Vec::new());
        self.run_with(streams, commands);
    }

    fn run_with(&mut self, streams: Streams, commands: Node) {
        self.tasks.push(Task::RestoreStreams);
        self.streams.push(streams);
        self.begin_scope();
        self.tasks.push(Task::Run(commands));
    }

    pub(super) fn begin_scope(&mut self) {
        let (streams, captured) = (self.streams.len(), self.captured.len());
        self.tasks.push(Task::EndScope { streams, captured });
    }

    pub(super) fn push(&mut self, task: Task) {
        self.tasks.push(task);
    }

    /// Ends the innermost scope, or the thread.
    pub(super) fn leave_scope(&mut self) {
        while let Some(task) = self.tasks.pop() {
            if let Task::EndScope { streams, captured } = task {
                self.streams.truncate(streams);
                self.captured.truncate(captured);
                return;
            }
        }
    }

    fn redirect(&self, redirects: &[Redirect], shared: &mut Shared<'_>) -> Result<Streams, String> {
        let path = |word: &Word| {
            let name = expand_unsplit(word, &self.variables);
            (absolute(&self.directory, name.as_bytes()), name)
        };
        let mut streams = self.current().clone();
        for redirect in redirects {
            match redirect {
                Redirect::ReadFile(word) => streams.read_file(path(word), shared)?,
                Redirect::WriteFile { stream, file, append } => {
                    streams.write_file(*stream, path(file), *append, self.now, shared)?;
                }
                Redirect::Duplicate { stream, of } => streams.duplicate(*stream, *of),
            }
        }
        Ok(streams)
    }

    fn current(&self) -> &Streams {
        self.streams.last().expect("the streams of the process are never restored")
    }

    fn current_mut(&mut self) -> &mut Streams {
        self.streams.last_mut().expect("the streams of the process are never restored")
    }

    /// Reads what is there.
    pub(super) fn read(&mut self, shared: &mut Shared<'_>) -> ReadResult {
        self.current_mut().read(shared)
    }

    /// Puts back what was read too much.
    pub(super) fn unread(&mut self, rest: Vec<u8>, shared: &mut Shared<'_>) {
        self.current_mut().unread(rest, shared);
    }

    pub(super) fn print(&mut self, shared: &mut Shared<'_>, stream: Stream, bytes: &[u8]) {
        match self.current().sink(stream) {
            Sink::Process(stream) => shared.write(self.now, *stream, bytes),
            Sink::File(path) => shared.files.append(path, bytes, self.now),
            Sink::Capture(index) => {
                let index = *index;
                if let Some(captured) = self.captured.get_mut(index) {
                    captured.extend(bytes);
                }
            }
        }
    }

    pub(super) fn complain(&mut self, shared: &mut Shared<'_>, why: &str) {
        self.print(shared, Stream::Stderr, format!("sh: {why}\n").as_bytes());
    }
}
