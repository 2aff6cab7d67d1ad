//! `pinfold serve` for a stage: on its own data directory, which is removed only after the server has reported that
//! all its sandboxes are gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::builds::kept_program;

const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// Longer than the server waits for its requests and its sandboxes.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Must be ended with [`Server::end`]. A stage that fails earlier drops it, which does the same and prints the error.
pub(super) struct Server {
    process: Process,
    pub(super) url: String,
    pub(super) token: String,
}

impl Server {
    /// Its data directory and its log are in `target`, and their names begin with the stage's name.
    pub(super) fn start(stage: &str, target: &Path) -> Result<Self> {
        let data = target.join(format!("{stage}-server-{}", std::process::id()));
        fs::create_dir(&data).context("could not create the data directory")?;
        let log = target.join(format!("{stage}-server.log"));
        let mut command = Command::new(kept_program("pinfold"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--on-exit", "stop", "--log", "warn"])
            .env("PINFOLD_DATA_DIR", &data);
        let mut process = Process::spawn(command, data, log)?;
        process.wait_for_file("server.json", STARTS_WITHIN)?;
        let announced =
            fs::read_to_string(process.data.join("server.json")).context("could not read `server.json`")?;
        let url = announced.split('"').find(|word| word.starts_with("http://"));
        let url = url.context("`server.json` has no address")?.to_owned();
        let token = fs::read_to_string(process.data.join("admin.token")).context("there is no token")?;
        Ok(Self { process, url, token: token.trim().to_owned() })
    }

    /// Stops the server with its sandboxes. Fails if it did not report that they are gone; the data directory then
    /// stays, so that a next server can stop them.
    pub(super) fn end(mut self) -> Result<()> {
        self.process.end(ENDS_WITHIN)
    }
}

struct Process {
    child: Child,
    data: PathBuf,
    log: PathBuf,
    has_ended: bool,
}

impl Process {
    fn spawn(mut command: Command, data: PathBuf, log: PathBuf) -> Result<Self> {
        let stderr = fs::File::create(&log).context("could not create a log file")?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn();
        let child = child.context("could not start the server")?;
        Ok(Self { child, data, log, has_ended: false })
    }

    #[expect(clippy::disallowed_methods, reason = "a wait for a process takes real time")]
    fn wait_for_file(&mut self, name: &str, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        while !self.data.join(name).exists() {
            let exited = self.child.try_wait().context("could not wait for the server")?;
            ensure!(exited.is_none(), "the server ended while it started:\n{}", self.log());
            ensure!(Instant::now() < end, "the server wrote no `{name}`:\n{}", self.log());
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn end(&mut self, within: Duration) -> Result<()> {
        self.has_ended = true;
        let kill = Command::new("kill").arg(self.child.id().to_string()).status();
        ensure!(kill.is_ok_and(|kill| kill.success()), "could not send SIGTERM to the server");
        let Some(status) = self.wait(within)? else {
            let _ = self.child.kill();
            let _ = self.child.wait();
            bail!("the server did not end within {within:?}, {}", self.left_behind());
        };
        ensure!(status.success(), "the server ended with {status}, {}", self.left_behind());
        fs::remove_dir_all(&self.data).context("could not remove the data directory")
    }

    /// None: it runs on.
    #[expect(clippy::disallowed_methods, reason = "a wait for a process takes real time")]
    fn wait(&mut self, within: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + within;
        loop {
            let status = self.child.try_wait().context("could not wait for the server")?;
            if status.is_some() || Instant::now() >= end {
                return Ok(status);
            }
            sleep(POLL_INTERVAL);
        }
    }

    fn left_behind(&self) -> String {
        format!("its sandboxes may be left; data directory: {}; log:\n{}", self.data.display(), self.log())
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|error| format!("(not readable: {error})"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.has_ended
            && let Err(error) = self.end(ENDS_WITHIN)
        {
            eprintln!("{error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that runs `on_term` when it gets SIGTERM.
    fn process(name: &str, on_term: &str) -> Process {
        let data = std::env::temp_dir().join(format!("pinfold-xtask-{name}-{}", std::process::id()));
        fs::create_dir(&data).unwrap();
        let mut command = Command::new("sh");
        let script = "trap \"$2\" TERM; : > \"$1/server.json\"; while :; do sleep 0.01; done";
        command.args(["-c", script, "sh"]).arg(&data).arg(on_term);
        let mut process = Process::spawn(command, data.clone(), data.with_extension("log")).unwrap();
        process.wait_for_file("server.json", STARTS_WITHIN).unwrap();
        process
    }

    #[test]
    fn data_directory_is_removed_only_after_the_server_reported_success() {
        let within = Duration::from_secs(30);
        for (name, on_term, expected, remains) in [
            ("success", "exit 0", None, false),
            ("failure", "echo sbx_1 is left >&2; exit 1", Some("sbx_1 is left"), true),
            ("crash", "kill -KILL $$", Some("signal: 9"), true),
        ] {
            let mut process = process(name, on_term);

            let ended = process.end(within);

            let error = ended.err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
            assert!(expected.is_none_or(|text| error.unwrap_or_default().contains(text)));
            assert_eq!(process.data.exists(), remains);
            let _ = fs::remove_dir_all(&process.data);
            fs::remove_file(&process.log).unwrap();
        }
    }

    #[test]
    fn server_that_does_not_end_is_killed_and_its_data_directory_stays() {
        let mut process = process("hanging", "");

        let error = process.end(Duration::from_millis(200)).unwrap_err();

        assert!(error.to_string().contains("did not end within 200ms"), "{error}");
        assert!(process.child.try_wait().unwrap().is_some());
        assert!(process.data.exists());
        fs::remove_dir_all(&process.data).unwrap();
        fs::remove_file(&process.log).unwrap();
    }
}
