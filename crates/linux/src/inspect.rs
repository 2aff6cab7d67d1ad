//! What an operator sees of one instance: low-level probes, each with its raw answer, its duration and, if it failed,
//! what is broken; its processes; what it used.

use std::fs;

use async_trait::async_trait;
use pinfold_keeper_wire::DiskUsage;
use pinfold_keeper_wire::{Request, Response};
use pinfold_lifecycle::{Finding, ProbeFailure, ProbeResult, ResourceUsage};
use pinfold_provider::{
    DirectoryEntry, FileKind, Files, Inspect, InstanceError, InstanceFault, InstanceId, Metadata,
    ProbeReport, ProcessInfo, Provider,
};
use tokio::time::Instant;

use crate::cgroup::LimitEvents;
use crate::control::{ControlError, describe, query, unexpected};
use crate::paths::InstancePaths;
use crate::pid_lock::{self, KeeperStatus};
use crate::processes;
use crate::provider::LinuxProvider;

/// How many files are listed.
const MAX_LISTED: usize = 8;

#[async_trait]
impl Inspect for LinuxProvider {
    async fn examine(&self, instance: InstanceId) -> Vec<ProbeReport> {
        let paths = self.data_paths.of(instance);
        let of = |fault: InstanceFault| move |why: String| (fault, why);
        let (silent, unseen) = (of(InstanceFault::KeeperSilent), of(InstanceFault::Unobservable));
        vec![
            timed("process 1", async { process(&paths).map_err(of(InstanceFault::KeeperGone)) }).await,
            timed("control ping", async { self.try_ping(&paths).await.map_err(silent) }).await,
            timed("executions", async { described(query(&paths, &Request::List).await).map_err(silent) })
                .await,
            timed("files and a command", async { probe_report(self.probe(instance).await) }).await,
            timed("files of /workspace", async {
                self.try_list(instance).await.map_err(of(InstanceFault::Filesystem))
            })
            .await,
            timed("disk", async { disk_report(query(&paths, &Request::Usage).await) }).await,
            timed("cgroups", async { self.describe_cgroups(&paths).map_err(unseen) }).await,
            timed("mounts, directories, sockets", async { Ok(self.describe_resources(&paths)) }).await,
        ]
    }

    async fn total_usage(&self, instance: InstanceId) -> Option<ResourceUsage> {
        self.usage_so_far(&self.data_paths.of(instance)).await
    }

    async fn processes(&self, instance: InstanceId) -> Result<Vec<ProcessInfo>, InstanceError> {
        processes::of(&self.data_paths.of(instance))
    }
}

impl LinuxProvider {
    async fn try_ping(&self, paths: &InstancePaths) -> Result<String, String> {
        if self.keeper_answers(paths).await {
            return Ok("the keeper answers with its secret".to_owned());
        }
        let answer = query(paths, &Request::Ping { nonce: paths.name.clone() }).await;
        let secret = fs::read_to_string(paths.secret());
        // The secret must not reach the report.
        let shown = described(answer).unwrap_or_else(|why| why);
        Err(secret.map_or(shown.clone(), |secret| shown.replace(&secret, "…")))
    }

    /// Lists files through the public file interface, which the probe does not use.
    async fn try_list(&self, instance: InstanceId) -> Result<String, String> {
        let listing =
            self.list(instance, b"/workspace", MAX_LISTED).await.map_err(|error| error.to_string())?;
        let shown = |entry: &DirectoryEntry| {
            let Metadata { kind, size, mode, .. } = &entry.metadata;
            format!("{} ({}, {size} bytes, {mode:o})", String::from_utf8_lossy(&entry.name), kind_name(*kind))
        };
        let mut names: Vec<_> = listing.entries.iter().map(shown).collect();
        names.sort();
        if listing.more {
            names.push("and more".to_owned());
        }
        Ok(if names.is_empty() { "the directory is empty".to_owned() } else { names.join(", ") })
    }

    fn describe_cgroups(&self, paths: &InstancePaths) -> Result<String, String> {
        let group = self.cgroups_of(paths).map_err(|error| error.to_string())?;
        let directories = group.existing().map_err(|error| error.to_string())?;
        if directories.is_empty() {
            return Ok("none; the keeper alone holds the instance together".to_owned());
        }
        let processes = group.processes().map_err(|error| error.to_string())?;
        let LimitEvents { memory_kills, memory_reached, pids_refused } = group.limit_events();
        let count = |events: Option<u64>| events.map_or("unknown".to_owned(), |events| events.to_string());
        Ok(format!(
            "{} cgroups, {} processes, {} killed for memory, memory limit reached {} times, {} forks refused",
            directories.len(),
            processes.len(),
            count(memory_kills),
            count(memory_reached),
            count(pids_refused)
        ))
    }

    fn describe_resources(&self, paths: &InstancePaths) -> String {
        let shown = |result: Finding| match result {
            Finding::Absent => "absent",
            Finding::Present => "present",
            Finding::Unknown => "unknown",
        };
        let checks = self.checks(paths);
        checks
            .iter()
            .map(|check| format!("{} {}", check.kind, shown(check.result)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn process(paths: &InstancePaths) -> Result<String, String> {
    match pid_lock::keeper_status(paths).map_err(|error| error.to_string())? {
        KeeperStatus::Alive(pid, began) => Ok(format!("{pid}, started at tick {began}")),
        KeeperStatus::Starting => Err("the keeper is starting".to_owned()),
        KeeperStatus::Absent => Err("there is no keeper process".to_owned()),
    }
}

fn described(answer: Result<Response, ControlError>) -> Result<String, String> {
    answer.map(|answer| describe(&answer)).map_err(|error| error.to_string())
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Pipe => "pipe",
        FileKind::Socket => "socket",
        FileKind::Device => "device",
    }
}

fn disk_report(answer: Result<Response, ControlError>) -> Result<String, (InstanceFault, String)> {
    let disk = match answer {
        Ok(Response::Usage { disk: Some(disk), .. }) => disk,
        Ok(other) => return Err((InstanceFault::Unobservable, unexpected(&other))),
        Err(error) => return Err((InstanceFault::KeeperSilent, error.to_string())),
    };
    let DiskUsage { bytes, bytes_used, files, files_left, .. } = disk;
    let used_files = files.saturating_sub(files_left);
    let report = format!("{} of {} MiB, {used_files} of {files} files", bytes_used >> 20, bytes >> 20);
    if disk.is_full() { Err((InstanceFault::DiskFull, report)) } else { Ok(report) }
}

fn probe_report(probed: ProbeResult) -> Result<String, (InstanceFault, String)> {
    match probed {
        ProbeResult::Passed => Ok("required mounts, a file and a command work".to_owned()),
        ProbeResult::Failed(ProbeFailure::Files { why }) => Err((InstanceFault::Filesystem, why)),
        ProbeResult::Failed(ProbeFailure::Exec { why }) => Err((InstanceFault::Exec, why)),
        ProbeResult::Failed(ProbeFailure::Control { why }) | ProbeResult::Unknown { why } => {
            Err((InstanceFault::KeeperSilent, why))
        }
    }
}

async fn timed(
    probe: &'static str,
    work: impl Future<Output = Result<String, (InstanceFault, String)>>,
) -> ProbeReport {
    let began = Instant::now();
    let answered = work.await;
    let took = began.elapsed();
    match answered {
        Ok(answer) => ProbeReport { probe, passed: true, answer, took, fault: None },
        Err((fault, answer)) => ProbeReport { probe, passed: false, answer, took, fault: Some(fault) },
    }
}
