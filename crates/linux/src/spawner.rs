//! Pool of spawner processes (fork servers), started on first use and restarted when lost. There is more than one
//! only while several launches run at once.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::available_parallelism;

use pinfold_keeper_wire::{SpawnRequest, SpawnResponse};
use pinfold_keeper_wire::{receive_response, send_with};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Command line of a spawner: a program that calls [`pinfold_keeper::spawner::run`].
#[derive(Debug, Clone)]
pub struct SpawnerProgram {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// Maximum number of spawners: more do not make the kernel create namespaces any faster.
const MAX_SPAWNERS: usize = 4;

pub(crate) struct SpawnerPool {
    program: SpawnerProgram,
    slots: Vec<Mutex<Option<SpawnerProcess>>>,
    next_slot: AtomicUsize,
}

struct SpawnerProcess {
    socket: OwnedFd,
    child: Child,
}

/// A spawner exits when its socket closes; it is killed and reaped so that it leaves no zombie.
impl Drop for SpawnerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl SpawnerPool {
    pub(crate) fn new(program: SpawnerProgram) -> Self {
        let count = available_parallelism().map_or(1, usize::from).min(MAX_SPAWNERS);
        Self {
            program,
            slots: (0..count).map(|_| Mutex::default()).collect(),
            next_slot: AtomicUsize::new(0),
        }
    }

    /// Spawns a keeper, which waits for the `Confirm` request.
    pub(crate) fn spawn_keeper(
        &self,
        request: &SpawnRequest,
        descriptors: &[&OwnedFd],
    ) -> io::Result<(i32, OwnedFd)> {
        let text = serde_json::to_vec(request)?;
        let mut running = self.acquire()?;
        let answer = self.exchange(&mut running, &text, descriptors);
        if answer.is_err() {
            *running = None;
        }
        match answer? {
            (SpawnResponse::Pid(pid), Some(pidfd)) => Ok((pid, pidfd)),
            (SpawnResponse::Pid(_), None) => {
                Err(io::Error::other("the spawner returned no pidfd for its child"))
            }
            (SpawnResponse::Failed(why), _) => Err(io::Error::other(why)),
        }
    }

    /// The first idle spawner; if all are busy, round robin.
    fn acquire(&self) -> io::Result<MutexGuard<'_, Option<SpawnerProcess>>> {
        for slot in &self.slots {
            match slot.try_lock() {
                Ok(running) => return Ok(running),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let next_slot = self.next_slot.fetch_add(1, Ordering::Relaxed) % self.slots.len().max(1);
        let next = self.slots.get(next_slot).ok_or_else(|| io::Error::other("the spawner pool is empty"))?;
        Ok(next.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn exchange(
        &self,
        running: &mut Option<SpawnerProcess>,
        text: &[u8],
        descriptors: &[&OwnedFd],
    ) -> io::Result<(SpawnResponse, Option<OwnedFd>)> {
        let spawner = match running {
            Some(spawner) => spawner,
            None => running.insert(self.start()?),
        };
        send_with(&spawner.socket, text, descriptors)?;
        receive_response(&spawner.socket)
    }

    /// Starts a spawner with an empty environment and no descriptor but its socket: a keeper that outlives this
    /// process must not hold our output pipes open.
    fn start(&self) -> io::Result<SpawnerProcess> {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let child = Command::new(&self.program.program)
            .args(&self.program.arguments)
            .env_clear()
            .stdin(Stdio::from(there))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(SpawnerProcess { socket: here, child })
    }
}
