//! Runs programs as an unprivileged user, who cannot read the build directory: from copies.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A user who needs no entry in `/etc/passwd`, and is unlikely to have one.
pub const UNPRIVILEGED_UID: u32 = 54_321;

/// A world-readable directory with copies of programs, and a temporary directory that the user owns.
#[derive(Debug)]
pub struct UnprivilegedCopies {
    directory: TempDir,
}

impl UnprivilegedCopies {
    /// Copies programs under their own file names. Needs root.
    pub fn of(programs: &[&Path]) -> io::Result<Self> {
        let copies = Self { directory: tempfile::tempdir()? };
        fs::set_permissions(copies.directory(), fs::Permissions::from_mode(0o755))?;
        for program in programs {
            copy(program, &copies.copy_of(program))?;
        }
        let own = copies.own_directory();
        fs::create_dir(&own)?;
        chown(&own, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))?;
        Ok(copies)
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    #[must_use]
    pub fn copy_of(&self, program: &Path) -> PathBuf {
        self.directory().join(program.file_name().unwrap_or_default())
    }

    /// Owned by the user.
    #[must_use]
    pub fn own_directory(&self) -> PathBuf {
        self.directory().join("own")
    }

    /// A copied program, to be run as the user in the user's directory.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(self.copy_of(program));
        command.env("TMPDIR", self.own_directory()).current_dir(self.own_directory()).stdin(Stdio::null());
        // `uid` also drops the supplementary groups of a process that was root.
        command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
        command
    }
}

/// Copied by another process: a file that this process has open for writing, even in a child that another test has
/// just forked, cannot be executed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let copied = Command::new("cp").args([from, to]).status()?;
    if !copied.success() {
        return Err(io::Error::other(format!("cp of `{}` ended with {copied}", from.display())));
    }
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_runs_as_the_user_in_a_directory_of_its_own() {
        if !rustix::process::getuid().is_root() {
            return crate::skip(
                "a_copy_runs_as_the_user_in_a_directory_of_its_own",
                "only root can become another user",
            );
        }
        let shell = fs::canonicalize("/bin/sh").unwrap();
        let copies = UnprivilegedCopies::of(&[&shell]).unwrap();

        let output =
            copies.command(&shell).args(["-c", "id -u; id -G; touch $TMPDIR/x && pwd"]).output().unwrap();

        let expected = format!("54321\n54321\n{}\n", copies.own_directory().display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
