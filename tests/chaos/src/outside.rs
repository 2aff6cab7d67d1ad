//! What is physically there of one data directory, by the kernel's own word and nothing of ours: `/proc`, `/sys` and
//! the file system.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const NAMESPACES: [&str; 7] = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// Where to look, and by what to know what is ours.
pub(crate) struct Outside {
    data: PathBuf,
    /// The name that the store's groups have.
    base: String,
}

/// Everything that was found, as `kind: what`, by the mark that it carries.
pub(crate) type Things = BTreeMap<String, BTreeSet<String>>;

/// The namespaces of one process and when it began. Numbers of namespaces are given again, start times are not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    namespaces: Vec<PathBuf>,
    began: u64,
}

impl Outside {
    pub(crate) fn new(data: &Path, instance: u128) -> Self {
        Self { data: data.to_owned(), base: format!("pinfold.{instance:032x}") }
    }

    pub(crate) fn things(&self) -> Result<Things> {
        let mut things = Things::new();
        self.directories(&mut things)?;
        for group in self.groups()? {
            self.note(&mut things, "cgroup", &group.to_string_lossy());
        }
        for (pid, why) in self.processes()? {
            self.note(&mut things, &format!("process {pid}"), &why);
        }
        for (kind, path) in [("mount", "/proc/self/mountinfo"), ("socket", "/proc/net/unix")] {
            let text = fs::read_to_string(path).with_context(|| format!("could not read `{path}`"))?;
            text.lines()
                .filter(|line| self.is_ours(line))
                .for_each(|line| self.note(&mut things, kind, line));
        }
        for device in fs::read_dir("/sys/block").context("could not read `/sys/block`")? {
            let file = device?.path().join("loop/backing_file");
            let file = fs::read_to_string(file).unwrap_or_default();
            if self.is_ours(&file) {
                self.note(&mut things, "loop device", &file);
            }
        }
        Ok(things)
    }

    /// The namespaces that our processes live in.
    pub(crate) fn homes(&self) -> Result<BTreeSet<Home>> {
        let ours = self.processes()?;
        Ok(ours
            .keys()
            .filter_map(|pid| Some(Home { namespaces: namespaces(*pid)?, began: began(*pid)? }))
            .collect())
    }

    /// Processes of anybody that live in one of these homes, and have for as long as we know it.
    pub(crate) fn inhabited(homes: &BTreeSet<Home>) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let latest = homes.iter().map(|home| home.began).max();
        for pid in processes()? {
            let (Some(own), Some(since)) = (namespaces(pid), began(pid)) else { continue };
            if Some(since) <= latest && homes.iter().any(|home| home.namespaces == own) {
                left.push(format!("process {pid} in {own:?}"));
            }
        }
        Ok(left)
    }

    /// Ends and removes all that is found, so that a test that fails leaves nothing behind.
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

    fn directories(&self, things: &mut Things) -> Result<()> {
        for place in ["bodies", "control", "ids"] {
            let directory = self.data.join("linux").join(place);
            let entries = match fs::read_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.with_context(|| format!("could not read `{}`", directory.display()))?,
            };
            for entry in entries {
                let path = entry?.path();
                // A range of ids is a file that says whose it is.
                let what = if place == "ids" {
                    fs::read_to_string(&path).unwrap_or_default()
                } else {
                    String::new()
                };
                self.note(things, "directory", &format!("{} {what}", path.display()));
            }
        }
        Ok(())
    }

    /// All groups below a base of ours, and the bases, in every hierarchy.
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

    /// Processes in our groups, or whose view of the file system is made of our directories, with what tells.
    fn processes(&self) -> Result<BTreeMap<i32, String>> {
        let mut ours = BTreeMap::new();
        for pid in processes()? {
            let telling = ["cgroup", "mountinfo"].into_iter().find_map(|file| {
                let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
                text.lines().find(|line| self.is_ours(line)).map(str::to_owned)
            });
            if let Some(telling) = telling.filter(|_| began(pid).is_some()) {
                ours.insert(pid, telling);
            }
        }
        Ok(ours)
    }

    fn is_ours(&self, text: &str) -> bool {
        text.contains(&self.base) || text.contains(&*self.data.to_string_lossy())
    }

    /// Under its mark, the word `v1.` and what follows, or under none.
    fn note(&self, things: &mut Things, kind: &str, text: &str) {
        let mut words = text.split(|letter: char| letter.is_whitespace() || letter == '/');
        let mark = words.rfind(|word| word.starts_with("v1.sbx_")).unwrap_or("no mark");
        things.entry(mark.to_owned()).or_default().insert(format!("{kind}: {}", text.trim()));
    }
}

fn processes() -> Result<Vec<i32>> {
    let entries = fs::read_dir("/proc").context("could not read `/proc`")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn namespaces(pid: i32) -> Option<Vec<PathBuf>> {
    NAMESPACES.iter().map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()).collect()
}

/// When a process began, in the kernel's ticks. None: it is gone, or has ended and is not reaped yet.
fn began(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}
