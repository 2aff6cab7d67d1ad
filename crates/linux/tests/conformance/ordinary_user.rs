//! A promise tried by an ordinary user: this very test program starts itself again under an id that nobody has,
//! from a copy that this id can read, and tells of one promise.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::getuid;

use crate::config::NURSERY;

/// No entry in `/etc/passwd` is needed, and none is likely to have this number.
const SOMEBODY: u32 = 54_321;

pub(crate) fn keep(promise: &str) {
    if !getuid().is_root() {
        // The suite itself is run by an ordinary user already.
        return;
    }
    let place = Place::shared();
    let tried = place.program(promise).output().unwrap();
    let said = String::from_utf8_lossy(&tried.stdout);
    let complained = String::from_utf8_lossy(&tried.stderr);

    assert!(tried.status.success(), "as user {SOMEBODY}: {}\n{said}{complained}", tried.status);
    assert!(said.contains("1 passed"), "nothing was tried as user {SOMEBODY}:\n{said}{complained}");
}

/// A directory that everybody may pass through, with the programs and one directory that is the user's own.
struct Place {
    directory: tempfile::TempDir,
}

/// Copies of these programs are large: whoever tries a promise at the same time uses the same.
static IN_USE: Mutex<Weak<Place>> = Mutex::new(Weak::new());

impl Place {
    fn shared() -> Arc<Self> {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.upgrade().unwrap_or_else(|| {
            let place = Arc::new(Self::new());
            *in_use = Arc::downgrade(&place);
            place
        })
    }

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let place = Self { directory };
        copy(&std::env::current_exe().unwrap(), &place.path("promises"));
        copy(Path::new(env!("CARGO_BIN_EXE_pinfold-nursery")), &place.path("nursery"));
        fs::create_dir(place.path("own")).unwrap();
        chown(place.path("own"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self, promise: &str) -> Command {
        let mut command = Command::new(self.path("promises"));
        command.args(["--exact", promise, "--nocapture"]).env("TMPDIR", self.path("own"));
        command.env(NURSERY, self.path("nursery"));
        // A process that was root and sets its ids by these leaves all its groups too.
        command.uid(SOMEBODY).gid(SOMEBODY).stdin(Stdio::null());
        command
    }
}

/// By another process: a file that this one has open for writing, if only in a child that another test has just
/// forked, cannot be started.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}
