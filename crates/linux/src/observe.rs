//! Observes what exists of an instance, each kind of resource by its own means. A failed observation is `Unknown`,
//! never `Absent`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use pinfold_keeper_wire::{EndedBy, ExecutionStatus, LimitHits, Request, Response};
use pinfold_lifecycle::{
    Cause, Evidence, ExecutionObservation, Finding, InstanceObservation, Outcome, ProbeFailure, ProbeResult,
    ProcessObservation, ReceiptCheck, SandboxId, Timestamp,
};
use pinfold_provider::InstanceId;

use crate::cgroup::InstanceCgroup;
use crate::cgroup_record;
use crate::control::{ControlError, query};
use crate::disk::loop_devices_backed_by;
use crate::instance_name;
use crate::keeper_watch;
use crate::mountinfo::mentions;
use crate::paths::InstancePaths;
use crate::pid_lock::{self, KeeperStatus};
use crate::provider::LinuxProvider;

impl LinuxProvider {
    pub(crate) async fn observe_sandbox(&self, sandbox: SandboxId) -> Evidence {
        let instances = match self.instances_of(sandbox).await {
            Ok(instances) => instances,
            Err(error) => return Evidence::Unknown { why: error.to_string() },
        };
        let mut observations = Vec::new();
        let mut checks = vec![
            check("directories", "no directory has its name", Ok(false)),
            check("cgroups", "no cgroup in any hierarchy has its name", Ok(false)),
        ];
        for instance in instances {
            let paths = self.data_paths.of(instance);
            checks = self.checks(&paths);
            if checks.iter().any(|check| check.result == Finding::Unknown) {
                return Evidence::Unknown { why: unknown_checks(&checks) };
            }
            if checks.iter().any(|check| check.result == Finding::Present) {
                match self.describe(instance, &paths).await {
                    Ok(described) => observations.push(described),
                    Err(error) => return Evidence::Unknown { why: error.to_string() },
                }
            }
        }
        if observations.is_empty() { Evidence::Absent(checks) } else { Evidence::Present(observations) }
    }

    /// Every instance that has a directory or a cgroup, and the names that cannot be parsed.
    pub(crate) fn discover_instances(&self) -> io::Result<(Vec<InstanceId>, Vec<String>)> {
        let (mut instances, mut unreadable) = self.data_paths.instances()?;
        for name in self.cgroups.discover().map_err(io::Error::other)? {
            match instance_name::decode(&name) {
                Some(instance) => instances.push(instance),
                None => unreadable.push(name),
            }
        }
        instances.sort_unstable();
        instances.dedup();
        Ok((instances, unreadable))
    }

    /// The control directory exists before the cgroups and after them. Only if there is none, cgroups are searched.
    pub(crate) async fn instances_of(&self, sandbox: SandboxId) -> io::Result<Vec<InstanceId>> {
        let known = self
            .directories
            .run(|| self.data_paths.directory_names(), |names| instances_among(names, sandbox))
            .await?;
        if !known.is_empty() {
            return Ok(known);
        }
        let (instances, _) = self.discover_instances()?;
        Ok(instances.into_iter().filter(|instance| instance.sandbox == sandbox).collect())
    }

    /// A live keeper may be slow or drop the connection: an instance that could not be asked is not known to be
    /// broken.
    async fn describe(
        &self,
        instance: InstanceId,
        paths: &InstancePaths,
    ) -> Result<InstanceObservation, ControlError> {
        // It would not answer in time.
        if keeper_watch::is_stopped(paths) {
            return Err(ControlError::NoAnswer(io::Error::other(keeper_watch::STOPPED)));
        }
        let listed = match query(paths, &Request::List).await {
            // It may have exited while answering: the second attempt shows that.
            Err(error) if !error.is_timeout() => query(paths, &Request::List).await,
            listed => listed,
        };
        let (whole, executions) = match listed {
            Ok(Response::Executions(executions)) => (ping_keeper(paths).await?.is_keeper(), executions),
            Ok(_) | Err(ControlError::NotListening(_)) => (false, Vec::new()),
            Err(error) => return Err(error),
        };
        let keeper_end = match pid_lock::keeper_status(paths) {
            Ok(KeeperStatus::Absent) if !whole => self.keepers.end_of(instance),
            Ok(_) | Err(_) => None,
        };
        let last_busy_at = self.activity(paths).await.ok().map(|activity| activity.last_busy_at);
        let now = self.now();
        let executions: Vec<_> =
            executions.iter().filter_map(|execution| observe_execution(execution, now)).collect();
        for ended in executions.iter().filter(|it| matches!(it.process, ProcessObservation::Ended(_))) {
            let kept = self.sync_output(instance.sandbox, ended.execution).await;
            kept.map_err(ControlError::NoAnswer)?;
        }
        Ok(InstanceObservation {
            generation: instance.generation,
            whole,
            keeper_end,
            executions,
            last_busy_at,
        })
    }

