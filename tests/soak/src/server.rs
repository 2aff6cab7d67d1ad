//! `pinfold serve` on its own data directory, with a short retention.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::connection::ServerAddress;

const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// Longer than it gives its sandboxes.
const ENDS_WITHIN: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of the log to print after a failure.
const LAST_LINES: usize = 20;

pub(crate) struct Server {
    process: Child,
    directory: TempDir,
}

impl Server {
    pub(crate) fn start(program: &Path, retention_seconds: u32) -> Result<Self> {
        // On disk, which `/tmp` may not be.
        let place = tempfile::Builder::new().prefix("pinfold-soak-").tempdir_in("/var/tmp");
        let place = place.context("could not make a directory in `/var/tmp`")?;
        let data = place.path().join("data");
        fs::create_dir(&data).context("could not make the data directory")?;
        fs::write(data.join("pinfold.toml"), settings(retention_seconds))
            .context("could not write settings")?;
        let log = fs::File::create(place.path().join("log")).context("could not make a log")?;
        let process = Command::new(program)
            .arg("serve")
            .arg("--data-dir")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C goes to this process, which ends the server.
            .process_group(0)
            .spawn()
            .with_context(|| format!("could not start `{}`", program.display()))?;
        Ok(Self { process, directory: place })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Waits for `server.json` and returns the server's address and token.
    pub(crate) async fn address(&mut self) -> Result<ServerAddress> {
        let (data, end) = (self.data(), Instant::now() + BEGINS_WITHIN);
        while !data.join("server.json").exists() {
            ensure!(self.is_running(), "the server ended at once:\n{}", self.log_tail());
            ensure!(Instant::now() < end, "the server did not begin:\n{}", self.log_tail());
            sleep(POLL_INTERVAL).await;
        }
        let content = fs::read(data.join("server.json")).context("could not find the server")?;
        let content: Value = serde_json::from_slice(&content).context("`server.json` is invalid")?;
        let address = content["address"].as_str().and_then(|it| it.strip_prefix("http://"));
        let address = address.context("`server.json` is invalid")?;
        let token = fs::read_to_string(data.join("admin.token")).context("there is no token")?;
        Ok(ServerAddress { address: address.parse()?, token: token.trim().to_owned() })
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }

    /// Stops the server with all its sandboxes. The directory stays until this is dropped.
    pub(crate) async fn end(&mut self) -> Result<()> {
        ensure!(self.is_running(), "the server ended by itself:\n{}", self.log_tail());
        kill_process(Pid::from_child(&self.process), Signal::TERM).context("could not ask it to end")?;
        let end = Instant::now() + ENDS_WITHIN;
        while self.is_running() {
            if Instant::now() >= end {
                bail!("the server did not end:\n{}", self.log_tail());
            }
            sleep(POLL_INTERVAL).await;
        }
        let status = self.process.wait().context("could not wait for the server")?;
        ensure!(status.success(), "the server ended with {status}:\n{}", self.log_tail());
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It was asked to end before. `ServerResources::clear` removes what it leaves behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn settings(retention_seconds: u32) -> String {
    let kept = ["records", "history", "keys", "logs", "artifacts", "metrics"];
    let kept: String = kept.iter().map(|what| format!("{what} = \"{retention_seconds}s\"\n")).collect();
    format!("[server]\nlisten = \"127.0.0.1:0\"\non_exit = \"stop\"\nlog = \"warn\"\n\n[retention]\n{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_retention_period_is_the_configured_one() {
        let settings = settings(120);

        assert!(settings.contains("[retention]\nrecords = \"120s\"\nhistory = \"120s\"\nkeys = \"120s\"\n"));
        assert!(settings.contains("on_exit = \"stop\""));
    }
}
