//! Resources of one data directory, read from `/proc`, `/sys` and the file system alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const NAMESPACES: [&str; 7] = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// Which resources belong to the store under test.
pub(crate) struct HostScan {
    data: PathBuf,
    /// Name of the store's cgroups.
    cgroup_base: String,
}

/// Every resource found, as `kind: description`, by instance name.
pub(crate) type Resources = BTreeMap<String, BTreeSet<String>>;

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
        self.directories(&mut resources)?;
        for group in self.groups()? {
            self.record(&mut resources, "cgroup", &group.to_string_lossy());
        }
        for (pid, why) in self.processes()? {
            self.record(&mut resources, &format!("process {pid}"), &why);
        }
        for (kind, path) in [("mount", "/proc/self/mountinfo"), ("socket", "/proc/net/unix")] {
            let text = fs::read_to_string(path).with_context(|| format!("could not read `{path}`"))?;
            text.lines()
                .filter(|line| self.is_ours(line))
                .for_each(|line| self.record(&mut resources, kind, line));
        }
        for device in fs::read_dir("/sys/block").context("could not read `/sys/block`")? {
            let file = device?.path().join("loop/backing_file");
            let file = fs::read_to_string(file).unwrap_or_default();
            if self.is_ours(&file) {
                self.record(&mut resources, "loop device", &file);
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
        let mut groups = self.groups().unwrap_or_default();
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

    fn directories(&self, resources: &mut Resources) -> Result<()> {
        for place in ["instances", "control", "ids"] {
            let directory = self.data.join("linux").join(place);
            let entries = match fs::read_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.with_context(|| format!("could not read `{}`", directory.display()))?,
            };
            for entry in entries {
                let path = entry?.path();
                // The file of an id range names the instance that owns it.
                let what = if place == "ids" {
                    fs::read_to_string(&path).unwrap_or_default()
                } else {
                    String::new()
                };
                self.record(resources, "directory", &format!("{} {what}", path.display()));
            }
        }
        Ok(())
    }

    /// All cgroups below our base cgroups, and those themselves, in every hierarchy.
    fn groups(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut to_see = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(group) = to_see.pop() {
            let Ok(entries) = fs::read_dir(&group) else { continue };
            for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let path = entry.path();
                if self.is_ours(&path.to_string_lossy()) {
                    found.push(path.clone());
                }
                to_see.push(path);
            }
        }
        Ok(found)
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

    /// Files the resource under the instance name in its text (`v1.sbx_…`), or under `no name`.
    fn record(&self, resources: &mut Resources, kind: &str, text: &str) {
        let mut words = text.split(|letter: char| letter.is_whitespace() || letter == '/');
        let name = words.rfind(|word| word.starts_with("v1.sbx_")).unwrap_or("no name");
        resources.entry(name.to_owned()).or_default().insert(format!("{kind}: {}", text.trim()));
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
