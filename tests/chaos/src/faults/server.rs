//! One server process under test: the unmodified program, or the one with failpoints.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pinfold_checker::{Api, Deadline};
use rustix::process::{Pid, Signal, kill_process};

use super::fixture::Fixture;

/// Generous, for busy machines.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(5);
const LAST_WORD: Duration = Duration::from_secs(1);

/// How a server is started, now and after each crash.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// As users run it.
    Real(PathBuf),
    /// With failpoints, and these arguments.
    WithFailpoints(Vec<String>),
}

pub(crate) struct Server {
    child: Child,
    pub(crate) api: Api,
    output: Arc<ServerOutput>,
}

/// What a server with failpoints prints.
#[derive(Default)]
struct ServerOutput {
    /// The failpoint at which it crashed.
    crashed_at: Mutex<Option<String>>,
    /// How many commands it has handled.
    commands_done: AtomicU64,
}

impl Server {
    /// The server answers when this returns, or has crashed.
    pub(crate) fn start(fixture: &Fixture, program: &Program) -> Result<Self> {
        let mut child = command(fixture, program)?.spawn().context("could not start the server")?;
        let lines = Arc::new(ServerOutput::default());
        let (pipe, shared) = (child.stdout.take().context("the server has no output pipe")?, lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if let Some(point) = line.strip_prefix("crashed ") {
                    *shared.crashed_at.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(point.to_owned());
                } else if line == "done" {
                    shared.commands_done.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let pid = child.id();
        let deadline = Deadline::after(START);
        let found = deadline.poll(|| {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Some(None);
            }
            let api = announced(fixture, pid)?;
            let answers = api.get("/healthz", ANSWER).is_ok_and(|answer| answer.is_good());
            answers.then_some(Some(api))
        });
        let Some(found) = found else {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the server does not answer within {START:?}");
        };
        // A crashed server has no address: requests fail, and callers find that it is dead.
        let unreachable = || Api { address: ([127, 0, 0, 1], 9).into(), token: String::new() };
        Ok(Self { child, api: found.unwrap_or_else(unreachable), output: lines })
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Sends it a command. Whether the server handled it, or crashed, within seconds.
    pub(crate) fn command(&mut self, line: &str) -> Result<bool> {
        let before = self.output.commands_done.load(Ordering::Relaxed);
        let input = self.child.stdin.as_mut().context("the server has no standard input")?;
        writeln!(input, "{line}").context("could not send a command to the server")?;
        let is_done = || (self.output.commands_done.load(Ordering::Relaxed) > before).then_some(());
        let commands_done =
            Deadline::after(ANSWER).poll(|| is_done().or_else(|| self.crashed_at().map(drop)));
        Ok(commands_done.is_some())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid()).context("the server has no pid")?;
        kill_process(pid, signal).context("could not signal the server")
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("could not kill the server")?;
        self.child.wait().context("could not wait for the server")?;
        Ok(())
    }

    pub(crate) fn is_dead(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }

    /// Waits for it to crash.
    pub(crate) fn crashes_within(&mut self, time: Duration) -> bool {
        Deadline::after(time).poll(|| self.is_dead().then_some(())).is_some()
    }

    /// Its last output may be read a little later than its exit.
    pub(crate) fn crash_point(&self) -> Option<String> {
        Deadline::after(LAST_WORD).poll(|| self.crashed_at())
    }

    fn crashed_at(&self) -> Option<String> {
        self.output.crashed_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it with SIGTERM, as an administrator would.
    pub(crate) fn end(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let ended = Deadline::after(END).poll(|| self.child.try_wait().ok().flatten());
        ended.with_context(|| format!("the server does not end within {END:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server joins the pids cgroup before it starts, since it creates its own cgroups below.
fn command(fixture: &Fixture, program: &Program) -> Result<Command> {
    let mut command = Command::new("sh");
    let joins = match &fixture.counted {
        Some(group) => format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.display()),
        None => "exec \"$@\"".to_owned(),
    };
    command.args(["-c", &joins, "sh"]);
    match program {
        Program::Real(pinfold) => {
            command.arg(pinfold).args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&fixture.data);
        }
        Program::WithFailpoints(arguments) => {
            command.arg(std::env::current_exe()?).arg("serve").arg(&fixture.data).args(arguments);
        }
    }
    let log = File::options().create(true).append(true).open(fixture.directory.join("log"));
    let log = log.context("could not open the server's log")?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    Ok(command)
}

/// The address that the server with this pid has announced.
fn announced(fixture: &Fixture, pid: u32) -> Option<Api> {
    let announced: serde_json::Value =
        serde_json::from_slice(&fs::read(fixture.data.join("server.json")).ok()?).ok()?;
    if announced["pid"].as_u64() != Some(pid.into()) {
        return None;
    }
    let address = announced["address"].as_str()?.strip_prefix("http://")?.parse().ok()?;
    let token = fs::read_to_string(fixture.data.join("admin.token")).ok()?.trim().to_owned();
    Some(Api { address, token })
}
