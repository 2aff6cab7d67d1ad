//! A cgroup base for each test, and processes that never outlive it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pinfold_linux::cgroup::Cgroups;
use pinfold_test_support::skip;

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct TestBase {
    pub(crate) name: String,
    pub(crate) cgroups: Cgroups,
}

impl TestBase {
    /// `None`, and a line in the list of skipped tests, if cgroups cannot be created.
    pub(crate) fn new(test: &str) -> Option<TestBase> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinfold-test.{}-{number}", std::process::id());
        let cgroups = Cgroups::detect(&name).unwrap();
        let abilities = cgroups.abilities();
        let needed = [abilities.kill, abilities.memory, abilities.pids, abilities.cpu, abilities.io];
        if let Some(missing) = needed.iter().find(|it| !it.is_enforced()) {
            skip(test, &format!("{missing:?}"));
            return None;
        }
        Some(TestBase { name, cgroups })
    }

    /// The same for a test that changes its uid.
    pub(crate) fn new_as_root(test: &str) -> Option<TestBase> {
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            return TestBase::new(test);
        }
        skip(test, "needs root");
        None
    }

    /// All directories with the name of this base, found without the code under test.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        search(Path::new("/sys/fs/cgroup"), &self.name, &mut found);
        found.sort();
        found
    }

    /// Content of a file in whichever hierarchy has it.
    pub(crate) fn read(&self, instance: &str, leaf: &str, file: &str) -> Option<String> {
        let paths = self.directories().into_iter().map(|it| it.join(instance).join(leaf).join(file));
        paths.into_iter().find_map(|it| fs::read_to_string(it).ok()).map(|it| it.trim().to_owned())
    }
}

impl Drop for TestBase {
    fn drop(&mut self) {
        let within = Duration::from_secs(10);
        for name in self.cgroups.discover().unwrap_or_default() {
            let Ok(instance) = self.cgroups.open(&name) else { continue };
            let ended = instance.kill_all_and_wait(within);
            let removed = instance.remove(within);
            if !std::thread::panicking() {
                ended.unwrap();
                removed.unwrap();
            }
        }
        let removed = self.cgroups.remove_empty_bases();
        if !std::thread::panicking() {
            removed.unwrap();
            assert_eq!(self.directories(), Vec::<PathBuf>::new());
        }
    }
}

/// A cgroup beside our base, removed with all below it.
pub(crate) struct TestDirectory {
    pub(crate) path: PathBuf,
}

impl TestDirectory {
    pub(crate) fn new(path: PathBuf) -> TestDirectory {
        fs::create_dir(&path).unwrap();
        TestDirectory { path }
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        remove_groups(&self.path);
    }
}

fn remove_groups(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_groups(&entry.path());
    }
    let _best_effort = fs::remove_dir(directory);
}

fn search(directory: &Path, name: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name() == name {
            found.push(entry.path());
        } else {
            search(&entry.path(), name, found);
        }
    }
}

/// A shell in the cgroups of an instance. Killed and reaped on drop.
pub(crate) struct Worker(Child);

impl Worker {
    /// Puts a shell into the cgroups from outside, then lets it run the script.
    pub(crate) fn start(script: &str, join_files: &[OwnedFd]) -> Worker {
        let gated = format!("read go; {script}");
        let mut command = Command::new("sh");
        command.arg("-c").arg(gated).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut worker = Worker(command.spawn().unwrap());
        for join_file in join_files {
            let mut file = File::from(join_file.as_fd().try_clone_to_owned().unwrap());
            file.write_all(worker.id().to_string().as_bytes()).unwrap();
        }
        worker.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        worker
    }

    /// Lets a shell join up to three cgroups itself, through its standard descriptors.
    pub(crate) fn start_joining(script: &str, join_files: Vec<OwnedFd>) -> Worker {
        let count = join_files.len();
        assert!((1..=3).contains(&count), "{count} groups");
        let mut command = Command::new("sh");
        let join: String = (0..count).map(|number| format!("echo 0 >&{number}; ")).collect();
        command.arg("-c").arg(format!("{join} {script}"));
        let mut join_files = join_files.into_iter().map(Stdio::from);
        command.stdin(join_files.next().unwrap_or(Stdio::null()));
        command.stdout(join_files.next().unwrap_or(Stdio::null()));
        command.stderr(join_files.next().unwrap_or(Stdio::null()));
        Worker(command.spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_reaped = self.0.wait();
    }
}

/// Waits until the condition holds.
pub(crate) fn within(limit: Duration, holds: impl Fn() -> bool) {
    let pause = Duration::from_millis(5);
    for _ in 0..limit.as_millis() / pause.as_millis() {
        if holds() {
            return;
        }
        std::thread::sleep(pause);
    }
    panic!("not within {limit:?}");
}