    /// Whether the keeper of this instance answers a ping in time.
    pub(crate) async fn keeper_answers(&self, paths: &InstancePaths) -> bool {
        ping_keeper(paths).await.is_ok_and(|ping| ping.is_keeper())
    }

    /// Pings the keeper and checks that its required mounts and files exist.
    pub(crate) async fn ping_instance(&self, instance: InstanceId, paths: &InstancePaths) -> ProbeResult {
        match ping_keeper(paths).await {
            Ok(PingResult::Healthy) => {
                self.keepers.watch_found(instance, paths);
                ProbeResult::Passed
            }
            Ok(PingResult::Damaged { why }) => ProbeResult::Failed(ProbeFailure::Files { why }),
            Ok(PingResult::NotOurs) | Err(_) => {
                ProbeResult::Failed(ProbeFailure::Control { why: "the keeper does not answer".into() })
            }
        }
    }

    pub(crate) fn checks(&self, paths: &InstancePaths) -> Vec<ReceiptCheck> {
        checks(paths, &self.cgroups_of(paths))
    }

    pub(crate) fn cgroups_of(&self, paths: &InstancePaths) -> io::Result<InstanceCgroup> {
        cgroup_record::open_cgroups(&self.cgroups, paths)
    }
}

/// The instances of one sandbox, by directory name.
fn instances_among(names: &[OsString], sandbox: SandboxId) -> Vec<InstanceId> {
    let prefix = instance_name::prefix(sandbox);
    let matching = names.iter().filter_map(|name| name.to_str()).filter(|name| name.starts_with(&prefix));
    let mut instances: Vec<InstanceId> = matching.filter_map(instance_name::decode).collect();
    instances.sort_unstable();
    instances.dedup();
    instances
}

/// Result of a ping.
enum PingResult {
    Healthy,
    /// The keeper answered, and a required mount or file is missing.
    Damaged {
        why: String,
    },
    /// No answer, or an answer without the secret of this keeper.
    NotOurs,
}

impl PingResult {
    fn is_keeper(&self) -> bool {
        matches!(self, Self::Healthy | Self::Damaged { .. })
    }
}

async fn ping_keeper(paths: &InstancePaths) -> Result<PingResult, ControlError> {
    let Ok(expected) = fs::read_to_string(paths.secret()) else { return Ok(PingResult::NotOurs) };
    let ping = Request::Ping { nonce: paths.name.clone() };
    match query(paths, &ping).await {
        Ok(Response::Pong { nonce, secret, confirmed: true, missing })
            if nonce == paths.name && secret == expected =>
        {
            Ok(missing.map_or(PingResult::Healthy, |why| PingResult::Damaged { why }))
        }
        Err(error) if error.is_timeout() => Err(error),
        Ok(_) | Err(_) => Ok(PingResult::NotOurs),
    }
}

/// One check for each kind of resource that an instance may own.
pub(crate) fn checks(paths: &InstancePaths, groups: &io::Result<InstanceCgroup>) -> Vec<ReceiptCheck> {
    let groups = groups.as_ref().map_err(ToString::to_string);
    let processes = groups.clone().and_then(|groups| has_processes(paths, groups));
    let left = groups.and_then(|groups| groups.existing().map_err(|error| error.to_string()));
    let directories = exists(&paths.storage).and_then(|storage| Ok(storage || exists(&paths.control)?));
    vec![
        check("processes", "cgroup.procs, and process 1 by its lock, id and start time", processes.clone()),
        check(
            "cgroups",
            "lstat of each recorded directory, else a search of every hierarchy",
            left.map(|left| !left.is_empty()),
        ),
        check("mounts", "/proc/self/mountinfo", text(mounted(&paths.storage))),
        check(
            "devices",
            "backing_file of every loop device that has a size",
            text(has_devices(&paths.storage)),
        ),
        check("namespaces", "process 1 is reaped and no descriptor of ours holds them", processes),
        check("directories", "lstat", text(directories)),
        check("sockets", "lstat", text(exists(&paths.socket()))),
    ]
}

