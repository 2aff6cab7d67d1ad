//! Watches keepers from outside, so that the engine learns of a killed or stopped keeper within seconds instead of at
//! its next check: the end of one by its pidfd, which costs nothing while it runs, a stopped one by its state in
//! `/proc`, read every two seconds.
//!
//! A keeper that ends by itself (its deadline, its caller is gone) is not reported: the engine has those deadlines too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use pinfold_procfs::{ProcessEnd, ProcessState, Stat, process_end};
use pinfold_provider::{InstanceId, Suspect};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use crate::paths::InstancePaths;
use crate::pid_lock::{KeeperStatus, keeper_status};

/// How often the states of keepers are read, at about five microseconds each.
const STATES_INTERVAL: Duration = Duration::from_secs(2);
pub(crate) const STOPPED: &str = "its keeper is stopped (SIGSTOP, or a debugger)";

type Keepers = Mutex<BTreeMap<InstanceId, WatchedKeeper>>;

pub(crate) struct KeeperWatch {
    keepers: Arc<Keepers>,
    suspects: UnboundedSender<Suspect>,
    next_suspect: tokio::sync::Mutex<UnboundedReceiver<Suspect>>,
    reading_states: Once,
}

enum WatchedKeeper {
    Alive {
        /// Its `/proc/PID/stat`, which stays bound to this process. `None`: it could not be opened.
        stat: Option<File>,
        is_stopped: bool,
        _end_watch: AbortOnDrop,
    },
    /// `None`: the kernel does not tell how it ended.
    Ended(Option<ProcessEnd>),
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Default for KeeperWatch {
    fn default() -> Self {
        let (suspects, next_suspect) = unbounded_channel();
        let next_suspect = tokio::sync::Mutex::new(next_suspect);
        Self { keepers: Arc::default(), suspects, next_suspect, reading_states: Once::new() }
    }
}

impl KeeperWatch {
    /// Watches a keeper until it ends or is forgotten. Without a runtime, or without free descriptors, it is not
    /// watched; the routine checks still notice its end.
    pub(crate) fn watch(&self, instance: InstanceId, pid: i32, pidfd: OwnedFd) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if lock(&self.keepers).len() >= most_watched() {
            return;
        }
        #[expect(deprecated, reason = "the descriptor is owned here and closed once")]
        let Ok(pidfd) = AsyncFd::with_interest(pidfd, Interest::READABLE) else { return };
        let stat = File::open(format!("/proc/{pid}/stat")).ok();
        let mut locked = lock(&self.keepers);
        let ended = watch_end(instance, pidfd, self.keepers.clone(), self.suspects.clone());
        let end_watch = AbortOnDrop(runtime.spawn(ended).abort_handle());
        locked.insert(instance, WatchedKeeper::Alive { stat, is_stopped: false, _end_watch: end_watch });
        self.reading_states.call_once(|| {
            // Ends with the provider, which holds the only lasting reference.
            runtime.spawn(read_states(Arc::downgrade(&self.keepers), self.suspects.clone()));
        });
    }

    /// Watches the keeper that the pid file names, if it is not watched yet: one that an earlier process spawned.
    pub(crate) fn watch_found(&self, instance: InstanceId, paths: &InstancePaths) {
        if lock(&self.keepers).contains_key(&instance) {
            return;
        }
        let opened = || -> io::Result<Option<(i32, OwnedFd)>> {
            let KeeperStatus::Alive(pid, since) = keeper_status(paths)? else { return Ok(None) };
            let Some(number) = Pid::from_raw(pid) else { return Ok(None) };
            let pidfd = pidfd_open(number, PidfdFlags::empty())?;
            // Read again: the pid may have been reused before it was opened.
            let is_same = pinfold_procfs::start_time(pid)? == Some(since);
            Ok(is_same.then_some((pid, pidfd)))
        };
        if let Ok(Some((pid, pidfd))) = opened() {
            self.watch(instance, pid, pidfd);
        }
    }

    /// Before a stop, whose own kill is not to be reported.
    pub(crate) fn forget(&self, instance: InstanceId) {
        lock(&self.keepers).remove(&instance);
    }

