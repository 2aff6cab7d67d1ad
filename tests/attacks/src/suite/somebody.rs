//! The same as an ordinary user, whose own files are all that stands behind his sandboxes: copies of these programs
//! that belong to somebody are run by him.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An ordinary user: nobody in particular.
const SOMEBODY: u32 = 54_321;
/// Where his copies are.
const PLACE: &str = "PINFOLD_ATTACKS_OF_SOMEBODY";

/// Whether this is the program that somebody runs.
pub(crate) fn is_here() -> bool {
    std::env::var_os(PLACE).is_some()
}

/// A program of this suite: as it was built, or somebody's copy of it.
pub(crate) fn program(built: &str) -> PathBuf {
    let name = Path::new(built).file_name().unwrap_or_default();
    std::env::var_os(PLACE).map_or_else(|| built.into(), |place| Path::new(&place).join(name))
}

/// What is wrong there.
pub(crate) fn tries(programs: &[&str]) -> Vec<String> {
    match output(programs) {
        Ok(said) if said.lines().any(|line| line.starts_with("test result: ok.")) => {
            said.lines()
                .filter(|line| line.starts_with("attack "))
                .for_each(|line| println!("{line} (somebody)"));
            Vec::new()
        }
        Ok(said) => {
            println!("{said}");
            let failed = said.lines().filter(|line| line.contains("FAILED") || line.starts_with("could not"));
            failed.map(str::to_owned).chain(["somebody's own run failed".to_owned()]).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

fn output(programs: &[&str]) -> io::Result<String> {
    let place = tempfile::tempdir()?;
    let own = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        chown(path, Some(SOMEBODY), Some(SOMEBODY))
    };
    own(place.path(), 0o755)?;
    let suite = std::env::current_exe()?;
    for from in programs.iter().map(Path::new).chain([suite.as_path()]) {
        let to = place.path().join(from.file_name().unwrap_or_default());
        copy(from, &to)?;
        own(&to, 0o755)?;
    }
    let ground = place.path().join("ground");
    fs::create_dir(&ground)?;
    own(&ground, 0o755)?;
    let output = Command::new(place.path().join(suite.file_name().unwrap_or_default()))
        .env(PLACE, place.path())
        .env("TMPDIR", &ground)
        .current_dir(&ground)
        .stdin(Stdio::null())
        .uid(SOMEBODY)
        .gid(SOMEBODY)
        .output()?;
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    Ok(format!("{}\n{}\n{}", said[0], said[1], output.status))
}

/// By another process: a child that is forked here while a program is written has it open for writing, and until that
/// child has become something else nobody can run the program.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let copied = Command::new("cp").arg(from).arg(to).status()?;
    if copied.success() { Ok(()) } else { Err(io::Error::other(format!("cp ended with {copied}"))) }
}
