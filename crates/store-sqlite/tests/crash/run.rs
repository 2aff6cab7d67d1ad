//! Runs the child: plainly, to be killed at some moment, or under strace, which kills it or fails its calls at an
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

const AT_MOST: Duration = Duration::from_secs(60);

/// The last acknowledgement of each sandbox.
pub(crate) type Acks = BTreeMap<u128, Ack>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    pub(crate) version: i64,
    pub(crate) may_be_gone: bool,
}

/// The complete output of a child.
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
    heard: Vec<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn plainly(directory: &Path, work: Work) -> Self {
        Self::start(child_command(Command::new(exe()), directory, work))
    }

    /// Under strace with these options, such as what to trace and what to inject.
    pub(crate) fn under_strace(directory: &Path, work: Work, options: &[&str], trace: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o"]).arg(trace).args(options).arg(exe());
        Self::start(child_command(strace, directory, work))
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                // The receiver is gone if the test has failed.
                let _ = tell.send(line);
            }
        });
        Self { child, lines, heard: Vec::new() }
    }

    /// Waits for this line of output.
    pub(crate) fn wait_for(&mut self, word: &str) {
        while !self.heard.iter().any(|line| line.starts_with(word)) {
            match self.lines.recv_timeout(AT_MOST) {
                Ok(line) => self.heard.push(line),
                Err(error) => panic!("the child did not say `{word}`: {error}, but {:?}", self.heard),
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for its exit and the rest of its output.
    pub(crate) fn end(mut self) -> ChildOutput {
        loop {
            match self.lines.recv_timeout(AT_MOST) {
                Ok(line) => self.heard.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the child hangs after {:?}", self.heard.last()),
            }
        }
        let succeeded = self.child.wait().unwrap().success();
        ChildOutput { lines: std::mem::take(&mut self.heard), succeeded }
    }
}

fn exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn child_command(mut command: Command, directory: &Path, work: Work) -> Command {
    command
        .args(["child_writes_to_the_given_directory", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(WORK, format!("{} {} {}", work.first, work.tasks, work.turns))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}
