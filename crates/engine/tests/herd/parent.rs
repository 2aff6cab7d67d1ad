//! Starts the members, kills them at random, restarts them, and keeps what they said.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinfold_lifecycle::{ExecutionId, SandboxId};

/// Tells a member where to work.
pub(crate) const DIRECTORY: &str = "PINFOLD_HERD_DIRECTORY";

/// What members were promised by their engines, and said so after they had the answer.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) sandboxes: Vec<SandboxId>,
    pub(crate) executions: Vec<ExecutionId>,
    pub(crate) gone: Vec<SandboxId>,
    pub(crate) deaths: u64,
}

pub(crate) struct Herd {
    directory: PathBuf,
    members: Vec<Member>,
    lines: (Sender<String>, Receiver<String>),
    rng: fastrand::Rng,
    deaths: u64,
}

struct Member {
    child: Child,
    listener: Option<JoinHandle<()>>,
}

impl Herd {
    pub(crate) fn of(size: usize, directory: &Path, seed: u64) -> Self {
        let mut herd = Self {
            directory: directory.to_owned(),
            members: Vec::new(),
            lines: channel(),
            rng: fastrand::Rng::with_seed(seed),
            deaths: 0,
        };
        for _ in 0..size {
            let member = herd.start();
            herd.members.push(member);
        }
        herd
    }

    fn start(&self) -> Member {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_member_of_the_herd_works_where_it_is_told_to", "--nocapture"])
            .env(DIRECTORY, &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let sender = self.lines.0.clone();
        let listener = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                sender.send(line).unwrap();
            }
        });
        Member { child, listener: Some(listener) }
    }

    /// Every now and then one of them dies without a word, and another takes its place.
    #[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
    pub(crate) fn be_hunted_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(self.rng.u64(50..500)));
            let victim = self.rng.usize(0..self.members.len());
            self.members[victim].kill();
            self.deaths += 1;
            self.members[victim] = self.start();
        }
    }

    /// All of them die at once.
    pub(crate) fn end(mut self) -> Told {
        for member in &mut self.members {
            member.kill();
        }
        drop(self.lines.0);
        let mut told = Told { deaths: self.deaths, ..Told::default() };
        for line in self.lines.1 {
            told.take(&line);
        }
        told
    }
}

impl Member {
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }
}

/// A test that fails leaves nobody behind.
impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Told {
    fn take(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("created", id)) => self.sandboxes.push(id.parse().unwrap()),
            Some(("accepted", id)) => self.executions.push(id.parse().unwrap()),
            Some(("gone", id)) => self.gone.push(id.parse().unwrap()),
            // The test harness has its own words.
            _ => {}
        }
    }
}
