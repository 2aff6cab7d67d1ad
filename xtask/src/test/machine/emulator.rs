//! The emulator: started with a kernel, an image and disks, and listened to until it powers off. It ends when it is
//! dropped, as if its plug were pulled.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use anyhow::{Context, Result};

/// Panics power off, and the kernel itself says nothing between the lines of the tests.
const KERNEL_WORDS: &str = "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off";

/// While programs run, the machine's time passes with their instructions, 2 ns for each: on a busy host it is slow
/// without noticing, and nothing in it takes too long.
const CLOCK: &str = "shift=1,sleep=on";

#[expect(clippy::disallowed_methods, reason = "an emulator takes real time")]
pub(in crate::test) fn now() -> Instant {
    Instant::now()
}

/// Ended when it is dropped, and with us if we are killed.
pub(in crate::test) struct Emulator {
    process: Child,
    lines: Receiver<String>,
}

pub(in crate::test) enum Heard {
    Line(String),
    Nothing,
    /// It is off.
    End,
}

impl Emulator {
    pub(super) fn start(kernel: &Path, image: &Path, words: &str, disks: &[String]) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(["-M", "pc", "-cpu", "max", "-smp", "1", "-m", "2048"])
            .args(["-accel", "tcg,thread=single", "-icount", CLOCK])
            .args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-nic", "none"])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(image)
            .args(["-append", &format!("{KERNEL_WORDS} {words}")])
            // Kernels for clouds have the driver of this kind of disk built in.
            .args(["-device", "nvme,id=disks,serial=disks"]);
        for (number, disk) in (1..).zip(disks) {
            command.args(["-drive", &format!("{disk},if=none,id=disk{number}")]);
            command.args(["-device", &format!("nvme-ns,bus=disks,drive=disk{number},nsid={number}")]);
        }
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start qemu-system-x86_64")?;
        let console = process.stdout.take().context("the machine has no console")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, lines })
    }

    /// The next line of its console, if one comes before this moment.
    pub(in crate::test) fn hear(&self, before: Instant) -> Heard {
        match self.lines.recv_timeout(before.saturating_duration_since(now())) {
            Ok(line) => Heard::Line(line),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _already_off = self.process.kill();
        let _already_reaped = self.process.wait();
    }
}
