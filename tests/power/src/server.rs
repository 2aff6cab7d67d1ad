//! The server under test, as users run it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pinfold_checker::{Api, Patience};
use rustix::process::{Pid, Signal, kill_process};

use crate::Arguments;

/// By the machine's own clock, on which nothing else runs.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(5);
const PORT: u16 = 7463;
const LOG: &str = "/run/server.log";
const LINES: usize = 30;

pub(crate) struct Server {
    child: Child,
    pub(crate) api: Api,
}

impl Server {
    /// Answers by the time this returns.
    pub(crate) fn start(arguments: &Arguments) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let log = File::create(LOG).context("could not make the server's log")?;
        let child = Command::new(&arguments.pinfold)
            .args(["serve", "--log", "warn", "--listen", &address.to_string(), "--config"])
            .arg(&arguments.config)
            .arg("--data-dir")
            .arg(&arguments.data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("could not start the server")?;
        let mut server = Self { child, api: Api { address, token: String::new() } };
        let answers = || server.api.get("/healthz", ANSWER).is_ok_and(|answer| answer.is_good());
        let answered = Patience::of(START).until(|| match server.child.try_wait() {
            Ok(None) => answers().then_some(true),
            Ok(Some(_)) | Err(_) => Some(false),
        });
        if answered != Some(true) {
            bail!("the server does not answer: {}", server.last_words().join("; "));
        }
        server.api.token = token(&arguments.data)?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> Vec<String> {
        let log = fs::read_to_string(LOG).unwrap_or_default();
        let lines: Vec<_> = log.lines().map(str::to_owned).collect();
        lines[lines.len().saturating_sub(LINES)..].to_vec()
    }

    /// As its administrator would end it.
    pub(crate) fn end(mut self) -> Result<ExitStatus> {
        let pid = Pid::from_raw(self.pid()).context("the server has no number")?;
        kill_process(pid, Signal::TERM).context("could not signal the server")?;
        let ended = Patience::of(END).until(|| self.child.try_wait().ok().flatten());
        ended.with_context(|| format!("the server does not end within {END:?}"))
    }
}

fn token(data: &Path) -> Result<String> {
    let text = fs::read_to_string(data.join("admin.token")).context("there is no token")?;
    Ok(text.trim().to_owned())
}
