//! Starts the worker processes, kills and restarts them at random, and collects their output.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinfold_lifecycle::{ExecutionId, SandboxId};

/// Environment variable with a worker's directory.
pub(crate) const DIRECTORY: &str = "PINFOLD_WORKERS_DIRECTORY";

/// What engines acknowledged to their workers.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) sandboxes: Vec<SandboxId>,
    pub(crate) executions: Vec<ExecutionId>,
    pub(crate) gone: Vec<SandboxId>,
    pub(crate) kills: u64,
}

pub(crate) struct WorkerPool {
    directory: PathBuf,
    members: Vec<Worker>,
    lines: (Sender<String>, Receiver<String>),
    rng: fastrand::Rng,
    kills: u64,
}

struct Worker {
    child: Child,
    listener: Option<JoinHandle<()>>,
}

impl WorkerPool {
    pub(crate) fn of(size: usize, directory: &Path, seed: u64) -> Self {
        let mut workers = Self {
            directory: directory.to_owned(),
            members: Vec::new(),
            lines: channel(),
            rng: fastrand::Rng::with_seed(seed),
            kills: 0,
        };
        for _ in 0..size {
            let worker = workers.start();
            workers.members.push(worker);
        }
        workers
    }

    fn start(&self) -> Worker {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker_process_runs_until_killed", "--nocapture"])
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
        Worker { child, listener: Some(listener) }
    }

    /// Kills random workers and starts others in their place.
    #[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
    pub(crate) fn kill_at_random_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(self.rng.u64(50..500)));
            let victim = self.rng.usize(0..self.members.len());
            self.members[victim].kill();
            self.kills += 1;
            self.members[victim] = self.start();
        }
    }

    /// Kills all workers at once.
    pub(crate) fn end(mut self) -> Acknowledged {
        for worker in &mut self.members {
            worker.kill();
        }
        drop(self.lines.0);
        let mut reported = Acknowledged { kills: self.kills, ..Acknowledged::default() };
        for line in self.lines.1 {
            reported.take(&line);
        }
        reported
    }
}

impl Worker {
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }
}

/// No worker outlives a failed test.
impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Acknowledged {
    fn take(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("created", id)) => self.sandboxes.push(id.parse().unwrap()),
            Some(("accepted", id)) => self.executions.push(id.parse().unwrap()),
            Some(("gone", id)) => self.gone.push(id.parse().unwrap()),
            // Output of the test harness.
            _ => {}
        }
    }
}
