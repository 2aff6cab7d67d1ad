//! The nursery as the provider knows it: one child process that is started when it is first needed, and again if
//! it was lost.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use pinfold_keeper::nursery::{receive_born, send_with};
use pinfold_keeper::wire::{Birth, Born};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// How a nursery is started: a program of ours that calls [`pinfold_keeper::nursery::run`].
#[derive(Debug, Clone)]
pub struct NurseryProgram {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

pub(crate) struct Nursery {
    program: NurseryProgram,
    running: Mutex<Option<Running>>,
}

struct Running {
    socket: OwnedFd,
    child: Child,
}

/// It ends when its socket is closed; so that it leaves no zombie it is waited for.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nursery {
    pub(crate) fn new(program: NurseryProgram) -> Self {
        Self { program, running: Mutex::default() }
    }

    /// A new keeper that waits to be told to go.
    pub(crate) fn give_birth(&self, birth: &Birth, descriptors: &[&OwnedFd]) -> io::Result<(i32, OwnedFd)> {
        let text = serde_json::to_vec(birth)?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.ask(&mut running, &text, descriptors);
        if answer.is_err() {
            *running = None;
        }
        match answer? {
            (Born::Pid(pid), Some(pidfd)) => Ok((pid, pidfd)),
            (Born::Pid(_), None) => Err(io::Error::other("the nursery gave no handle to its child")),
            (Born::Failed(why), _) => Err(io::Error::other(why)),
        }
    }

    fn ask(
        &self,
        running: &mut Option<Running>,
        text: &[u8],
        descriptors: &[&OwnedFd],
    ) -> io::Result<(Born, Option<OwnedFd>)> {
        let nursery = match running {
            Some(nursery) => nursery,
            None => running.insert(self.start()?),
        };
        send_with(&nursery.socket, text, descriptors)?;
        receive_born(&nursery.socket)
    }

    /// With nothing of ours in its environment, and no descriptor but its socket: a keeper that outlives us would keep
    /// whoever reads our output waiting.
    fn start(&self) -> io::Result<Running> {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let child = Command::new(&self.program.program)
            .args(&self.program.arguments)
            .env_clear()
            // What a terminal sends to all of a command, Ctrl-C above all, is for us to hear and not for keepers.
            .process_group(0)
            .stdin(Stdio::from(there))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { socket: here, child })
    }
}
