//! How a body ends: asked, made to, and looked for.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use pinfold_keeper::wire::{Request, Response};
use pinfold_lifecycle::{Finding, Receipt, StopOutcome};
use pinfold_provider::Body;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::control::ask;
use crate::look::{keeper_is_there, noted_process, started};
use crate::places::Places;
use crate::provider::LinuxProvider;

const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long a killed process may take to be gone before this attempt gives up.
const DEATH: Duration = Duration::from_secs(20);

impl LinuxProvider {
    pub(crate) async fn stop_bodies(&self, body: Body, grace_ms: u64) -> StopOutcome {
        let bodies = match self.bodies_of(body.sandbox) {
            Ok(bodies) => bodies,
            Err(error) => return StopOutcome::Unknown { why: format!("could not look for bodies: {error}") },
        };
        let (covered, later): (Vec<_>, Vec<_>) =
            bodies.into_iter().partition(|found| found.generation <= body.generation);
        for found in covered {
            if let Err(error) = self.end_one(&self.grounds.of(found), grace_ms).await {
                return StopOutcome::Unknown { why: format!("could not end {}: {error}", found.sandbox) };
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
        let receipt =
            Receipt { generation: body.generation, verified_at, checks, freed_bytes: 0, attested: None };
        StopOutcome::Gone(Box::new(receipt))
    }

    pub(crate) async fn end_one(&self, places: &Places, grace_ms: u64) -> io::Result<()> {
        if grace_ms > 0 {
            self.ask_to_end(places, grace_ms).await;
        }
        // The groups hold everything that was ever born here; without groups the keeper's end is everybody's.
        let group = self.cgroups.open(&places.name).map_err(io::Error::other)?;
        let ended = tokio::task::spawn_blocking(move || group.end_all(DEATH).map(|()| group)).await;
        let group = ended.map_err(io::Error::other)?.map_err(io::Error::other)?;
        kill_keeper(places)?;
        let end = tokio::time::Instant::now() + DEATH;
        while keeper_is_there(places)? {
            // What names it stays until it is gone: without that nobody could find it any more.
            if tokio::time::Instant::now() >= end {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "its keeper outlives the kill"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        remove_tree(&places.body)?;
        self.ids.free(places)?;
        let removed = tokio::task::spawn_blocking(move || group.remove(DEATH)).await;
        removed.map_err(io::Error::other)?.map_err(io::Error::other)?;
        // The mark goes last, so that what a crash leaves can still be found.
        remove_tree(&places.control)?;
        self.leave_no_base()
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

/// By a handle that is checked after it is taken: never by a number alone.
fn kill_keeper(places: &Places) -> io::Result<()> {
    let Some((number, began)) = noted_process(places)? else { return Ok(()) };
    let Some(pid) = Pid::from_raw(number) else { return Ok(()) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if started(number)? != Some(began) {
        return Ok(());
    }
    match pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
