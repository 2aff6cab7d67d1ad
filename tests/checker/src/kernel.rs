//! What is physically there of one data directory, by the kernel's own word.

mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use processes::Body;
use processes::{Process, all_processes};

/// Where hosts keep what is gone after a start.
const IN_MEMORY: [&str; 2] = ["/run", "/dev/shm"];

/// Where to look, and by what to know what is ours.
#[derive(Debug, Clone)]
pub struct Kernel {
    data: PathBuf,
    /// The name that the store's groups have.
    base: String,
    /// Processes that are nobody's sandbox: whoever judges, and its own ancestors.
    audience: BTreeSet<i32>,
}

/// Everything that was found, as `kind: what`, by the mark that it carries.
pub(crate) type Things = BTreeMap<String, BTreeSet<String>>;

/// Under which everything is found that carries no mark.
pub(crate) const NO_MARK: &str = "no mark";

impl Kernel {
    #[must_use]
    pub fn new(data: &Path, instance: &str, audience: &[i32]) -> Self {
        let audience = audience.iter().copied().collect();
        Self { data: data.to_owned(), base: format!("pinfold.{instance}"), audience }
    }

    /// The bodies whose process 1 is there.
    pub fn bodies(&self) -> io::Result<Vec<Body>> {
        let processes = all_processes()?;
        Ok(processes.iter().filter_map(|process| Body::of(process, &self.base)).collect())
    }

    /// All groups below a base of ours, and the bases, in every hierarchy.
    #[must_use]
    pub fn groups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut to_see = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(group) = to_see.pop() {
            let Ok(entries) = fs::read_dir(&group) else { continue };
            for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let path = entry.path();
                if path.to_string_lossy().contains(&self.base) {
                    found.push(path.clone());
                }
                to_see.push(path);
            }
        }
        found
    }

    /// Where what matters only while the host is up really is.
    #[must_use]
    pub fn volatile(&self) -> Option<PathBuf> {
        Some(fs::read_link(self.data.join("linux/control")).ok()?.parent()?.to_owned())
    }

    /// Directories in memory that could be ours: the name does not tell whose they are.
    #[must_use]
    pub fn in_memory() -> BTreeSet<PathBuf> {
        let homes = IN_MEMORY.iter().filter_map(|home| fs::read_dir(home).ok());
        let names = homes.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
        names
            .filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pinfold-"))
            })
            .collect()
    }

    /// With the server's own processes, if it is there.
    pub(crate) fn things(&self, server: Option<i32>) -> io::Result<Things> {
        let mut things = Things::new();
        self.directories(&mut things)?;
        for group in self.groups() {
            note(&mut things, "cgroup", &group.to_string_lossy());
        }
        for process in self.processes(server)? {
            note(&mut things, &format!("process {}", process.pid), &process.told());
        }
        self.mounts(&mut things)?;
        self.sockets(&mut things)?;
        self.devices(&mut things)?;
        if let Some(server) = server {
            self.held(server, &mut things);
        }
        Ok(things)
    }

    /// All that live where we do, but whoever looks on, the server, and what the server runs outside of sandboxes.
    fn processes(&self, server: Option<i32>) -> io::Result<Vec<Process>> {
        let mut processes = all_processes()?;
        let is_servers = |process: &Process| {
            server.is_some_and(|server| process.pid == server || process.parent == server)
                && !process.is_in(&self.base)
        };
        processes.retain(|process| !self.audience.contains(&process.pid) && !is_servers(process));
        Ok(processes)
    }

    fn directories(&self, things: &mut Things) -> io::Result<()> {
        for place in ["bodies", "control", "ids"] {
            let entries = match fs::read_dir(self.data.join("linux").join(place)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read?,
            };
            for entry in entries {
                let path = entry?.path();
                // A range of ids is a file that says whose it is.
                let whose = if place == "ids" {
                    fs::read_to_string(&path).unwrap_or_default()
                } else {
                    String::new()
                };
                note(things, "directory", &format!("{} {whose}", path.display()));
            }
        }
        Ok(())
    }

    fn mounts(&self, things: &mut Things) -> io::Result<()> {
        for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
            let at = line.split(' ').nth(4).unwrap_or_default();
            if self.is_below_data(line) && Path::new(at) != self.data || line.contains(" nsfs ") {
                note(things, "mount", line);
            }
        }
        Ok(())
    }

    fn sockets(&self, things: &mut Things) -> io::Result<()> {
        let volatile = self.volatile().map(|path| path.display().to_string());
        for line in fs::read_to_string("/proc/net/unix")?.lines() {
            if self.is_below_data(line) || volatile.as_ref().is_some_and(|path| line.contains(path)) {
                note(things, "socket", line);
            }
        }
        Ok(())
    }

    fn devices(&self, things: &mut Things) -> io::Result<()> {
        for device in fs::read_dir("/sys/block")? {
            let file = device?.path().join("loop/backing_file");
            let file = fs::read_to_string(file).unwrap_or_default();
            if self.is_below_data(&file) {
                note(things, "loop device", &file);
            }
        }
        Ok(())
    }

    /// Namespaces that the server keeps by a handle although nobody lives in them.
    fn held(&self, server: i32, things: &mut Things) {
        let Ok(handles) = fs::read_dir(format!("/proc/{server}/fd")) else { return };
        let targets = handles.flatten().filter_map(|handle| fs::read_link(handle.path()).ok());
        for target in targets.map(|target| target.display().to_string()) {
            if ["mnt:[", "net:[", "pid:[", "user:[", "ipc:[", "uts:["]
                .iter()
                .any(|kind| target.starts_with(kind))
            {
                note(things, "namespace", &target);
            }
        }
    }

    fn is_below_data(&self, text: &str) -> bool {
        text.contains(&*self.data.to_string_lossy())
    }
}

/// Under its mark, the word `v1.` and what follows, or under none.
fn note(things: &mut Things, kind: &str, text: &str) {
    things
        .entry(mark_in(text).unwrap_or(NO_MARK).to_owned())
        .or_default()
        .insert(format!("{kind}: {}", text.trim()));
}

/// The last mark that a text names.
fn mark_in(text: &str) -> Option<&str> {
    let mut words = text.split(|letter: char| letter.is_whitespace() || letter == '/');
    words.rfind(|word| word.starts_with("v1.sbx_"))
}
