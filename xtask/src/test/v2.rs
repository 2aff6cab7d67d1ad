//! The tests of the Linux provider on a machine of its own: an older kernel, and nothing but cgroup v2, as users have
//! it.

mod console;
mod programs;

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::machine::{self, Heard, Machine, Root, now};
use super::needs;
use super::tally::Tally;
use console::Verdict;
use programs::Programs;

/// This host's programs that tests run, inside of sandboxes and beside them.
const HOST_PROGRAMS: &[&str] = &[
    "bash", "cat", "chmod", "cmp", "cp", "cut", "dd", "df", "dirname", "du", "env", "expr", "false", "find",
    "grep", "head", "id", "ldd", "ln", "ls", "mkdir", "mke2fs", "mkfifo", "mknod", "mktemp", "mount", "mv",
    "nproc", "perl", "printf", "readlink", "rm", "rmdir", "sed", "seq", "setpriv", "setsid", "sh", "sleep",
    "sort", "stat", "strace", "stty", "sync", "tail", "test", "timeout", "touch", "tr", "true", "truncate",
    "tty", "umount", "uname", "unshare", "wc", "yes",
];
/// Many times what a run takes on a quiet host.
const PATIENCE: Duration = Duration::from_secs(900);
/// Sparse: it takes what is written to it, and is removed.
const DISK_BYTES: u64 = 4 << 30;

/// Says whether all went well, for who asks for this stage alone.
pub(super) fn run_alone() -> Result<bool> {
    needs::install_for_the_machine();
    let tally = run()?;
    println!("{tally}");
    Ok(tally.failed == 0 && tally.skipped == 0 && tally.passed > 0)
}

/// Counts what the console says.
pub(super) fn run() -> Result<Tally> {
    if let Some(why) = machine::lacks()? {
        println!("skipped: {why}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let programs = programs::build()?;
    let machine = Machine::make("v2", HOST_PROGRAMS, |root| fill(root, &programs))?;
    listen(&machine)?.tally(programs.tests.len())
}

fn fill(root: &mut Root, programs: &Programs) -> Result<()> {
    root.add_stripped(&programs.pinfold, Path::new("/usr/local/bin/pinfold"))?;
    root.add_stripped(&programs.nursery, &programs.nursery)?;
    let mut list = String::new();
    for test in &programs.tests {
        root.add_stripped(&test.program, &test.program)?;
        writeln!(list, "{} {}", test.name, test.program.display())?;
    }
    root.add_text("tests", &list)?;
    root.add_first_program(include_str!("v2/guest.sh"))
}

/// Until it powers off, or its time is up.
fn listen(machine: &Machine) -> Result<Verdict> {
    let disk = Disk::make(machine.place().join("disk"))?;
    let emulator = machine.start("", &[format!("file={},format=raw,cache=unsafe", disk.0.display())])?;
    let end = now() + PATIENCE;
    let mut verdict = Verdict::default();
    loop {
        match emulator.hear(end) {
            Heard::Line(line) => {
                println!("{line}");
                verdict.hear(&line);
            }
            Heard::Nothing => {
                println!("the machine did not power off within {} seconds", PATIENCE.as_secs());
                return Ok(verdict);
            }
            Heard::End => return Ok(verdict),
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
        // What is left behind is a file under target/ that the next run replaces.
        let _ = fs::remove_file(&self.0);
    }
}
