//! The same tests as an ordinary user: a copy of the test program is run by somebody who may do nothing special.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::config::NURSERY;

/// An ordinary user: nobody in particular.
const SOMEBODY: u32 = 54_321;

/// Runs the named tests of this program as somebody. Who is not root is somebody already.
pub(crate) fn keeps(tests: &[&str]) {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = place.path().join(name);
        // By another process: what a child of ours has open for writing while it is forked, nobody can run.
        assert!(Command::new("cp").arg(from).arg(&to).status().unwrap().success());
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let program = copy(&std::env::current_exe().unwrap(), "tests");
    let nursery = copy(Path::new(env!("CARGO_BIN_EXE_pinfold-nursery")), "nursery");
    let ground = place.path().join("ground");
    fs::create_dir(&ground).unwrap();
    std::os::unix::fs::chown(&ground, Some(SOMEBODY), Some(SOMEBODY)).unwrap();

    let output = Command::new(program)
        .args(["--exact", "--test-threads", "2"])
        .args(tests)
        .env(NURSERY, nursery)
        .env("TMPDIR", &ground)
        .stdin(Stdio::null())
        .uid(SOMEBODY)
        .gid(SOMEBODY)
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{} passed", tests.len())), "{said}");
}
