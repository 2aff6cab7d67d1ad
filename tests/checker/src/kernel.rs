//! Resources of one data directory as the kernel reports them: processes, cgroups, mounts, sockets, loop devices,
//! namespaces.

mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use processes::Instance;
use processes::{Process, all_processes};

/// Directories on tmpfs that are empty after a reboot.
const IN_MEMORY: [&str; 2] = ["/run", "/dev/shm"];

/// Which resources belong to the store under test.
#[derive(Debug, Clone)]
pub struct Kernel {
    data: PathBuf,
    /// Name of the store's cgroups.
    cgroup_base: String,
    /// Processes that are not sandboxes: the checker and its ancestors.
    ignored_pids: BTreeSet<i32>,
}

/// Every resource found, as `kind: description`, by instance name.
pub(crate) type Resources = BTreeMap<String, BTreeSet<String>>;

/// Key of resources that carry no instance name.
pub(crate) const UNNAMED: &str = "no name";

impl Kernel {
    #[must_use]
    pub fn new(data: &Path, instance: &str, audience: &[i32]) -> Self {
        let ignored_pids = audience.iter().copied().collect();
        Self { data: data.to_owned(), cgroup_base: format!("pinfold.{instance}"), ignored_pids }
    }

    /// Instances whose process 1 is running.
    pub fn instances(&self) -> io::Result<Vec<Instance>> {
        let processes = all_processes()?;
        Ok(processes.iter().filter_map(|process| Instance::of(process, &self.cgroup_base)).collect())
    }

    /// All cgroups below our base cgroups, and those themselves, in every hierarchy.
    #[must_use]
    pub fn groups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut to_see = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(group) = to_see.pop() {
            let Ok(entries) = fs::read_dir(&group) else { continue };
            for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let path = entry.path();
                if path.to_string_lossy().contains(&self.cgroup_base) {
                    found.push(path.clone());
                }
                to_see.push(path);
            }
        }
        found
    }

    /// The server's runtime directory on tmpfs.
    #[must_use]
    pub fn runtime_directory(&self) -> Option<PathBuf> {
        Some(fs::read_link(self.data.join("linux/control")).ok()?.parent()?.to_owned())
    }

    /// Directories on tmpfs that could be ours; the name does not say which store they belong to.
    #[must_use]
    pub fn memory_directories() -> BTreeSet<PathBuf> {
        let homes = IN_MEMORY.iter().filter_map(|home| fs::read_dir(home).ok());
        let names = homes.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
        names
            .filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pinfold-"))
            })
            .collect()
    }

    /// Includes the namespaces that the server holds open, if it runs.
    pub(crate) fn resources(&self, server: Option<i32>) -> io::Result<Resources> {
        let mut resources = Resources::new();
        self.directories(&mut resources)?;
        for group in self.groups() {
            record(&mut resources, "cgroup", &group.to_string_lossy());
        }
        for process in self.processes(server)? {
            record(&mut resources, &format!("process {}", process.pid), &process.describe());
        }
        self.mounts(&mut resources)?;
        self.sockets(&mut resources)?;
        self.devices(&mut resources)?;
        if let Some(server) = server {
            self.open_namespaces(server, &mut resources);
        }
        Ok(resources)
    }

    /// All processes of this pid namespace except the checker, the server, and the server's own children outside
    /// of sandboxes.
    fn processes(&self, server: Option<i32>) -> io::Result<Vec<Process>> {
        let mut processes = all_processes()?;
        let is_servers = |process: &Process| {
            server.is_some_and(|server| process.pid == server || process.parent == server)
                && !process.is_in(&self.cgroup_base)
        };
        processes.retain(|process| !self.ignored_pids.contains(&process.pid) && !is_servers(process));
        Ok(processes)
    }

    fn directories(&self, resources: &mut Resources) -> io::Result<()> {
        for place in ["instances", "control", "ids"] {
            let entries = match fs::read_dir(self.data.join("linux").join(place)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read?,
            };
            for entry in entries {
                let path = entry?.path();
                // The file of an id range names the instance that owns it.
                let whose = if place == "ids" {
                    fs::read_to_string(&path).unwrap_or_default()
                } else {
                    String::new()
                };
                record(resources, "directory", &format!("{} {whose}", path.display()));
            }
        }
        Ok(())
    }

    fn mounts(&self, resources: &mut Resources) -> io::Result<()> {
        for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
            let at = line.split(' ').nth(4).unwrap_or_default();
            if self.is_below_data(line) && Path::new(at) != self.data || line.contains(" nsfs ") {
                record(resources, "mount", line);
            }
        }
        Ok(())
    }

    fn sockets(&self, resources: &mut Resources) -> io::Result<()> {
        let volatile = self.runtime_directory().map(|path| path.display().to_string());
        for line in fs::read_to_string("/proc/net/unix")?.lines() {
            if self.is_below_data(line) || volatile.as_ref().is_some_and(|path| line.contains(path)) {
                record(resources, "socket", line);
            }
        }
        Ok(())
    }

    fn devices(&self, resources: &mut Resources) -> io::Result<()> {
        for device in fs::read_dir("/sys/block")? {
            let file = device?.path().join("loop/backing_file");
            let file = fs::read_to_string(file).unwrap_or_default();
            if self.is_below_data(&file) {
                record(resources, "loop device", &file);
            }
        }
        Ok(())
    }

    /// Namespaces that the server keeps alive by a file descriptor.
    fn open_namespaces(&self, server: i32, resources: &mut Resources) {
        let Ok(handles) = fs::read_dir(format!("/proc/{server}/fd")) else { return };
        let targets = handles.flatten().filter_map(|handle| fs::read_link(handle.path()).ok());
        for target in targets.map(|target| target.display().to_string()) {
            if ["mnt:[", "net:[", "pid:[", "user:[", "ipc:[", "uts:["]
                .iter()
                .any(|kind| target.starts_with(kind))
            {
                record(resources, "namespace", &target);
            }
        }
    }

    fn is_below_data(&self, text: &str) -> bool {
        text.contains(&*self.data.to_string_lossy())
    }
}

/// Files the resource under the instance name in its text (`v1.sbx_…`), or under `UNNAMED`.
fn record(resources: &mut Resources, kind: &str, text: &str) {
    resources
        .entry(instance_name_in(text).unwrap_or(UNNAMED).to_owned())
        .or_default()
        .insert(format!("{kind}: {}", text.trim()));
}

/// The last instance name in a text.
fn instance_name_in(text: &str) -> Option<&str> {
    let mut words = text.split(|letter: char| letter.is_whitespace() || letter == '/');
    words.rfind(|word| word.starts_with("v1.sbx_"))
}
