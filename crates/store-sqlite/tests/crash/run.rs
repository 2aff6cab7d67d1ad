//! Runs the child: directly, to be killed at some moment, or under strace, which kills it or makes its calls fail at an
//! exact call. The child never outlives the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::child::Work;

pub(crate) const DIRECTORY: &str = "PINFOLD_CRASH_DIRECTORY";
pub(crate) const WORK: &str = "PINFOLD_CRASH_WORK";

const TIMEOUT: Duration = Duration::from_secs(60);

/// The last acknowledgement of the store for each sandbox.
pub(crate) type Acks = BTreeMap<u128, Ack>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    pub(crate) version: i64,
    pub(crate) may_be_gone: bool,
}

/// The output and exit status of a child that has ended.
#[derive(Debug)]
pub(crate) struct ChildOutput {
    pub(crate) lines: Vec<String>,
    pub(crate) succeeded: bool,
}

impl ChildOutput {
    pub(crate) fn is_done(&self) -> bool {
        self.succeeded && self.lines.iter().any(|line| line == "done")
    }

    pub(crate) fn starting_with(&self, word: &str) -> Vec<&str> {
        let lines = self.lines.iter().map(String::as_str);
        lines.filter(|line| line.starts_with(word)).collect()
    }

    pub(crate) fn add_to(&self, acks: &mut Acks) {
        for line in self.starting_with("ack ") {
            let words: Vec<&str> = line.split(' ').collect();
            let ack = Ack { version: words[2].parse().unwrap(), may_be_gone: words[3].parse().unwrap() };
            acks.insert(words[1].parse().unwrap(), ack);
        }
    }
}

pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    output: Vec<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn start(directory: &Path, work: Work) -> Self {
        Self::spawn(child_command(Command::new(exe()), directory, work))
    }

    /// Starts it under strace with these options.
    pub(crate) fn under_strace(directory: &Path, work: Work, options: &[&str], trace: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o"]).arg(trace).args(options).arg(exe());
        Self::spawn(child_command(strace, directory, work))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The receiver may be dropped after a timeout.
                let _ = sender.send(line);
            }
        });
        Self { child, lines, output: Vec::new() }
    }

    /// Waits for a line that begins with `word`.
    pub(crate) fn wait_for(&mut self, word: &str) {
        while !self.output.iter().any(|line| line.starts_with(word)) {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => self.output.push(line),
                Err(error) => {
                    panic!("the child did not print `{word}`: {error}; its output: {:?}", self.output)
                }
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for its end and returns all of its output.
    pub(crate) fn end(mut self) -> ChildOutput {
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => self.output.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the child hangs after {:?}", self.output.last()),
            }
        }
        let succeeded = self.child.wait().unwrap().success();
        ChildOutput { lines: std::mem::take(&mut self.output), succeeded }
    }
}

fn exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn child_command(mut command: Command, directory: &Path, work: Work) -> Command {
    command
        .args(["helper_process_writes_until_done_or_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(WORK, format!("{} {} {}", work.first, work.tasks, work.transitions))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}
