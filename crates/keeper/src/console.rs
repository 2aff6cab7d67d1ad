//! What an execution reads from and writes to: pipes, or a terminal of its own. The ends of the keeper never block.

use std::io;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::input::Input;
use crate::log::Stream;
use crate::wire::{Console, TerminalSize};

/// What consoles are made of, opened before anything untrusted ran here: no path is followed later.
pub(crate) struct Devices {
    null: OwnedFd,
    terminals: OwnedFd,
}

impl Devices {
    pub(crate) fn open() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let null = rustix::fs::open("/dev/null", flags, Mode::empty())?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let terminals = rustix::fs::open("/dev/pts", flags, Mode::empty())?;
        Ok(Self { null, terminals })
    }

    pub(crate) fn null(&self) -> &OwnedFd {
        &self.null
    }
}

/// The keeper's ends.
pub(crate) struct Here {
    pub(crate) outputs: Vec<(Stream, OwnedFd)>,
    pub(crate) input: Option<Input>,
    pub(crate) terminal: Option<OwnedFd>,
}

/// The execution's ends.
pub(crate) struct There {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// All three are the terminal that is to be its own.
    pub(crate) is_terminal: bool,
}

pub(crate) fn make(console: Console, devices: &Devices) -> io::Result<(Here, There)> {
    match console {
        Console::Terminal(size) => make_terminal(size, devices),
        Console::Quiet => make_pipes(None, devices.null.try_clone()?),
        Console::Piped => {
            // Only this end: what reads blocks as programs expect.
            let (there, here) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&here, true)?;
            make_pipes(Some(Input::into_pipe(here)), there)
        }
    }
}

fn make_pipes(input: Option<Input>, stdin: OwnedFd) -> io::Result<(Here, There)> {
    let (stdout_here, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr_here, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    // What runs inside may take back what it wrote: a read must never wait for it.
    for end in [&stdout_here, &stderr_here] {
        read_without_waiting(end)?;
    }
    let outputs = vec![(Stream::Stdout, stdout_here), (Stream::Stderr, stderr_here)];
    Ok((Here { outputs, input, terminal: None }, There { stdin, stdout, stderr, is_terminal: false }))
}

fn read_without_waiting(end: &OwnedFd) -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::OutputReadBlindly) {
        return Ok(());
    }
    Ok(rustix::io::ioctl_fionbio(end, true)?)
}

fn make_terminal(size: TerminalSize, devices: &Devices) -> io::Result<(Here, There)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let here = openat(&devices.terminals, "ptmx", flags, Mode::empty())?;
    unlockpt(&here)?;
    resize(&here, size)?;
    // By the descriptor: a name in the sandbox could be anybody's.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let there = ioctl_tiocgptpeer(&here, flags)?;
    let input = Input::into_terminal(here.try_clone()?);
    let outputs = vec![(Stream::Stdout, here.try_clone()?)];
    let (stdout, stderr) = (there.try_clone()?, there.try_clone()?);
    let there = There { stdin: there, stdout, stderr, is_terminal: true };
    Ok((Here { outputs, input: Some(input), terminal: Some(here) }, there))
}

pub(crate) fn resize(terminal: &OwnedFd, TerminalSize { columns, rows }: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

/// What came of reading an output.
pub(crate) enum Read<'a> {
    Bytes(&'a [u8]),
    Nothing,
    End,
}

/// Into the room that the chunk has, whose bytes nobody has written: after each fork the first one in a page costs a copy
/// of it.
pub(crate) fn read<'a>(output: &OwnedFd, chunk: &'a mut Vec<u8>) -> io::Result<Read<'a>> {
    chunk.clear();
    match rustix::io::read(output, spare_capacity(chunk)) {
        Ok(read) if read > 0 => Ok(Read::Bytes(chunk)),
        // A terminal that nobody has open any more.
        Ok(_) | Err(Errno::IO) => Ok(Read::End),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Read::Nothing),
        Err(error) => Err(error.into()),
    }
}
