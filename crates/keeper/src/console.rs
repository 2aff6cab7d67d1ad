//! Standard streams of an execution: pipes, or a pseudo-terminal. The keeper's ends never block.

use std::io;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::input::Input;
use pinfold_keeper_wire::{Console, TerminalSize};
use pinfold_output_log::OutputStream;

/// Devices for consoles, opened before untrusted code runs in the sandbox: no path is resolved later.
pub(crate) struct ConsoleDevices {
    null: OwnedFd,
    terminals: OwnedFd,
}

impl ConsoleDevices {
    pub(crate) fn open() -> io::Result<Self> {
        // Open /dev/null for executions without input.
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let null = rustix::fs::open("/dev/null", flags, Mode::empty())?;
        // Open the devpts directory; terminals are opened relative to it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let terminals = rustix::fs::open("/dev/pts", flags, Mode::empty())?;
        Ok(Self { null, terminals })
    }

    pub(crate) fn null(&self) -> &OwnedFd {
        &self.null
    }
}

/// The keeper's ends.
pub(crate) struct KeeperEnds {
    pub(crate) outputs: Vec<(OutputStream, OwnedFd)>,
    pub(crate) input: Option<Input>,
    pub(crate) terminal: Option<OwnedFd>,
}

/// The execution's ends.
pub(crate) struct ExecutionEnds {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// All three are a terminal, which becomes its controlling terminal.
    pub(crate) is_terminal: bool,
}

pub(crate) fn make(console: Console, devices: &ConsoleDevices) -> io::Result<(KeeperEnds, ExecutionEnds)> {
    match console {
        Console::Terminal(size) => make_terminal(size, devices),
        Console::NoInput => make_pipes(None, devices.null.try_clone()?),
        Console::Piped => {
            // Only the keeper's end is non-blocking: programs expect a blocking standard input.
            let (there, here) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&here, true)?;
            make_pipes(Some(Input::into_pipe(here)), there)
        }
    }
}

fn make_pipes(input: Option<Input>, stdin: OwnedFd) -> io::Result<(KeeperEnds, ExecutionEnds)> {
    let (stdout_reader, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr_reader, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    // Non-blocking: a process inside can read its own output back out of the pipe after poll reported data.
    for end in [&stdout_reader, &stderr_reader] {
        set_nonblocking_reads(end)?;
    }
    let outputs = vec![(OutputStream::Stdout, stdout_reader), (OutputStream::Stderr, stderr_reader)];
    Ok((
        KeeperEnds { outputs, input, terminal: None },
        ExecutionEnds { stdin, stdout, stderr, is_terminal: false },
    ))
}

fn set_nonblocking_reads(end: &OwnedFd) -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::BlockingOutputReads) {
        return Ok(());
    }
    Ok(rustix::io::ioctl_fionbio(end, true)?)
}

fn make_terminal(size: TerminalSize, devices: &ConsoleDevices) -> io::Result<(KeeperEnds, ExecutionEnds)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // Open a new pseudo-terminal master.
    let here = openat(&devices.terminals, "ptmx", flags, Mode::empty())?;
    // Unlock its slave.
    unlockpt(&here)?;
    resize(&here, size)?;
    // Open the slave by descriptor (TIOCGPTPEER): a path inside could have been replaced.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let there = ioctl_tiocgptpeer(&here, flags)?;
    let input = Input::into_terminal(here.try_clone()?);
    let outputs = vec![(OutputStream::Stdout, here.try_clone()?)];
    let (stdout, stderr) = (there.try_clone()?, there.try_clone()?);
    let there = ExecutionEnds { stdin: there, stdout, stderr, is_terminal: true };
    Ok((KeeperEnds { outputs, input: Some(input), terminal: Some(here) }, there))
}

pub(crate) fn resize(terminal: &OwnedFd, TerminalSize { columns, rows }: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

/// Result of reading an output.
pub(crate) enum ReadResult<'a> {
    Bytes(&'a [u8]),
    Nothing,
    End,
}

/// Reads into the spare capacity of the chunk. The buffer is not zeroed: after each fork, the first write to a page
/// copies it.
pub(crate) fn read<'a>(output: &OwnedFd, chunk: &'a mut Vec<u8>) -> io::Result<ReadResult<'a>> {
    chunk.clear();
    match rustix::io::read(output, spare_capacity(chunk)) {
        Ok(read) if read > 0 => Ok(ReadResult::Bytes(chunk)),
        // EIO: all slaves of the terminal are closed.
        Ok(_) | Err(Errno::IO) => Ok(ReadResult::End),
        Err(Errno::AGAIN | Errno::INTR) => Ok(ReadResult::Nothing),
        Err(error) => Err(error.into()),
    }
}
