//! The emulator: started with a kernel and an image, listened to until it powers off, and ended when its time is up.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::console::Verdict;

/// Many times what a run takes on a quiet host.
const PATIENCE: Duration = Duration::from_secs(900);
/// Sparse: it takes what is written to it, and is removed.
const DISK_BYTES: u64 = 4 << 30;
/// Panics power off, and the kernel itself says nothing between the lines of the tests.
const KERNEL_WORDS: &str = "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off";

/// While programs run, the machine's time passes with their instructions, 2 ns for each: on a busy host it is slow
/// without noticing, and nothing in it takes too long.
const CLOCK: &str = "shift=1,sleep=on";

pub(super) fn run(kernel: &Path, image: &Path) -> Result<Verdict> {
    let mut machine = Machine::start(kernel, image)?;
    let lines = machine.lines()?;
    let deadline = now() + PATIENCE;
    let mut verdict = Verdict::default();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(now())) {
            Ok(line) => {
                println!("{line}");
                verdict.hear(&line);
            }
            Err(RecvTimeoutError::Timeout) => {
                println!("the machine did not power off within {} seconds", PATIENCE.as_secs());
                return Ok(verdict);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(verdict),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an emulator takes real time")]
fn now() -> Instant {
    Instant::now()
}

/// Ended when it is dropped, and with us if we are killed.
struct Machine {
    emulator: Child,
    disk: PathBuf,
}

impl Machine {
    fn start(kernel: &Path, image: &Path) -> Result<Self> {
        let disk = image.with_extension("disk");
        File::create(&disk)
            .and_then(|file| file.set_len(DISK_BYTES))
            .with_context(|| format!("could not make `{}`", disk.display()))?;
        // Kernels for clouds have the driver of this kind of disk built in.
        let drive = format!("file={},format=raw,if=none,id=disk,cache=unsafe", disk.display());
        let emulator = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(["-M", "pc", "-cpu", "max", "-smp", "1", "-m", "2048"])
            .args(["-accel", "tcg,thread=single", "-icount", CLOCK])
            .args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-nic", "none"])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(image)
            .args(["-append", KERNEL_WORDS])
            .args(["-drive", &drive, "-device", "nvme,drive=disk,serial=disk"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start qemu-system-x86_64")?;
        Ok(Self { emulator, disk })
    }

    /// Its console as it comes, until it is closed.
    fn lines(&mut self) -> Result<Receiver<String>> {
        let console = self.emulator.stdout.take().context("the machine has no console")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _already_off = self.emulator.kill();
        let _already_reaped = self.emulator.wait();
        // What is left behind is a file under target/ that the next run replaces.
        let _ = fs::remove_file(&self.disk);
    }
}
