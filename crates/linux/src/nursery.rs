//! Nurseries as the provider knows them: child processes that are started when they are first needed, and again if they
//! were lost. There is more than one only while births come at once.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::available_parallelism;

use pinfold_keeper::nursery::{receive_born, send_with};
use pinfold_keeper::wire::{Birth, Born};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// How a nursery is started: a program of ours that calls [`pinfold_keeper::nursery::run`].
#[derive(Debug, Clone)]
pub struct NurseryProgram {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// As many births at once as the kernel makes namespaces any faster by.
const MOST: usize = 4;

pub(crate) struct Nurseries {
    program: NurseryProgram,
    rooms: Vec<Mutex<Option<Running>>>,
    turn: AtomicUsize,
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

impl Nurseries {
    pub(crate) fn new(program: NurseryProgram) -> Self {
        let count = available_parallelism().map_or(1, usize::from).min(MOST);
        Self { program, rooms: (0..count).map(|_| Mutex::default()).collect(), turn: AtomicUsize::new(0) }
    }

    /// A new keeper that waits to be told to go.
    pub(crate) fn give_birth(&self, birth: &Birth, descriptors: &[&OwnedFd]) -> io::Result<(i32, OwnedFd)> {
        let text = serde_json::to_vec(birth)?;
        let mut running = self.first_free()?;
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

    /// The first that nobody else waits for; where all are taken, each in its turn.
    fn first_free(&self) -> io::Result<MutexGuard<'_, Option<Running>>> {
        for room in &self.rooms {
            match room.try_lock() {
                Ok(running) => return Ok(running),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.rooms.len().max(1);
        let next = self.rooms.get(turn).ok_or_else(|| io::Error::other("there is no nursery"))?;
        Ok(next.lock().unwrap_or_else(PoisonError::into_inner))
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
            .stdin(Stdio::from(there))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { socket: here, child })
    }
}