    /// How a keeper that is gone has ended, in words. None: by itself.
    pub(crate) fn end_of(&self, instance: InstanceId) -> Option<String> {
        match lock(&self.keepers).get(&instance) {
            Some(WatchedKeeper::Ended(Some(ProcessEnd::Exited(_)))) => None,
            Some(WatchedKeeper::Ended(Some(end @ ProcessEnd::Killed { .. }))) => Some(end.to_string()),
            Some(WatchedKeeper::Ended(None) | WatchedKeeper::Alive { .. }) | None => {
                Some("is gone, and how it ended is not known".to_owned())
            }
        }
    }

    /// Waits for the next keeper that is killed or stopped.
    pub(crate) async fn next_suspect(&self) -> Suspect {
        match self.next_suspect.lock().await.recv().await {
            Some(suspect) => suspect,
            // Unreachable while `self` holds a sender.
            None => std::future::pending().await,
        }
    }
}

/// Two descriptors each, and half of what this process may open is left for everything else.
fn most_watched() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.map_or(usize::MAX, |files| usize::try_from(files / 4).unwrap_or(usize::MAX))
}

/// Whether the keeper of this instance is stopped, as far as can be told.
pub(crate) fn is_stopped(paths: &InstancePaths) -> bool {
    match keeper_status(paths) {
        Ok(KeeperStatus::Alive(pid, _)) => {
            Stat::of(pid).is_ok_and(|stat| stat.is_some_and(|stat| stat.state == ProcessState::Stopped))
        }
        Ok(KeeperStatus::Absent | KeeperStatus::Starting) | Err(_) => false,
    }
}

async fn watch_end(
    instance: InstanceId,
    pidfd: AsyncFd<OwnedFd>,
    keepers: Arc<Keepers>,
    suspects: UnboundedSender<Suspect>,
) {
    // A pidfd becomes readable when its process has exited.
    if pidfd.readable().await.is_err() {
        return;
    }
    let end = end_after_reaping(&pidfd).await;
    // Absent: a stop has taken over meanwhile.
    let Some(watched) =
        lock(&keepers).get_mut(&instance).map(|it| std::mem::replace(it, WatchedKeeper::Ended(end)))
    else {
        return;
    };
    // Dropping it aborts this task at its next await point, of which there is none.
    drop(watched);
    if let Some(end @ ProcessEnd::Killed { .. }) = end {
        // Without a receiver the provider is being dropped.
        let _ = suspects.send(Suspect { instance, why: format!("its keeper {end}") });
    }
}

/// The kernel tells how a process ended once its parent has reaped it, which follows at once.
async fn end_after_reaping(pidfd: &AsyncFd<OwnedFd>) -> Option<ProcessEnd> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match process_end(pidfd.get_ref()) {
            Ok(None) => tokio::time::sleep(Duration::from_millis(2)).await,
            Ok(end) => return end,
            Err(_) => return None,
        }
    }
    None
}

/// Reports each keeper once when it turns from running to stopped.
async fn read_states(keepers: std::sync::Weak<Keepers>, suspects: UnboundedSender<Suspect>) {
    loop {
        tokio::time::sleep(STATES_INTERVAL).await;
        let Some(keepers) = keepers.upgrade() else { return };
        for (instance, watched) in &mut *lock(&keepers) {
            let WatchedKeeper::Alive { stat: Some(stat), is_stopped, .. } = watched else { continue };
            let now_stopped = reads_as_stopped(stat);
            if now_stopped && !*is_stopped {
                let _ = suspects.send(Suspect { instance: *instance, why: STOPPED.to_owned() });
            }
            *is_stopped = now_stopped;
        }
    }
}

fn reads_as_stopped(stat: &File) -> bool {
    let mut line = [0; 512];
    let read = stat.read_at(&mut line, 0).unwrap_or(0);
    Stat::parse(&line[..read]).is_some_and(|stat| stat.state == ProcessState::Stopped)
}

fn lock(keepers: &Keepers) -> MutexGuard<'_, BTreeMap<InstanceId, WatchedKeeper>> {
    keepers.lock().unwrap_or_else(PoisonError::into_inner)
}
