//! The server under test: `pinfold serve`.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pinfold_checker::{Api, Deadline};
use rustix::process::{Pid, Signal, kill_process};

use crate::Arguments;

/// By the machine's clock; nothing else runs there.
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
    /// The server answers when this returns.
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
        let answered = Deadline::after(START).poll(|| match server.child.try_wait() {
            Ok(None) => answers().then_some(true),
            Ok(Some(_)) | Err(_) => Some(false),
        });
        if answered != Some(true) {
            bail!("the server does not answer: {}", server.log_tail().join("; "));
        }
        server.api.token = token(&arguments.data)?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// The end of its log.
    pub(crate) fn log_tail(&self) -> Vec<String> {
        let log = fs::read_to_string(LOG).unwrap_or_default();
        let lines: Vec<_> = log.lines().map(str::to_owned).collect();
        lines[lines.len().saturating_sub(LINES)..].to_vec()
    }

    /// Ends it with SIGTERM, as an administrator would.
    pub(crate) fn end(mut self) -> Result<ExitStatus> {
        let pid = Pid::from_raw(self.pid()).context("the server has no valid pid")?;
        kill_process(pid, Signal::TERM).context("could not signal the server")?;
        let ended = Deadline::after(END).poll(|| self.child.try_wait().ok().flatten());
        ended.with_context(|| format!("the server does not end within {END:?}"))
    }
}

fn token(data: &Path) -> Result<String> {
    let text = fs::read_to_string(data.join("admin.token")).context("there is no token")?;
    Ok(text.trim().to_owned())
}
