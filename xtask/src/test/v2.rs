//! The tests of the Linux provider on an emulated machine with an older kernel and cgroup v2 only.

mod console;
mod programs;

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::machine::{self, ConsoleEvent, Machine, Root, now};
use super::needs;
use super::tally::Tally;
use crate::builds::{PRODUCT, RELEASE};
use console::Verdict;
use programs::Programs;

/// This host's programs that tests run, inside and outside of sandboxes.
const HOST_PROGRAMS: &[&str] = &[
    "bash", "cat", "chmod", "cmp", "cp", "cut", "dd", "df", "dirname", "du", "env", "expr", "false", "find",
    "grep", "head", "id", "ldd", "ln", "ls", "mkdir", "mke2fs", "mkfifo", "mknod", "mktemp", "mount", "mv",
    "nproc", "perl", "printf", "readlink", "rm", "rmdir", "sed", "seq", "setpriv", "setsid", "sh", "sleep",
    "sort", "stat", "strace", "stty", "sync", "tail", "test", "timeout", "touch", "tr", "true", "truncate",
    "tty", "umount", "uname", "unshare", "wc", "yes",
];
/// Many times what a run takes on an idle host.
const TIMEOUT: Duration = Duration::from_secs(900);
/// A sparse file, removed afterwards.
const DISK_BYTES: u64 = 4 << 30;

/// Runs only this stage. Whether it passed.
pub(super) fn run_alone() -> Result<bool> {
    needs::install_for_the_machine();
    if !PRODUCT.make()? || !RELEASE.make()? {
        return Ok(false);
    }
    let tally = run()?;
    println!("{tally}");
    Ok(tally.failed == 0 && tally.skipped == 0 && tally.passed > 0)
}

/// Counts the tests from the console output.
pub(super) fn run() -> Result<Tally> {
    if let Some(why) = machine::missing_requirement()? {
        println!("skipped: {why}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let programs = programs::find()?;
    let machine = Machine::make("v2", HOST_PROGRAMS, |root| fill(root, &programs))?;
    read_console(&machine)?.tally(programs.tests.len())
}

fn fill(root: &mut Root, programs: &Programs) -> Result<()> {
    root.add_stripped(&programs.pinfold, Path::new("/usr/local/bin/pinfold"))?;
    root.add_stripped(&programs.spawner, &programs.spawner)?;
    let mut list = String::new();
    for test in &programs.tests {
        root.add_stripped(&test.program, &test.program)?;
        writeln!(list, "{} {}", test.name, test.program.display())?;
    }
    root.add_text("tests", &list)?;
    root.add_first_program(include_str!("v2/guest.sh"))
}

/// Reads the console until the machine powers off or the time is up.
fn read_console(machine: &Machine) -> Result<Verdict> {
    let disk = Disk::make(machine.directory().join("disk"))?;
    let emulator = machine.start("", &[format!("file={},format=raw,cache=unsafe", disk.0.display())])?;
    let end = now() + TIMEOUT;
    let mut verdict = Verdict::default();
    loop {
        match emulator.next_line(end) {
            ConsoleEvent::Line(line) => {
                println!("{line}");
                verdict.take_line(&line);
            }
            ConsoleEvent::Nothing => {
                println!("the machine did not power off within {} seconds", TIMEOUT.as_secs());
                return Ok(verdict);
            }
            ConsoleEvent::End => return Ok(verdict),
        }
    }
}

struct Disk(PathBuf);

impl Disk {
    fn make(path: PathBuf) -> Result<Self> {
        File::create(&path)
            .and_then(|file| file.set_len(DISK_BYTES))
            .with_context(|| format!("could not make `{}`", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The next run replaces what is left under target/.
        let _ = fs::remove_file(&self.0);
    }
}
