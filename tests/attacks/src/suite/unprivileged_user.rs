//! Runs the suite again as an unprivileged user, with copies of the programs that this user owns.

use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use pinfold_test_support::{UNPRIVILEGED_UID, UnprivilegedCopies};

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
    let suite = std::env::current_exe()?;
    let programs: Vec<&Path> = programs.iter().map(Path::new).chain([suite.as_path()]).collect();
    let copies = UnprivilegedCopies::of(&programs)?;
    // Owned by the user, as in an installation of its own.
    for path in programs.iter().map(|program| copies.copy_of(program)).chain([copies.directory().to_owned()])
    {
        chown(path, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))?;
    }
    let output = copies.command(&suite).env(COPIES_VARIABLE, copies.directory()).output()?;
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    Ok(format!("{}\n{}\n{}", said[0], said[1], output.status))
}
