//! Runs one conformance test as an unprivileged user: this test program starts a copy of itself under an unused uid.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::getuid;

use crate::config::SPAWNER;

/// Needs no entry in `/etc/passwd`, and is unlikely to have one.
const UNPRIVILEGED_UID: u32 = 54_321;

pub(crate) fn run_as_unprivileged_user(test: &str) {
    if !getuid().is_root() {
        // The suite already runs as an unprivileged user.
        return;
    }
    let programs = ProgramDirectory::shared();
    let output = programs.program(test).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);

    assert!(output.status.success(), "as user {UNPRIVILEGED_UID}: {}\n{stdout}{stderr}", output.status);
    assert!(stdout.contains("1 passed"), "no test ran as user {UNPRIVILEGED_UID}:\n{stdout}{stderr}");
}

/// A world-readable directory with the programs, and one directory owned by the user.
struct ProgramDirectory {
    directory: tempfile::TempDir,
}

/// The copies are large, so concurrent tests share them.
static IN_USE: Mutex<Weak<ProgramDirectory>> = Mutex::new(Weak::new());

impl ProgramDirectory {
    fn shared() -> Arc<Self> {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.upgrade().unwrap_or_else(|| {
            let programs = Arc::new(Self::new());
            *in_use = Arc::downgrade(&programs);
            programs
        })
    }

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let programs = Self { directory };
        copy(&std::env::current_exe().unwrap(), &programs.path("tests"));
        copy(Path::new(env!("CARGO_BIN_EXE_pinfold-spawner")), &programs.path("spawner"));
        fs::create_dir(programs.path("own")).unwrap();
        chown(programs.path("own"), Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID)).unwrap();
        programs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self, test: &str) -> Command {
        let mut command = Command::new(self.path("tests"));
        command.args(["--exact", test, "--nocapture"]).env("TMPDIR", self.path("own"));
        command.env(SPAWNER, self.path("spawner"));
        // `uid` also drops supplementary groups of a process that was root.
        command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID).stdin(Stdio::null());
        command
    }
}

/// Copied by another process: a file that this process has open for writing, even in a child that another test has
/// just forked, cannot be executed.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}
