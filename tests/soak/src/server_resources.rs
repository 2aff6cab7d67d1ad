//! Resources of one server, read from `/proc`, `/sys` and the file system alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_procfs::Stat;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::quantity::Quantity;

const GROUPS: &str = "/sys/fs/cgroup";
/// Unit of `st_blocks` on every file system.
const BLOCK: u64 = 512;
const KIB: u64 = 1024;

/// Which resources belong to the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerResources {
    server: i32,
    data: PathBuf,
    /// The server's runtime directory on tmpfs.
    runtime_directory: Option<PathBuf>,
    /// Name of its base cgroup. None: it has no cgroups.
    cgroup_base: Option<String>,
}

impl ServerResources {
    /// Finds the base cgroup by a sandbox: an instance's name begins with `v1.` and the sandbox id, and names a
    /// cgroup.
    pub(crate) fn of(server: u32, data: &Path, sandbox: &str) -> Result<Self> {
        let server = i32::try_from(server).context("that is no process")?;
        let control = fs::read_link(data.join("linux/control")).ok();
        let volatile = control.and_then(|control| control.parent().map(Path::to_owned));
        let prefix = format!("v1.{sandbox}.");
        let base = groups(Path::new(GROUPS)).into_iter().find_map(|group| {
            let is_instance = group.file_name()?.to_str()?.starts_with(&prefix);
            is_instance.then(|| group.parent()?.file_name()?.to_str().map(str::to_owned))?
        });
        Ok(Self { server, data: data.to_owned(), runtime_directory: volatile, cgroup_base: base })
    }

    /// Counts that a running cycle would change.
    pub(crate) fn counts(&self) -> Result<BTreeMap<Quantity, f64>> {
        let ours = self.processes()?;
        let others = || ours.iter().filter(|pid| **pid != self.server);
        let sum = |of: fn(i32) -> Option<u64>| others().filter_map(|pid| of(*pid)).sum::<u64>();
        let server = |of: fn(i32) -> Option<u64>| of(self.server).context("the server is not there any more");
        Ok(BTreeMap::from([
            (Quantity::ServerMemory, float(server(resident)?)),
            (Quantity::ServerFiles, float(server(open_files)?)),
            (Quantity::OthersMemory, float(sum(resident))),
            (Quantity::OthersFiles, float(sum(open_files))),
            (Quantity::Processes, float(ours.len() as u64)),
            (Quantity::Groups, float(self.groups().len() as u64)),
            (Quantity::Mounts, float(self.mounts(&ours))),
            (Quantity::Devices, float(self.devices()?.len() as u64)),
        ]))
    }

    /// Sizes, which take longer to read and hardly depend on one cycle.
    pub(crate) fn sizes(&self) -> BTreeMap<Quantity, f64> {
        let mut used = DiskUse::default();
        used.add(&self.data);
        self.runtime_directory.iter().for_each(|volatile| used.add(volatile));
        let store = fs::read_dir(self.data.join("store")).into_iter().flatten().flatten();
        // A file may disappear meanwhile.
        let store = store.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum::<u64>();
        BTreeMap::from([
            (Quantity::Disk, float(used.bytes)),
            (Quantity::Entries, float(used.entries)),
            (Quantity::Store, float(store)),
        ])
    }

    /// Everything that still exists after the server's end, with its kind.
    pub(crate) fn left(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        left.extend(self.processes()?.iter().map(|pid| format!("process {pid}")));
        left.extend(self.groups().iter().map(|group| format!("cgroup {}", group.display())));
        left.extend(self.mount_points().iter().map(|point| format!("mount {}", point.display())));
        left.extend(self.devices()?.iter().map(|device| format!("loop device {device}")));
        let volatile = self.runtime_directory.iter().filter(|path| path.exists());
        left.extend(volatile.map(|path| format!("directory {}", path.display())));
        Ok(left)
    }

