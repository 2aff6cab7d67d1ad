//! A Docker daemon in its own namespaces: killing its first process removes all of it.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pinfold_bench_report::now;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{LeftoverCgroups, Peer, Programs, bundle};
use crate::run_timing::COMMAND;

pub(crate) const IMAGE: &str = "bench";
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Docker {
    daemon: Daemon,
    client: PathBuf,
    environment: Vec<(String, String)>,
    pub(crate) driver: String,
    /// Socket of its API.
    pub(crate) socket: PathBuf,
}

/// The process that created the namespaces. It ends after process 1 in them, which ends after all others.
struct Daemon {
    outside: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        match first_inside(&self.outside) {
            Some(inside) => drop(pidfd_send_signal(inside, Signal::KILL)),
            None => drop(self.outside.kill()),
        }
        let _ = self.outside.wait();
    }
}

/// Its only child, whose pid cannot be reused before it is reaped.
fn first_inside(outside: &Child) -> Option<OwnedFd> {
    let id = outside.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    let inside = Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)?;
    pidfd_open(inside, PidfdFlags::empty()).ok()
}

/// The daemon has a private mount namespace in which it can write its key and sockets.
const BEGIN: &str = r#"set -e
mount -t tmpfs tmpfs /run
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/work" /etc
exec dockerd --host "unix://$1/socket" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" \
    --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
    --userland-proxy=false --cgroup-parent "$2" --log-level error"#;

impl Docker {
    /// None: it is not installed here.
    pub(crate) fn begin(
        programs: &Programs,
        directory: &Path,
        traces: &LeftoverCgroups,
    ) -> Result<Option<Self>> {
        let (Some(client), Some(_)) = (programs.find("docker"), programs.find("dockerd")) else {
            return Ok(None);
        };
        let home = directory.join("docker");
        for part in ["etc", "work"] {
            fs::create_dir_all(home.join(part)).context("could not make a home for docker")?;
        }
        let log = File::create(home.join("log"))?;
        let daemon = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", BEGIN, "sh"])
            .arg(&home)
            .arg(traces.prefix())
            .envs(programs.environment())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C goes to the benchmark, which stops the daemon.
            .process_group(0)
            .spawn()
            .context("could not start dockerd")?;
        let mut environment = programs.environment();
        environment.push(("DOCKER_HOST".into(), format!("unix://{}", home.join("socket").display())));
        environment.push(("DOCKER_CONFIG".into(), home.join("config").display().to_string()));
        let (daemon, driver, socket) = (Daemon { outside: daemon }, String::new(), home.join("socket"));
        let mut docker = Self { daemon, client, environment, driver, socket };
        docker.driver = docker.wait_until_it_serves(&home)?;
        docker.import(&home)?;
        Ok(Some(docker))
    }

    pub(crate) fn run_peer(&self) -> Result<Peer> {
        let mut arguments: Vec<String> =
            ["run", "--rm", "--network", "none", "--volume", "/usr:/usr:ro", IMAGE]
                .map(str::to_owned)
                .to_vec();
        arguments.extend(COMMAND.map(str::to_owned));
        self.peer("docker run --rm --network none", arguments)
    }

    /// An idle container, and a command in it.
    pub(crate) fn exec_peer(&self) -> Result<Peer> {
        let name = "idle";
        let run = ["run", "--detach", "--network", "none", "--volume", "/usr:/usr:ro", "--name", name, IMAGE];
        self.client(&run.into_iter().chain(["/bin/sleep", "1000000"]).collect::<Vec<_>>())?;
        let mut arguments: Vec<String> = ["exec", name].map(str::to_owned).to_vec();
        arguments.extend(COMMAND.map(str::to_owned));
        self.peer("docker exec", arguments)
    }

    fn peer(&self, name: &'static str, arguments: Vec<String>) -> Result<Peer> {
        let peer = Peer::new(name, &Programs::none(), self.client.clone(), arguments)?;
        let version = format!("{}, {}", peer.version, self.driver);
        Ok(Peer { environment: self.environment.clone(), version, ..peer })
    }

    /// Returns the storage driver it has chosen.
    fn wait_until_it_serves(&mut self, home: &Path) -> Result<String> {
        let begun = now();
        let log = || fs::read_to_string(home.join("log")).unwrap_or_default();
        loop {
            if let Some(status) = self.daemon.outside.try_wait()? {
                bail!("dockerd ended with {status}: {}", log());
            }
            if let Ok(driver) = self.client(&["info", "--format", "{{.Driver}}"]) {
                return Ok(driver.trim().to_owned());
            }
            ensure!(begun.elapsed() < TIMEOUT, "dockerd does not serve: {}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn import(&self, home: &Path) -> Result<()> {
        let root = home.join("root");
        bundle::skeleton(&root)?;
        let archive = home.join("root.tar").display().to_string();
        let packed = Command::new("tar").arg("-C").arg(&root).args(["-cf", &archive, "."]).status()?;
        ensure!(packed.success(), "could not pack a root for docker");
        self.client(&["import", &archive, IMAGE]).map(drop)
    }

    fn client(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.client)
            .args(arguments)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .output()
            .context("could not run docker")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "docker {}: {said}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
