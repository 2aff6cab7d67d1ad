//! The baseline for stopping many processes: a plain cgroup, one write, and polling until it is empty. Always with
//! a pids limit.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_bench_report::now;

const ROOT: &str = "/sys/fs/cgroup";
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_micros(100);

pub(crate) struct BareGroup {
    /// The cgroup that can be killed as a whole.
    group: PathBuf,
    /// The cgroup with the limit: the same with v2.
    limited: PathBuf,
    first: Option<Child>,
}

impl BareGroup {
    pub(crate) fn make(processes: u64) -> Result<Self> {
        let name = format!("pinfold-bench-{}-bare", std::process::id());
        let (group, limited) = if Path::new(ROOT).join("cgroup.controllers").exists() {
            let group = Path::new(ROOT).join(&name);
            (group.clone(), group)
        } else {
            (Path::new(ROOT).join("unified").join(&name), own_v1_group("pids")?.join(&name))
        };
        let made = Self { group, limited, first: None };
        for directory in [&made.group, &made.limited] {
            fs::create_dir_all(directory)
                .with_context(|| format!("could not make `{}`", directory.display()))?;
        }
        // Without the limit nothing is started.
        fs::write(made.limited.join("pids.max"), processes.to_string())
            .context("could not limit processes")?;
        Ok(made)
    }

    /// Runs a script in it and waits for its first output.
    pub(crate) fn start(&mut self, script: &str) -> Result<()> {
        let join = "for group in \"$1\" \"$2\"; do echo $$ > \"$group/cgroup.procs\"; done; eval \"$3\"";
        let first = Command::new("sh")
            .args(["-c", join, "sh"])
            .args([&self.group, &self.limited])
            .arg(script)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start a shell")?;
        let first = self.first.insert(first);
        let mut line = String::new();
        BufReader::new(first.stdout.take().context("it has no output")?).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the script has ended before it began");
        Ok(())
    }

    pub(crate) fn processes(&self) -> Result<u64> {
        let text = fs::read_to_string(self.limited.join("pids.current"))?;
        Ok(text.trim().parse()?)
    }

    /// Kills it and returns the time until it is empty.
    pub(crate) fn end(&mut self) -> Result<Duration> {
        let begun = now();
        fs::write(self.group.join("cgroup.kill"), "1").context("could not end a group")?;
        while !fs::read_to_string(self.group.join("cgroup.events"))?.contains("populated 0") {
            ensure!(begun.elapsed() < TIMEOUT, "a group outlives its kill");
            std::thread::sleep(POLL_INTERVAL);
        }
        for directory in [&self.group, &self.limited] {
            while fs::remove_dir(directory).is_err() && directory.exists() {
                ensure!(begun.elapsed() < TIMEOUT, "`{}` cannot be removed", directory.display());
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        let taken = begun.elapsed();
        if let Some(mut first) = self.first.take() {
            first.wait()?;
        }
        Ok(taken)
    }
}

impl Drop for BareGroup {
    fn drop(&mut self) {
        if self.group.exists() || self.limited.exists() {
            let _ = self.end();
        }
    }
}

/// Below our own cgroup, so that our limits apply.
fn own_v1_group(controller: &str) -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").context("could not read our own groups")?;
    let own = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|it| it == controller).then_some(path)
    });
    let own = own.with_context(|| format!("there is no controller `{controller}`"))?;
    Ok(Path::new(ROOT).join(controller).join(own.trim_start_matches('/')))
}
