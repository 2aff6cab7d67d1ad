//! One body, looked at closely: each low-level probe with its raw answer and its time, and what is broken if it failed.

use std::fs;
use std::time::Duration;

use pinfold_keeper::disk::Disk;
use pinfold_keeper::wire::{Request, Response};
use pinfold_lifecycle::{Finding, ProbeFailure, Probed};
use pinfold_provider::{Entry, Files, InstanceId, Metadata, Provider};
use tokio::time::Instant;

use crate::control::{ControlError, ask};
use crate::hold::{self, Keeper};
use crate::places::Places;
use crate::provider::LinuxProvider;

/// One probe of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    pub probe: &'static str,
    pub passed: bool,
    pub answer: String,
    pub took: Duration,
    /// What is broken where it did not pass.
    pub fault: Option<Fault>,
}

/// What of a body can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Process 1 is gone.
    KeeperGone,
    /// Process 1 is there, and does not answer.
    KeeperSilent,
    /// A place that everything inside needs, or its files.
    Place,
    /// No command can be run.
    Command,
    /// No byte or no file more fits onto its disk.
    DiskFull,
    /// Something about it could not be seen.
    Unseen,
}

/// How many files are named.
const SHOWN: usize = 8;

impl LinuxProvider {
    /// Everything that can be tried without harm to it.
    pub async fn examine(&self, body: InstanceId) -> Vec<Examined> {
        let places = self.grounds.of(body);
        let of = |fault: Fault| move |why: String| (fault, why);
        let (silent, unseen) = (of(Fault::KeeperSilent), of(Fault::Unseen));
        vec![
            timed("process 1", async { process(&places).map_err(of(Fault::KeeperGone)) }).await,
            timed("control ping", async { self.try_ping(&places).await.map_err(silent) }).await,
            timed("executions", async { raw(ask(&places, &Request::List).await).map_err(silent) }).await,
            timed("files and a command", async { judged(self.probe(body).await) }).await,
            timed("files of /workspace", async { self.try_list(body).await.map_err(of(Fault::Place)) }).await,
            timed("disk", async { room(ask(&places, &Request::Usage).await) }).await,
            timed("cgroups", async { self.groups_told(&places).map_err(unseen) }).await,
            timed("mounts, directories, sockets", async { Ok(self.things(&places)) }).await,
        ]
    }

    async fn try_ping(&self, places: &Places) -> Result<String, String> {
        if self.is_whole(places).await {
            return Ok("it answers with the secret that only it was born with".to_owned());
        }
        let answer = ask(places, &Request::Ping { nonce: places.name.clone() }).await;
        let secret = fs::read_to_string(places.secret());
        // The secret itself is nobody's business.
        let shown = raw(answer).unwrap_or_else(|why| why);
        Err(secret.map_or(shown.clone(), |secret| shown.replace(&secret, "…")))
    }

    /// By the way that callers take, which is not the one of the probe.
    async fn try_list(&self, body: InstanceId) -> Result<String, String> {
        let listing = self.list(body, b"/workspace", SHOWN).await.map_err(|error| error.to_string())?;
        let shown = |entry: &Entry| {
            let Metadata { kind, size, mode, .. } = &entry.metadata;
            format!("{} ({kind:?}, {size} bytes, {mode:o})", String::from_utf8_lossy(&entry.name))
        };
        let mut names: Vec<_> = listing.entries.iter().map(shown).collect();
        names.sort();
        if listing.more {
            names.push("and more".to_owned());
        }
        Ok(if names.is_empty() { "nothing is in it".to_owned() } else { names.join(", ") })
    }

    fn groups_told(&self, places: &Places) -> Result<String, String> {
        let group = self.groups_of(places).map_err(|error| error.to_string())?;
        let paths = group.look().map_err(|error| error.to_string())?;
        if paths.is_empty() {
            return Ok("none; its keeper alone holds it together".to_owned());
        }
        let processes = group.processes().map_err(|error| error.to_string())?;
        Ok(format!("{} groups, {} processes, {:?}", paths.len(), processes.len(), group.breaches()))
    }

    fn things(&self, places: &Places) -> String {
        let shown = |result: Finding| match result {
            Finding::Absent => "absent",
            Finding::Present => "present",
            Finding::Unknown => "unknown",
        };
        let checks = self.checks(places);
        checks
            .iter()
            .map(|check| format!("{} {}", check.kind, shown(check.result)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn process(places: &Places) -> Result<String, String> {
    match hold::keeper(places).map_err(|error| error.to_string())? {
        Keeper::Alive(pid, began) => Ok(format!("{pid}, began at tick {began}")),
        Keeper::Unborn => Err("it is just being born".to_owned()),
        Keeper::Nobody => Err("it is gone, or never was".to_owned()),
    }
}

fn raw<T: std::fmt::Debug, E: std::fmt::Display>(answer: Result<T, E>) -> Result<String, String> {
    answer.map(|answer| format!("{answer:?}")).map_err(|error| error.to_string())
}

fn room(answer: Result<Response, ControlError>) -> Result<String, (Fault, String)> {
    let disk = match answer {
        Ok(Response::Usage { disk: Some(disk), .. }) => disk,
        Ok(other) => return Err((Fault::Unseen, format!("{other:?}"))),
        Err(error) => return Err((Fault::KeeperSilent, error.to_string())),
    };
    let Disk { bytes, bytes_used, files, files_left, .. } = disk;
    let used_files = files.saturating_sub(files_left);
    let told = format!("{} of {} MiB, {used_files} of {files} files", bytes_used >> 20, bytes >> 20);
    if disk.is_full() { Err((Fault::DiskFull, told)) } else { Ok(told) }
}

fn judged(probed: Probed) -> Result<String, (Fault, String)> {
    match probed {
        Probed::Passed => Ok("its places, a file and a program were tried".to_owned()),
        Probed::Failed(ProbeFailure::Files { why }) => Err((Fault::Place, why)),
        Probed::Failed(ProbeFailure::Exec { why }) => Err((Fault::Command, why)),
        Probed::Failed(ProbeFailure::Control { why }) | Probed::Unknown { why } => {
            Err((Fault::KeeperSilent, why))
        }
    }
}

async fn timed(probe: &'static str, work: impl Future<Output = Result<String, (Fault, String)>>) -> Examined {
    let began = Instant::now();
    let answered = work.await;
    let took = began.elapsed();
    match answered {
        Ok(answer) => Examined { probe, passed: true, answer, took, fault: None },
        Err((fault, answer)) => Examined { probe, passed: false, answer, took, fault: Some(fault) },
    }
}
