//! A Prometheus with its own directory that scrapes one server every second. Stopped when dropped.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::package::Programs;
use super::{POLL_INTERVAL, SHOWS_WITHIN};
use crate::cargo;
use crate::test::http::request;
use crate::test::server::Server;

pub(super) struct Prometheus {
    pub(super) url: String,
    child: Child,
    directory: PathBuf,
}

impl Prometheus {
    pub(super) fn begin(programs: &Programs, server: &Server) -> Result<Self> {
        let target = cargo::repository_root().join("target");
        let directory = target.join(format!("prometheus-data-{}", std::process::id()));
        fs::create_dir(&directory).context("could not make a directory for Prometheus")?;
        fs::write(directory.join("token"), &server.token).context("could not write the token")?;
        fs::write(directory.join("rules.yml"), rules_without_delay()?)
            .context("could not write the rules")?;
        fs::write(directory.join("prometheus.yml"), configuration(&server.url))
            .context("could not write the configuration")?;
        let log = fs::File::create(target.join("prometheus.log")).context("could not make a log")?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let child = Command::new(&programs.prometheus)
            .arg(format!("--web.listen-address={address}"))
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("could not start Prometheus")?;
        let prometheus = Self { url: format!("http://{address}"), child, directory };
        prometheus.wait()?;
        Ok(prometheus)
    }

    #[expect(clippy::disallowed_methods, reason = "a wait for another process takes real time")]
    fn wait(&self) -> Result<()> {
        let end = std::time::Instant::now() + SHOWS_WITHIN;
        loop {
            match request("GET", &self.url, "/-/ready", None, "") {
                Ok(answer) if answer.status == 200 => return Ok(()),
                Ok(_) | Err(_) if std::time::Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
                Ok(answer) => anyhow::bail!("Prometheus is not ready: {}", answer.status),
                Err(error) => return Err(error.context("Prometheus did not begin")),
            }
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Another process may take the port before Prometheus does; then Prometheus reports it.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("could not find a free port")?;
    Ok(listener.local_addr().context("could not find a free port")?.port())
}

/// The rules without their `for` delays.
fn rules_without_delay() -> Result<String> {
    let path = cargo::repository_root().join("deploy/prometheus/pinfold.rules.yml");
    let rules = fs::read_to_string(path).context("could not read the rules")?;
    Ok(rules.replace("for: 1m\n", "for: 1s\n"))
}

fn configuration(url: &str) -> String {
    let address = url.trim_start_matches("http://");
    format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [rules.yml]\n\
         scrape_configs:\n\
         - job_name: pinfold\n  \
           authorization: {{ credentials_file: token }}\n  \
           static_configs: [{{ targets: [\"{address}\"] }}]\n"
    )
}
