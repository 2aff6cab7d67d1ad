//! Runs the suite again as an unprivileged user, with copies of the programs that this user owns.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An unprivileged uid without an account.
const USER: u32 = 54_321;
/// Environment variable with the directory of the copies. Set only in the second run.
const COPIES_VARIABLE: &str = "PINFOLD_ATTACKS_UNPRIVILEGED";

/// Whether this process is the second run.
pub(crate) fn is_active() -> bool {
    std::env::var_os(COPIES_VARIABLE).is_some()
}

/// A program of this suite: as built, or the user's copy of it.
pub(crate) fn program(built: &str) -> PathBuf {
    let name = Path::new(built).file_name().unwrap_or_default();
    std::env::var_os(COPIES_VARIABLE).map_or_else(|| built.into(), |copies| Path::new(&copies).join(name))
}

/// Runs the suite as the user. Returns what failed.
pub(crate) fn run(programs: &[&str]) -> Vec<String> {
    match output(programs) {
        Ok(said) if said.lines().any(|line| line.starts_with("test result: ok.")) => {
            said.lines()
                .filter(|line| line.starts_with("attack "))
                .for_each(|line| println!("{line} (unprivileged user)"));
            Vec::new()
        }
        Ok(said) => {
            println!("{said}");
            let failed = said.lines().filter(|line| line.contains("FAILED") || line.starts_with("could not"));
            failed.map(str::to_owned).chain(["the run as an unprivileged user failed".to_owned()]).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

fn output(programs: &[&str]) -> io::Result<String> {
    let copies = tempfile::tempdir()?;
    let own = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        chown(path, Some(USER), Some(USER))
    };
    own(copies.path(), 0o755)?;
    let suite = std::env::current_exe()?;
    for from in programs.iter().map(Path::new).chain([suite.as_path()]) {
        let to = copies.path().join(from.file_name().unwrap_or_default());
        copy(from, &to)?;
        own(&to, 0o755)?;
    }
    let scratch = copies.path().join("scratch");
    fs::create_dir(&scratch)?;
    own(&scratch, 0o755)?;
    let output = Command::new(copies.path().join(suite.file_name().unwrap_or_default()))
        .env(COPIES_VARIABLE, copies.path())
        .env("TMPDIR", &scratch)
        .current_dir(&scratch)
        .stdin(Stdio::null())
        .uid(USER)
        .gid(USER)
        .output()?;
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    Ok(format!("{}\n{}\n{}", said[0], said[1], output.status))
}

/// Copies in another process: a child that is forked here meanwhile would have the copy open for writing, and
/// until its exec the copy could not be run.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let copied = Command::new("cp").arg(from).arg(to).status()?;
    if copied.success() { Ok(()) } else { Err(io::Error::other(format!("cp ended with {copied}"))) }
}
