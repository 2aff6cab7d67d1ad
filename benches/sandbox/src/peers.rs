//! Other sandbox runtimes as commands, and how one run of them is timed.

mod bundle;
mod docker;
mod leftover_cgroups;
mod packages;
mod private_mounts;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_bench_report::now;

pub(crate) use docker::{Docker, IMAGE};
pub(crate) use leftover_cgroups::LeftoverCgroups;
pub(crate) use packages::Programs;

use crate::run_timing::{COMMAND, RunTiming};

/// Directories of the host in every root, read-only, besides `/usr`, as in the image `host`.
const SHARED: [&str; 3] = ["/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates"];
/// Links into `/usr`, where the host has them too.
const LINKS: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    program: PathBuf,
    /// `{}` is replaced by a unique number in every run.
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Does not support hybrid hosts: the v2 hierarchy must be hidden from it.
    hides_unified: bool,
    runs: AtomicU64,
}

impl Peer {
    pub(crate) fn bubblewrap(programs: &Programs) -> Result<Option<Self>> {
        let Some(program) = programs.find("bwrap") else { return Ok(None) };
        let mut arguments: Vec<String> =
            ["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"].map(str::to_owned).to_vec();
        for link in LINKS {
            if let Ok(target) = std::fs::read_link(Path::new("/").join(link)) {
                let target = target.display().to_string();
                arguments.extend(["--symlink".into(), target, format!("/{link}")]);
            }
        }
        for shared in SHARED {
            arguments.extend(["--ro-bind-try".into(), shared.into(), shared.into()]);
        }
        let inner =
            ["--proc", "/proc", "--ro-bind", "/sys", "/sys", "--dev", "/dev", "--dir", "/tmp", "--dir"];
        arguments.extend(inner.map(str::to_owned));
        arguments.extend(["/workspace", "--chdir", "/workspace", "--"].map(str::to_owned));
        arguments.extend(COMMAND.map(str::to_owned));
        Self::new("bubblewrap --unshare-all", programs, program, arguments).map(Some)
    }

    /// An OCI runtime on a bundle with the same root.
    pub(crate) fn runtime(
        name: &'static str,
        programs: &Programs,
        directory: &Path,
        traces: &LeftoverCgroups,
    ) -> Result<Option<Self>> {
        let short = name.split(' ').next().unwrap_or(name);
        let Some(program) = programs.find(short) else { return Ok(None) };
        let bundle = bundle::write(directory)?.display().to_string();
        let state = directory.join(short).display().to_string();
        let id = format!("{}-{{}}", traces.prefix());
        let arguments = ["--root", &state, "run", "--bundle", &bundle, &id].map(str::to_owned).to_vec();
        let peer = Self::new(name, programs, program, arguments)?;
        Ok(Some(Self { hides_unified: short == "crun", ..peer }))
    }

    /// `pinfold run` as a process.
    pub(crate) fn pinfold_run(program: &Path, data: &Path) -> Result<Self> {
        let data = data.display().to_string();
        let mut arguments = ["run", "--data-dir", &data, "--memory", "512", "--pids", "256", "--"]
            .map(str::to_owned)
            .to_vec();
        arguments.extend(COMMAND.map(str::to_owned));
        Self::new("pinfold run, as a command", &Programs::none(), program.to_owned(), arguments)
    }

    fn new(
        name: &'static str,
        programs: &Programs,
        program: PathBuf,
        arguments: Vec<String>,
    ) -> Result<Self> {
        let environment = programs.environment();
        let version = version_of(&program, &environment)?;
        let (runs, hides_unified) = (AtomicU64::new(0), false);
        Ok(Self { name, version, program, arguments, environment, hides_unified, runs })
    }

    /// From fork to exit.
    fn run(&self) -> Result<RunTiming> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed).to_string();
        let arguments = self.arguments.iter().map(|argument| argument.replace("{}", &number));
        let mut command = Command::new(&self.program);
        command.args(arguments).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let begun = now();
        let mut child = command.spawn().with_context(|| format!("could not run {}", self.name))?;
        let mut output = Vec::new();
        let mut first = [0];
        let stdout = child.stdout.as_mut().context("it has no output")?;
        let read = stdout.read(&mut first)?;
        let first_byte = begun.elapsed();
        stdout.read_to_end(&mut output)?;
        let status = child.wait()?;
        let whole = begun.elapsed();
        ensure!(status.success() && read == 1, "{} ended with {status}", self.name);
        Ok(RunTiming { first_byte, whole })
    }

    /// Runs so many, `at_once` in parallel. Returns their times and the total.
    pub(crate) fn batch(&self, runs: usize, at_once: usize) -> Result<(Vec<RunTiming>, Duration)> {
        let ready = Barrier::new(at_once + 1);
        let worker = |own: usize| -> Result<Vec<RunTiming>> {
            let hidden = if self.hides_unified { private_mounts::without_unified() } else { Ok(()) };
            ready.wait();
            hidden?;
            (0..own).map(|_| self.run()).collect()
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..at_once)
                .map(|index| {
                    let own = runs / at_once + usize::from(index < runs % at_once);
                    let worker = &worker;
                    scope.spawn(move || worker(own))
                })
                .collect();
            ready.wait();
            let begun = now();
            let mut lives = Vec::new();
            for worker in workers {
                lives.extend(worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
            }
            Ok((lives, begun.elapsed()))
        })
    }
}

fn version_of(program: &Path, environment: &[(String, String)]) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .envs(environment.iter().cloned())
        .output()
        .with_context(|| format!("could not run `{}`", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or("unknown").to_owned())
}