    /// Removes what a server left that did not end by itself.
    pub(crate) fn clear(&self) {
        for pid in self.processes().unwrap_or_default() {
            let handle = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            // The pid may have been reused: checked again while the pidfd is held.
            if let Some(handle) = handle
                && self.processes().is_ok_and(|ours| ours.contains(&pid))
            {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        for point in self.mount_points() {
            let _ = unmount(&point, UnmountFlags::DETACH);
        }
        let mut groups = self.groups();
        groups.sort_by_key(|group| std::cmp::Reverse(group.components().count()));
        groups.iter().for_each(|group| remove_group(group));
        self.runtime_directory.iter().for_each(|volatile| drop(fs::remove_dir_all(volatile)));
    }

    /// The server, its descendants, and all processes in its cgroups.
    fn processes(&self) -> Result<BTreeSet<i32>> {
        let mut parents = BTreeMap::new();
        let mut ours = BTreeSet::new();
        let entries = fs::read_dir("/proc").context("could not read `/proc`")?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for pid in pids {
            let Some(parent) = parent_of(pid) else { continue };
            parents.insert(pid, parent);
            if self.is_in_a_group(pid) {
                ours.insert(pid);
            }
        }
        let descends = |mut pid: i32| loop {
            match parents.get(&pid) {
                _ if pid == self.server => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        };
        ours.extend(parents.keys().copied().filter(|pid| descends(*pid)));
        Ok(ours)
    }

    fn is_in_a_group(&self, pid: i32) -> bool {
        let Some(base) = &self.cgroup_base else { return false };
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(base.as_str()))
    }

    fn groups(&self) -> Vec<PathBuf> {
        let Some(base) = &self.cgroup_base else { return Vec::new() };
        let mut all = groups(Path::new(GROUPS));
        all.retain(|group| group.components().any(|part| part.as_os_str() == base.as_str()));
        all
    }

    /// Mounts in each mount namespace of its processes; in the host's namespace only those below its directories.
    fn mounts(&self, ours: &BTreeSet<i32>) -> u64 {
        let view_of = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let host_namespace = fs::read_link("/proc/self/ns/mnt").ok();
        let mut views = BTreeMap::new();
        ours.iter().filter_map(|pid| Some((view_of(*pid)?, *pid))).for_each(|(view, pid)| {
            views.entry(view).or_insert(pid);
        });
        let own_views = views.iter().filter(|(view, _)| Some(*view) != host_namespace.as_ref());
        let table = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let inside = own_views.map(|(_, pid)| table(pid).lines().count() as u64).sum::<u64>();
        inside + self.mount_points().len() as u64
    }

    /// In reverse order, since later mounts may be below earlier ones.
    fn mount_points(&self) -> Vec<PathBuf> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = table.lines().rev().filter_map(|line| line.split(' ').nth(4).map(PathBuf::from));
        points.filter(|point| self.is_ours(point)).collect()
    }

    fn devices(&self) -> Result<Vec<String>> {
        let mut devices = Vec::new();
        for device in fs::read_dir("/sys/block").context("could not read `/sys/block`")?.flatten() {
            // Most devices have no backing file.
            let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            if self.is_ours(Path::new(file.trim())) {
                devices.push(device.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(devices)
    }

    fn is_ours(&self, path: &Path) -> bool {
        path.starts_with(&self.data)
            || self.runtime_directory.iter().any(|volatile| path.starts_with(volatile))
    }
}

/// Disk use of a tree, without following links.
#[derive(Debug, Default, PartialEq, Eq)]
struct DiskUse {
    bytes: u64,
    entries: u64,
}

impl DiskUse {
    /// Entries that disappear meanwhile are not counted.
    fn add(&mut self, path: &Path) {
        let Ok(found) = fs::symlink_metadata(path) else { return };
        self.bytes += found.blocks() * BLOCK;
        self.entries += 1;
        if found.is_dir() {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.for_each(|entry| self.add(&entry.path()));
        }
    }
}

/// All cgroups of the host, in every hierarchy.
fn groups(below: &Path) -> Vec<PathBuf> {
    let (mut found, mut to_see) = (Vec::new(), vec![below.to_owned()]);
    while let Some(group) = to_see.pop() {
        let entries = fs::read_dir(&group).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        to_see.extend(directories.map(|entry| entry.path()));
        found.push(group);
    }
    found
}

/// Its last process may still be exiting.
fn remove_group(group: &Path) {
    for _ in 0..200 {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

/// None: the process is gone or a zombie.
fn parent_of(pid: i32) -> Option<i32> {
    Some(Stat::of(pid).ok()??).filter(|stat| !stat.has_exited()).map(|stat| stat.parent)
}

/// In bytes.
fn resident(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * KIB)
}

fn open_files(pid: i32) -> Option<u64> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64)
}

#[expect(clippy::cast_precision_loss, reason = "far below the precision of a float")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Ends with the test.
    struct Shell(Child);

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn resources(server: u32, data: &Path) -> ServerResources {
        ServerResources::of(server, data, "sbx_none").unwrap()
    }

    #[test]
    fn descendants_of_the_server_are_among_its_processes() {
        let data = tempfile::tempdir().unwrap();
        let command = "sleep 60 & echo begun; read line; kill $!";
        let mut shell = Shell(
            Command::new("sh")
                .args(["-c", command])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut said = [0; 6];
        io::Read::read_exact(shell.0.stdout.as_mut().unwrap(), &mut said).unwrap();

        let seen = resources(shell.0.id(), data.path()).counts().unwrap();

        assert_eq!(seen[&Quantity::Processes], 2.0);
        assert!(seen[&Quantity::ServerMemory] > 0.0 && seen[&Quantity::OthersMemory] > 0.0);
        assert!(seen[&Quantity::ServerFiles] >= 3.0);
        assert_eq!((seen[&Quantity::Groups], seen[&Quantity::Mounts]), (0.0, 0.0));
        drop(shell.0.stdin.take());
        shell.0.wait().unwrap();
    }

    #[test]
    fn counts_of_a_dead_server_are_an_error() {
        let data = tempfile::tempdir().unwrap();
        let mut shell = Shell(Command::new("true").spawn().unwrap());
        shell.0.wait().unwrap();

        let resources = resources(shell.0.id(), data.path());

        assert!(resources.counts().is_err());
        assert_eq!(resources.left().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn disk_use_includes_the_runtime_directory_behind_the_link() {
        let (data, volatile) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for directory in ["linux", "store"] {
            fs::create_dir(data.path().join(directory)).unwrap();
        }
        fs::create_dir(volatile.path().join("control")).unwrap();
        std::os::unix::fs::symlink(volatile.path().join("control"), data.path().join("linux/control"))
            .unwrap();
        fs::write(data.path().join("store/pinfold.db"), vec![7; 100_000]).unwrap();
        fs::write(volatile.path().join("control/file"), vec![7; 50_000]).unwrap();

        let resources = resources(std::process::id(), data.path());
        let seen = resources.sizes();

        assert_eq!(seen[&Quantity::Store], 100_000.0);
        assert!(seen[&Quantity::Disk] >= 150_000.0, "{seen:?}");
        // The data directory, two directories in it, the link and the database; the other directory, one in it,
        // and a file.
        assert_eq!(seen[&Quantity::Entries], 8.0);
        assert!(resources.left().unwrap().iter().any(|left| left.starts_with("directory ")));
    }
}
