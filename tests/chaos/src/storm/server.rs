//! One server process under test: the program as it is, or the same behind gates.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pinfold_checker::{Api, Patience};
use rustix::process::{Pid, Signal, kill_process};

use super::ground::Ground;

/// For a machine that is busy, not for us.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(5);
const LAST_WORD: Duration = Duration::from_secs(1);

/// How a server is started, now and whenever it has died.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// As users run it.
    Real(PathBuf),
    /// Behind gates, with these arguments.
    Gated(Vec<String>),
}

pub(crate) struct Server {
    child: Child,
    pub(crate) api: Api,
    said: Arc<Said>,
}

/// What a server behind gates says on its output.
#[derive(Default)]
struct Said {
    /// The point at which it has died.
    died_at: Mutex<Option<String>>,
    /// How many orders it has obeyed.
    obeyed: AtomicU64,
}

impl Server {
    /// Answers by the time this returns, or has died on the way.
    pub(crate) fn start(ground: &Ground, program: &Program) -> Result<Self> {
        let mut child = command(ground, program)?.spawn().context("could not start the server")?;
        let said = Arc::new(Said::default());
        let (output, note) = (child.stdout.take().context("its output is not ours")?, said.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(point) = line.strip_prefix("died ") {
                    *note.died_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(point.to_owned());
                } else if line == "obeyed" {
                    note.obeyed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let pid = child.id();
        let patience = Patience::of(START);
        let found = patience.until(|| {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Some(None);
            }
            let api = announced(ground, pid)?;
            let answers = api.get("/healthz", ANSWER).is_ok_and(|answer| answer.is_good());
            answers.then_some(Some(api))
        });
        let Some(found) = found else {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the server does not answer within {START:?}");
        };
        // Nobody can be asked: whoever wants to know learns that it has died.
        let nobody = || Api { address: ([127, 0, 0, 1], 9).into(), token: String::new() };
        Ok(Self { child, api: found.unwrap_or_else(nobody), said })
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Gives it an order. Whether it has obeyed, or died of it, within seconds.
    pub(crate) fn tell(&mut self, line: &str) -> Result<bool> {
        let before = self.said.obeyed.load(Ordering::Relaxed);
        let input = self.child.stdin.as_mut().context("it takes no orders")?;
        writeln!(input, "{line}").context("it does not listen")?;
        let has_obeyed = || (self.said.obeyed.load(Ordering::Relaxed) > before).then_some(());
        let obeyed = Patience::of(ANSWER).until(|| has_obeyed().or_else(|| self.died_at().map(drop)));
        Ok(obeyed.is_some())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid()).context("it has no number")?;
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

    /// Waits so long for its death.
    pub(crate) fn dies_within(&mut self, time: Duration) -> bool {
        Patience::of(time).until(|| self.is_dead().then_some(())).is_some()
    }

    /// What it has said last may be read a little later than its death is seen.
    pub(crate) fn last_word(&self) -> Option<String> {
        Patience::of(LAST_WORD).until(|| self.died_at())
    }

    fn died_at(&self) -> Option<String> {
        self.said.died_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As its administrator would end it.
    pub(crate) fn end(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let ended = Patience::of(END).until(|| self.child.try_wait().ok().flatten());
        ended.with_context(|| format!("the server does not end within {END:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the group that counts its processes before it is itself, since there it makes its own.
fn command(ground: &Ground, program: &Program) -> Result<Command> {
    let mut command = Command::new("sh");
    let joins = match &ground.counted {
        Some(group) => format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.display()),
        None => "exec \"$@\"".to_owned(),
    };
    command.args(["-c", &joins, "sh"]);
    match program {
        Program::Real(pinfold) => {
            command.arg(pinfold).args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&ground.data);
        }
        Program::Gated(arguments) => {
            command.arg(std::env::current_exe()?).arg("serve").arg(&ground.data).args(arguments);
        }
    }
    let log = File::options().create(true).append(true).open(ground.directory.join("log"));
    let log = log.context("could not open the server's log")?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    Ok(command)
}

/// Where the server of this number says that it is.
fn announced(ground: &Ground, pid: u32) -> Option<Api> {
    let said: serde_json::Value =
        serde_json::from_slice(&fs::read(ground.data.join("server.json")).ok()?).ok()?;
    if said["pid"].as_u64() != Some(pid.into()) {
        return None;
    }
    let address = said["address"].as_str()?.strip_prefix("http://")?.parse().ok()?;
    let token = fs::read_to_string(ground.data.join("admin.token")).ok()?.trim().to_owned();
    Some(Api { address, token })
}
