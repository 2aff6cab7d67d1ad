//! How a body ends: asked, made to, and looked for.

use std::io;
use std::path::Path;
use std::time::Duration;

use pinfold_keeper::wire::{Request, Response};
use pinfold_lifecycle::{Finding, Receipt, StopOutcome, Used};
use pinfold_provider::Body;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cgroup::CgroupUsage;
use crate::control::ask;
use crate::disk::{self, let_go_of, remove_tree};
use crate::hold::{Keeper, keeper, seal};
use crate::places::Places;
use crate::provider::LinuxProvider;

const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long a killed process may take to be gone before this attempt gives up.
const DEATH: Duration = Duration::from_secs(20);

/// What an end came to.
pub(crate) struct EndedBody {
    used: Used,
    /// What its files had taken.
    freed_bytes: u64,
}

impl LinuxProvider {
    pub(crate) async fn stop_bodies(&self, body: Body, grace_ms: u64) -> StopOutcome {
        let bodies = match self.bodies_of(body.sandbox) {
            Ok(bodies) => bodies,
            Err(error) => return StopOutcome::Unknown { why: format!("could not look for bodies: {error}") },
        };
        let (covered, later): (Vec<_>, Vec<_>) =
            bodies.into_iter().partition(|found| found.generation <= body.generation);
        let (mut used, mut freed_bytes) = (None, 0);
        for found in covered {
            match self.end_one(&self.grounds.of(found), grace_ms).await {
                Ok(ended) => {
                    freed_bytes += ended.freed_bytes;
                    if found == body {
                        used = Some(ended.used);
                    }
                }
                Err(error) => {
                    return StopOutcome::Unknown { why: format!("could not end {}: {error}", found.sandbox) };
                }
            }
        }
        if let Some(later) = later.first() {
            return StopOutcome::StillPresent { what: format!("generation {}", later.generation.0) };
        }
        let checks = self.checks(&self.grounds.of(body));
        for check in &checks {
            let what = || format!("{}: {}", check.kind, check.detail.as_deref().unwrap_or_default());
            match check.result {
                Finding::Absent => {}
                Finding::Present => return StopOutcome::StillPresent { what: what() },
                Finding::Unknown => return StopOutcome::Unknown { why: what() },
            }
        }
        let verified_at = self.now();
        let generation = body.generation;
        let receipt = Receipt { generation, verified_at, checks, freed_bytes, used, attested: None };
        StopOutcome::Gone(Box::new(receipt))
    }

    /// Says what it has used: all of it, since nothing of it runs any more when that is read.
    pub(crate) async fn end_one(&self, places: &Places, grace_ms: u64) -> io::Result<EndedBody> {
        // Files in memory go with their sandbox: only before its end can anybody say how much they are.
        let in_memory = if places.body.exists() { 0 } else { disk::used(places).await.unwrap_or(0) };
        if grace_ms > 0 {
            self.ask_to_end(places, grace_ms).await;
        }
        self.end_processes(places).await?;
        let _nobody_is_born = seal(places).await?;
        let counted = self.cgroups.open(&places.name).map_err(io::Error::other)?.usage();
        let body = places.body.clone();
        let removed = tokio::task::spawn_blocking(move || remove_body(&body)).await;
        let on_disk = removed.map_err(io::Error::other)??;
        self.ids.free(places)?;
        self.remove_groups(places).await?;
        // The mark goes last, so that what a crash leaves can still be found.
        remove_tree(&places.control)?;
        self.leave_no_base()?;
        Ok(EndedBody { used: used(&counted), freed_bytes: in_memory + on_disk })
    }

    /// The groups hold everything that was ever born here; without groups the keeper's end is everybody's.
    pub(crate) async fn end_processes(&self, places: &Places) -> io::Result<()> {
        let group = self.cgroups.open(&places.name).map_err(io::Error::other)?;
        let ended = tokio::task::spawn_blocking(move || group.end_all(DEATH)).await;
        ended.map_err(io::Error::other)?.map_err(io::Error::other)?;
        let end = tokio::time::Instant::now() + DEATH;
        // Again each time: one that is just being born has no number yet.
        while kill_keeper(places)? != Keeper::Nobody {
            // What names it stays until it is gone: without that nobody could find it any more.
            if tokio::time::Instant::now() >= end {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "its keeper outlives the kill"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    pub(crate) async fn remove_groups(&self, places: &Places) -> io::Result<()> {
        let group = self.cgroups.open(&places.name).map_err(io::Error::other)?;
        let removed = tokio::task::spawn_blocking(move || group.remove(DEATH)).await;
        removed.map_err(io::Error::other)?.map_err(io::Error::other)
    }

    /// With its last body a store's own base in the groups goes too.
    fn leave_no_base(&self) -> io::Result<()> {
        if self.marks()?.0.is_empty() {
            self.cgroups.remove_empty_bases().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// What does not go when it is asked to goes when it is made to.
    async fn ask_to_end(&self, places: &Places, grace_ms: u64) {
        let end = tokio::time::Instant::now() + Duration::from_millis(grace_ms);
        if ask(places, &Request::Terminate).await.is_err() {
            return;
        }
        while tokio::time::Instant::now() < end {
            match ask(places, &Request::List).await {
                Ok(Response::Executions(executions)) if executions.iter().any(|e| e.ended.is_none()) => {}
                Ok(_) | Err(_) => return,
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn used(counted: &CgroupUsage) -> Used {
    Used {
        cpu_ms: counted.cpu_ms,
        memory_peak_bytes: counted.memory_peak_bytes,
        io_read_bytes: counted.io_read_bytes,
        io_written_bytes: counted.io_written_bytes,
    }
}

/// By a handle that is checked after it is taken: never by a number alone. Says whom it found.
fn kill_keeper(places: &Places) -> io::Result<Keeper> {
    let found = keeper(places)?;
    let Keeper::Alive(number, _) = found else { return Ok(found) };
    let Some(pid) = Pid::from_raw(number) else { return Ok(found) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(Keeper::Nobody),
        Err(error) => return Err(error.into()),
    };
    if keeper(places)? != found {
        return Ok(found);
    }
    match pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(found),
        Err(error) => Err(error.into()),
    }
}

/// The file behind a device first: what was never written to it need not be any more.
fn remove_body(body: &Path) -> io::Result<u64> {
    let freed = remove_tree(body)?;
    let_go_of(body, DEATH)?;
    Ok(freed)
}
