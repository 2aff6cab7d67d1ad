//! `pinfold serve` as its own process, on a data directory on disk.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_bench_report::now;
use pinfold_procfs::Stat;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::connection::Connection;
use crate::host::directory_on_disk;

const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    /// From the start of the process to its first answer.
    pub(crate) began: Duration,
    data: Arc<TempDir>,
}

impl Server {
    pub(crate) async fn begin() -> Result<Self> {
        Self::begin_with_env(&[]).await
    }

    /// With more environment variables.
    pub(crate) async fn begin_with_env(environment: &[(&str, String)]) -> Result<Self> {
        Self::begin_on(Arc::new(directory_on_disk()?), environment).await
    }

    /// Another server on the same store.
    pub(crate) async fn beside(&self) -> Result<Self> {
        Self::begin_on(self.data.clone(), &[]).await
    }

    async fn begin_on(data: Arc<TempDir>, environment: &[(&str, String)]) -> Result<Self> {
        let address = free_address()?;
        let log = fs::File::create(data.path().join(format!("{}.log", address.port())))?;
        let begun = now();
        let process = Command::new(program()?)
            .args(["serve", "--on-exit", "stop", "--log", "warn", "--listen", &address.to_string()])
            .arg("--data-dir")
            .arg(data.path())
            // Limits are lifted: the benchmark measures what the server can do.
            .envs([("PINFOLD_REQUESTS_RATE", "1000000"), ("PINFOLD_REQUESTS_BURST", "1000000")])
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("could not start the server")?;
        let mut server = Self { process, address, token: String::new(), began: Duration::ZERO, data };
        while server.healthz().await.is_err() {
            ensure!(begun.elapsed() < TIMEOUT, "the server does not answer");
            ensure!(server.process.try_wait()?.is_none(), "the server has ended");
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        server.began = begun.elapsed();
        server.token = read_token(server.data.path())?;
        Ok(server)
    }

    async fn healthz(&self) -> Result<()> {
        Connection::tcp(self.address, "").await?.request("GET", "/healthz", None, 200).await.map(drop)
    }

    pub(crate) fn resident_mib(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
        Ok(kib / 1_024.0)
    }

    /// CPU time of all its threads, also of those that have ended, without the spawner and the sandboxes.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let stat = Stat::of(i32::try_from(self.process.id())?)?.context("the server has ended")?;
        Ok(Duration::from_millis(stat.cpu_ms()))
    }

    /// Stops the server with all its sandboxes.
    pub(crate) fn end(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::TERM)?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

/// Also after a failed benchmark.
impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

/// An address that is unused now.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn read_token(data: &Path) -> Result<String> {
    let token = fs::read_to_string(data.join("admin.token")).context("could not read the first token")?;
    Ok(token.trim().to_owned())
}

fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("could not find this program's own file")?;
    let program = own.with_file_name("pinfold");
    ensure!(program.exists(), "`{}` is not built", program.display());
    Ok(program)
}
