//! Resources of one data directory, read from `/proc`, `/sys` and the file system alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pinfold_checker::{Resources, cgroups, record, record_directories};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const NAMESPACES: [&str; 7] = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// Which resources belong to the store under test.
pub(crate) struct HostScan {
    data: PathBuf,
    /// Name of the store's cgroups.
    cgroup_base: String,
}

/// The namespaces of one process and its start time. Namespace numbers are reused, start times are not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessNamespaces {
    namespaces: Vec<PathBuf>,
    began: u64,
}

impl HostScan {
    pub(crate) fn new(data: &Path, instance: u128) -> Self {
        Self { data: data.to_owned(), cgroup_base: format!("pinfold.{instance:032x}") }
    }

    pub(crate) fn resources(&self) -> Result<Resources> {
        let mut resources = Resources::new();
        record_directories(&mut resources, &self.data)
            .with_context(|| format!("could not list the instances in `{}`", self.data.display()))?;
        for group in self.groups() {
            record(&mut resources, "cgroup", &group.to_string_lossy());
        }
        for (pid, why) in self.processes()? {
            record(&mut resources, &format!("process {pid}"), &why);
        }
        for (kind, path) in [("mount", "/proc/self/mountinfo"), ("socket", "/proc/net/unix")] {
            let text = fs::read_to_string(path).with_context(|| format!("could not read `{path}`"))?;
            text.lines()
                .filter(|line| self.is_ours(line))
                .for_each(|line| record(&mut resources, kind, line));
        }
        for device in fs::read_dir("/sys/block").context("could not read `/sys/block`")? {
            let file = device?.path().join("loop/backing_file");
            let file = fs::read_to_string(file).unwrap_or_default();
            if self.is_ours(&file) {
                record(&mut resources, "loop device", &file);
            }
        }
        Ok(resources)
    }

    /// The namespaces of our processes.
    pub(crate) fn process_namespaces(&self) -> Result<BTreeSet<ProcessNamespaces>> {
        let ours = self.processes()?;
        Ok(ours
            .keys()
            .filter_map(|pid| {
                Some(ProcessNamespaces { namespaces: namespaces(*pid)?, began: start_ticks(*pid)? })
            })
            .collect())
    }

    /// All processes in one of these namespaces that are at least as old as them.
    pub(crate) fn processes_in(homes: &BTreeSet<ProcessNamespaces>) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let latest = homes.iter().map(|home| home.began).max();
        for pid in processes()? {
            let (Some(own), Some(since)) = (namespaces(pid), start_ticks(pid)) else { continue };
            if Some(since) <= latest && homes.iter().any(|home| home.namespaces == own) {
                left.push(format!("process {pid} in {own:?}"));
            }
        }
        Ok(left)
    }

    /// Kills and removes everything found, so that a failing test leaves nothing behind.
    pub(crate) fn clear(&self) {
        for pid in self.processes().unwrap_or_default().into_keys() {
            let handle = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            if let Some(handle) = handle
                && self.processes().is_ok_and(|ours| ours.contains_key(&pid))
            {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        let mut groups = self.groups();
        groups.sort_by_key(|group| std::cmp::Reverse(group.components().count()));
        for group in groups {
            for _ in 0..200 {
                match fs::remove_dir(&group) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }

    /// All cgroups below our base cgroups, and those themselves, in every hierarchy.
    fn groups(&self) -> Vec<PathBuf> {
        cgroups(|path| self.is_ours(path))
    }

    /// Processes in our cgroups or whose mounts come from our directories, with the line that shows it.
    fn processes(&self) -> Result<BTreeMap<i32, String>> {
        let mut ours = BTreeMap::new();
        for pid in processes()? {
            let telling = ["cgroup", "mountinfo"].into_iter().find_map(|file| {
                let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
                text.lines().find(|line| self.is_ours(line)).map(str::to_owned)
            });
            if let Some(telling) = telling.filter(|_| start_ticks(pid).is_some()) {
                ours.insert(pid, telling);
            }
        }
        Ok(ours)
    }

    fn is_ours(&self, text: &str) -> bool {
        text.contains(&self.cgroup_base) || text.contains(&*self.data.to_string_lossy())
    }
}

fn processes() -> Result<Vec<i32>> {
    let entries = fs::read_dir("/proc").context("could not read `/proc`")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn namespaces(pid: i32) -> Option<Vec<PathBuf>> {
    NAMESPACES.iter().map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()).collect()
}

/// None: the process is gone or a zombie.
fn start_ticks(pid: i32) -> Option<u64> {
    pinfold_procfs::start_time(pid).ok()?
}
