//! `pinfold serve` as users run it, on a data directory of its own, but forgetting everything after a short time.

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

use crate::caller::Door;

const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// Longer than it gives its sandboxes.
const ENDS_WITHIN: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Of its log, when it failed.
const LAST_LINES: usize = 20;

pub(crate) struct Server {
    process: Child,
    place: TempDir,
}

impl Server {
    pub(crate) fn begin(program: &Path, retention_seconds: u32) -> Result<Self> {
        // On a disk, which `/tmp` may not be.
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
            // Ctrl-C is for us, and we end it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("could not start `{}`", program.display()))?;
        Ok(Self { process, place })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// When it has said where it is.
    pub(crate) async fn door(&mut self) -> Result<Door> {
        let (data, end) = (self.data(), Instant::now() + BEGINS_WITHIN);
        while !data.join("server.json").exists() {
            ensure!(self.is_there(), "the server ended at once:\n{}", self.last_words());
            ensure!(Instant::now() < end, "the server did not begin:\n{}", self.last_words());
            sleep(LOOK_EVERY).await;
        }
        let said = fs::read(data.join("server.json")).context("could not find the server")?;
        let said: Value = serde_json::from_slice(&said).context("the server does not say where it is")?;
        let address = said["address"].as_str().and_then(|it| it.strip_prefix("http://"));
        let address = address.context("the server does not say where it is")?;
        let token = fs::read_to_string(data.join("admin.token")).context("there is no token")?;
        Ok(Door { address: address.parse()?, token: token.trim().to_owned() })
    }

    pub(crate) fn is_there(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.place.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }

    /// With all its sandboxes. Its directory is there until this is dropped.
    pub(crate) async fn end(&mut self) -> Result<()> {
        ensure!(self.is_there(), "the server ended by itself:\n{}", self.last_words());
        kill_process(Pid::from_child(&self.process), Signal::TERM).context("could not ask it to end")?;
        let end = Instant::now() + ENDS_WITHIN;
        while self.is_there() {
            if Instant::now() >= end {
                bail!("the server did not end:\n{}", self.last_words());
            }
            sleep(LOOK_EVERY).await;
        }
        let status = self.process.wait().context("could not wait for the server")?;
        ensure!(status.success(), "the server ended with {status}:\n{}", self.last_words());
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It was asked before; what it leaves behind is cleared away by whoever looks from outside.
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
    fn everything_that_is_kept_is_kept_for_a_short_time() {
        let settings = settings(120);

        assert!(settings.contains("[retention]\nrecords = \"120s\"\nhistory = \"120s\"\nkeys = \"120s\"\n"));
        assert!(settings.contains("on_exit = \"stop\""));
    }
}
