//! Runs the emulator with a kernel, an image and disks, and reads its console. Dropping it is a power cut.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use anyhow::{Context, Result};

/// A panic powers the machine off, and kernel messages do not mix with the tests' output.
const KERNEL_ARGS: &str = "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off";

/// Virtual time advances with executed instructions, 2 ns each: on a busy host the machine is slow without
/// noticing, and nothing in it times out.
const CLOCK: &str = "shift=1,sleep=on";

#[expect(clippy::disallowed_methods, reason = "an emulator takes real time")]
pub(in crate::test) fn now() -> Instant {
    Instant::now()
}

/// Killed when dropped, and when this process dies.
pub(in crate::test) struct Emulator {
    process: Child,
    lines: Receiver<String>,
}

pub(in crate::test) enum ConsoleEvent {
    Line(String),
    Nothing,
    /// The machine is off.
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
            .args(["-append", &format!("{KERNEL_ARGS} {words}")])
            // Cloud kernels have this disk driver built in.
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

    /// The next console line, if one comes in time.
    pub(in crate::test) fn next_line(&self, before: Instant) -> ConsoleEvent {
        match self.lines.recv_timeout(before.saturating_duration_since(now())) {
            Ok(line) => ConsoleEvent::Line(line),
            Err(RecvTimeoutError::Timeout) => ConsoleEvent::Nothing,
            Err(RecvTimeoutError::Disconnected) => ConsoleEvent::End,
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _already_off = self.process.kill();
        let _already_reaped = self.process.wait();
    }
}
