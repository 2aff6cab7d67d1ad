//! A child process that is killed with SIGKILL and never outlives the test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// When it is killed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    AfterItsStart(Duration),
    /// However long that takes on a busy machine.
    AfterItsFirstPromise(Duration),
}

/// Prefix of a line that promises something.
pub(crate) const PROMISE: &str = "ready";
/// A maker without a promise is killed after this time.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);

pub(crate) struct Victim {
    child: Child,
    listener: Option<JoinHandle<Vec<String>>>,
    promised: Receiver<()>,
}

impl Victim {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {command:?}"))?;
        let output = child.stdout.take().context("its output is not ours")?;
        let (promises, promised) = channel();
        let listener = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let heard = lines.inspect(|line| {
                if line.starts_with(PROMISE) {
                    let _ = promises.send(());
                }
            });
            heard.collect()
        });
        Ok(Self { child, listener: Some(listener), promised })
    }

    /// Kills it at `moment`, its children first if `children_too`. Returns what it printed.
    pub(crate) fn kill(mut self, moment: Moment, children_too: bool) -> Result<Vec<String>> {
        match moment {
            Moment::AfterItsStart(life) => std::thread::sleep(life),
            Moment::AfterItsFirstPromise(life) => {
                let _ = self.promised.recv_timeout(LONGEST_SILENCE);
                std::thread::sleep(life);
            }
        }
        if children_too {
            self.kill_children();
        }
        self.child.kill().context("could not kill it")?;
        self.child.wait().context("could not wait for it")?;
        self.heard()
    }

    pub(crate) fn finish(mut self) -> Result<(ExitStatus, Vec<String>)> {
        let status = self.child.wait().context("could not wait for it")?;
        Ok((status, self.heard()?))
    }

    fn heard(&mut self) -> Result<Vec<String>> {
        let listener = self.listener.take().context("it was heard already")?;
        listener.join().ok().context("its listener panicked")
    }

    /// The parent is alive and does not reap concurrently, so that these pids cannot have been reused.
    fn kill_children(&self) {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