/// The failed checks with their reasons.
fn unknown_checks(checks: &[ReceiptCheck]) -> String {
    let unknown = checks.iter().filter(|check| check.result == Finding::Unknown);
    let reasons =
        unknown.map(|check| format!("{}: {}", check.kind, check.detail.as_deref().unwrap_or_default()));
    reasons.collect::<Vec<_>>().join(", ")
}

fn has_processes(paths: &InstancePaths, groups: &InstanceCgroup) -> Result<bool, String> {
    let counted = groups.processes().map_err(|error| error.to_string())?;
    let keeper = pid_lock::keeper_status(paths).map_err(|error| error.to_string())?;
    Ok(!counted.is_empty() || keeper != KeeperStatus::Absent)
}

fn text(observed: io::Result<bool>) -> Result<bool, String> {
    observed.map_err(|error| error.to_string())
}

/// A failed observation is unknown, with the reason.
fn check(kind: &str, means: &str, found: Result<bool, String>) -> ReceiptCheck {
    let (result, detail) = match found {
        Ok(false) => (Finding::Absent, None),
        Ok(true) => (Finding::Present, Some("still there".to_owned())),
        Err(why) => (Finding::Unknown, Some(why)),
    };
    ReceiptCheck { kind: kind.into(), result, means: means.into(), detail }
}

fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn has_devices(path: &Path) -> io::Result<bool> {
    Ok(!loop_devices_backed_by(path)?.is_empty())
}

fn mounted(path: &Path) -> io::Result<bool> {
    Ok(mentions(&fs::read_to_string("/proc/self/mountinfo")?, path))
}

fn observe_execution(execution: &ExecutionStatus, now: Timestamp) -> Option<ExecutionObservation> {
    let id = execution.execution.parse().ok()?;
    let quiet_since = Timestamp(now.0.saturating_sub_unsigned(execution.idle_ms));
    let process = match &execution.ended {
        Some(ended) => ProcessObservation::Ended(outcome(ended)),
        None => ProcessObservation::Running { last_activity_at: quiet_since },
    };
    Some(ExecutionObservation { execution: id, process })
}

pub(crate) fn outcome(ended: &pinfold_keeper_wire::Ended) -> Outcome {
    let exit_code = ended.code.or(ended.signal.map(|signal| 128 + signal));
    let limit = |cause| Outcome { exit_code, ..Outcome::ended_for(cause) };
    let outcome = match ended.by {
        EndedBy::Itself => Outcome::exited(exit_code.unwrap_or(-1)),
        EndedBy::Kill => limit(Cause::Cancelled),
        EndedBy::TimeLimit => limit(Cause::TimeLimit),
        EndedBy::Inactivity => limit(Cause::Inactivity),
        EndedBy::OutputLimit => limit(Cause::OutputLimit),
        EndedBy::OperationLimit => limit(Cause::OperationLimit),
        EndedBy::MemoryLimit => limit(Cause::MemoryLimit),
        EndedBy::CpuLimit => limit(Cause::CpuLimit),
        EndedBy::ProcessLimit => limit(Cause::ProcessLimit),
        EndedBy::DiskLimit => limit(Cause::DiskLimit),
    };
    Outcome { detail: warning(ended.limit_hits), ..outcome }
}

/// Warning for the log: the execution survived a limit of the sandbox, the next one may not.
fn warning(limit_hits: LimitHits) -> Option<String> {
    let hits = |limit: &str, times: u64| match times {
        0 => None,
        1 => Some(format!("the sandbox ran into its {limit} limit once")),
        times => Some(format!("the sandbox ran into its {limit} limit {times} times")),
    };
    let hits = [hits("memory", limit_hits.memory_limit), hits("process", limit_hits.process_limit)];
    let hits: Vec<_> = hits.into_iter().flatten().collect();
    (!hits.is_empty()).then(|| format!("warning: {}", hits.join(", ")))
}

#[cfg(test)]
#[path = "observe/tests.rs"]
mod tests;
