//! Resources of one data directory as the kernel reports them: processes, cgroups, mounts, sockets, loop devices,
//! namespaces.

mod processes;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use processes::Instance;
use processes::{Process, all_processes};

use crate::resources::{Resources, cgroups, record, record_directories};

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
        cgroups(|path| path.contains(&self.cgroup_base))
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
        record_directories(&mut resources, &self.data)?;
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
