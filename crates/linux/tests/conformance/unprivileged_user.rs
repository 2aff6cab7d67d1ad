//! Runs one conformance test as an unprivileged user: this test program starts a copy of itself under an unused uid.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pinfold_test_support::{UNPRIVILEGED_UID, UnprivilegedCopies};
use rustix::process::getuid;

use crate::config::SPAWNER;

/// The copies are large, so concurrent tests share them.
static IN_USE: Mutex<Weak<UnprivilegedCopies>> = Mutex::new(Weak::new());

pub(crate) fn run_as_unprivileged_user(test: &str) {
    if !getuid().is_root() {
        // The suite already runs as an unprivileged user.
        return;
    }
    let (program, spawner) =
        (std::env::current_exe().unwrap(), Path::new(env!("CARGO_BIN_EXE_pinfold-spawner")));
    let copies = shared_copies(&[&program, spawner]);
    let mut command = copies.command(&program);
    command.args(["--exact", test, "--nocapture"]).env(SPAWNER, copies.copy_of(spawner));
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);

    assert!(output.status.success(), "as user {UNPRIVILEGED_UID}: {}\n{stdout}{stderr}", output.status);
    assert!(stdout.contains("1 passed"), "no test ran as user {UNPRIVILEGED_UID}:\n{stdout}{stderr}");
}

fn shared_copies(programs: &[&Path]) -> Arc<UnprivilegedCopies> {
    let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    in_use.upgrade().unwrap_or_else(|| {
        let copies = Arc::new(UnprivilegedCopies::of(programs).unwrap());
        *in_use = Arc::downgrade(&copies);
        copies
    })
}
