//! Really looking: what of a body is there, each kind of thing by its own means. A look that fails says so.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use pinfold_keeper::wire::{EndedBy, Execution, Request, Response, Survived};
use pinfold_lifecycle::{
    BodySeen, Cause, Evidence, ExecutionSeen, Finding, Outcome, ProbeFailure, Probed, ReceiptCheck,
    SandboxId, Seen, Timestamp,
};
use pinfold_provider::InstanceId;

use crate::cgroup::BodyCgroup;
use crate::control::{ControlError, ask};
use crate::disk::backed_by;
use crate::group_note;
use crate::hold::{self, Keeper};
use crate::mark;
use crate::mountinfo::mentions;
use crate::places::Places;
use crate::provider::LinuxProvider;

impl LinuxProvider {
    pub(crate) async fn look_at(&self, sandbox: SandboxId) -> Evidence {
        let bodies = match self.bodies_of(sandbox).await {
            Ok(bodies) => bodies,
            Err(error) => return Evidence::Unknown { why: error.to_string() },
        };
        let mut seen = Vec::new();
        let mut checks = vec![
            check("directories", "no directory has its mark", Ok(false)),
            check("cgroups", "no group in any hierarchy has its mark", Ok(false)),
        ];
        for body in bodies {
            let places = self.grounds.of(body);
            checks = self.checks(&places);
            if checks.iter().any(|check| check.result == Finding::Unknown) {
                return Evidence::Unknown { why: format!("{checks:?}") };
            }
            if checks.iter().any(|check| check.result == Finding::Present) {
                match self.describe(body, &places).await {
                    Ok(described) => seen.push(described),
                    Err(error) => return Evidence::Unknown { why: error.to_string() },
                }
            }
        }
        if seen.is_empty() { Evidence::Absent(checks) } else { Evidence::Present(seen) }
    }

    /// The bodies that anything physical carries the mark of, and the marks that cannot be read.
    pub(crate) fn marks(&self) -> io::Result<(Vec<InstanceId>, Vec<String>)> {
        let (mut bodies, mut unreadable) = self.grounds.marks()?;
        for name in self.cgroups.discover().map_err(io::Error::other)? {
            match mark::read(&name) {
                Some(body) => bodies.push(body),
                None => unreadable.push(name),
            }
        }
        bodies.sort_unstable();
        bodies.dedup();
        Ok((bodies, unreadable))
    }

    /// A body has its directory before its groups, and after them. Only where there is none, groups are searched
    /// for without.
    pub(crate) async fn bodies_of(&self, sandbox: SandboxId) -> io::Result<Vec<InstanceId>> {
        let known = self.directories.ask(|| self.grounds.names(), |names| among(names, sandbox)).await?;
        if !known.is_empty() {
            return Ok(known);
        }
        let (bodies, _) = self.marks()?;
        Ok(bodies.into_iter().filter(|body| body.sandbox == sandbox).collect())
    }

    /// A keeper that is there may be slow, or hang up on an answer: what could not be asked is not known to be broken.
    async fn describe(&self, body: InstanceId, places: &Places) -> Result<BodySeen, ControlError> {
        let listed = match ask(places, &Request::List).await {
            // It may have ended in the middle of the answer: then nobody is there any more.
            Err(error) if !error.is_slowness() => ask(places, &Request::List).await,
            listed => listed,
        };
        let (whole, executions) = match listed {
            Ok(Response::Executions(executions)) => (hear_from(places).await?.is_its_own(), executions),
            Ok(_) | Err(ControlError::NobodyThere(_)) => (false, Vec::new()),
            Err(error) => return Err(error),
        };
        let last_busy_at = self.activity(places).await.ok().map(|activity| activity.last_busy_at);
        let now = self.now();
        let executions: Vec<_> = executions.iter().filter_map(|execution| seen(execution, now)).collect();
        for ended in executions.iter().filter(|it| matches!(it.seen, Seen::Ended(_))) {
            let kept = self.keep_output(body.sandbox, ended.execution).await;
            kept.map_err(ControlError::NoAnswer)?;
        }
        Ok(BodySeen { generation: body.generation, whole, executions, last_busy_at })
    }

    /// The keeper answers, and in time.
    pub(crate) async fn is_whole(&self, places: &Places) -> bool {
        hear_from(places).await.is_ok_and(|heard| heard.is_its_own())
    }

    /// The same, and its world is all there.
    pub(crate) async fn ping_body(&self, places: &Places) -> Probed {
        match hear_from(places).await {
            Ok(Heard::Sound) => Probed::Passed,
            Ok(Heard::Lacks { why }) => Probed::Failed(ProbeFailure::Files { why }),
            Ok(Heard::Nobody) | Err(_) => {
                Probed::Failed(ProbeFailure::Control { why: "its keeper does not answer".into() })
            }
        }
    }

    pub(crate) fn checks(&self, places: &Places) -> Vec<ReceiptCheck> {
        checks(places, &self.groups_of(places))
    }

    pub(crate) fn groups_of(&self, places: &Places) -> io::Result<BodyCgroup> {
        group_note::groups_of(&self.cgroups, places)
    }
}

/// The bodies of one sandbox, by the names of directories.
fn among(names: &[OsString], sandbox: SandboxId) -> Vec<InstanceId> {
    let beginning = mark::beginning(sandbox);
    let its_own = names.iter().filter_map(|name| name.to_str()).filter(|name| name.starts_with(&beginning));
    let mut bodies: Vec<InstanceId> = its_own.filter_map(mark::read).collect();
    bodies.sort_unstable();
    bodies.dedup();
    bodies
}

/// Who answers a ping.
enum Heard {
    Sound,
    /// Its keeper, and something that its world is made of is gone.
    Lacks {
        why: String,
    },
    /// Or somebody without the secret that only its keeper was born with.
    Nobody,
}

impl Heard {
    fn is_its_own(&self) -> bool {
        matches!(self, Self::Sound | Self::Lacks { .. })
    }
}

async fn hear_from(places: &Places) -> Result<Heard, ControlError> {
    let Ok(expected) = fs::read_to_string(places.secret()) else { return Ok(Heard::Nobody) };
    let ping = Request::Ping { nonce: places.name.clone() };
    match ask(places, &ping).await {
        Ok(Response::Pong { nonce, secret, wanted: true, missing })
            if nonce == places.name && secret == expected =>
        {
            Ok(missing.map_or(Heard::Sound, |why| Heard::Lacks { why }))
        }
        Err(error) if error.is_slowness() => Err(error),
        Ok(_) | Err(_) => Ok(Heard::Nobody),
    }
}

/// One check for each kind of thing that a body may own. Its groups come from whoever knows their places.
pub(crate) fn checks(places: &Places, groups: &io::Result<BodyCgroup>) -> Vec<ReceiptCheck> {
    let groups = groups.as_ref().map_err(ToString::to_string);
    let processes = groups.clone().and_then(|groups| has_processes(places, groups));
    let left = groups.and_then(|groups| groups.look().map_err(|error| error.to_string()));
    let directories = exists(&places.body).and_then(|body| Ok(body || exists(&places.control)?));
    vec![
        check("processes", "cgroup.procs, and process 1 by its lock, id and start time", processes.clone()),
        check(
            "cgroups",
            "lstat of each place that was noted before it was made, else in every hierarchy",
            left.map(|left| !left.is_empty()),
        ),
        check("mounts", "/proc/self/mountinfo", text(mounted(&places.body))),
        check(
            "devices",
            "backing_file of every loop device that has a size",
            text(has_devices(&places.body)),
        ),
        check("namespaces", "process 1 is reaped and nothing of ours holds them", processes),
        check("directories", "lstat", text(directories)),
        check("sockets", "lstat", text(exists(&places.socket()))),
    ]
}

fn has_processes(places: &Places, groups: &BodyCgroup) -> Result<bool, String> {
    let counted = groups.processes().map_err(|error| error.to_string())?;
    let keeper = hold::keeper(places).map_err(|error| error.to_string())?;
    Ok(!counted.is_empty() || keeper != Keeper::Nobody)
}

fn text(look: io::Result<bool>) -> Result<bool, String> {
    look.map_err(|error| error.to_string())
}

/// A look that failed is unknown, with the reason.
fn check(kind: &str, means: &str, there: Result<bool, String>) -> ReceiptCheck {
    let (result, detail) = match there {
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
    Ok(!backed_by(path)?.is_empty())
}

fn mounted(path: &Path) -> io::Result<bool> {
    Ok(mentions(&fs::read_to_string("/proc/self/mountinfo")?, path))
}

fn seen(execution: &Execution, now: Timestamp) -> Option<ExecutionSeen> {
    let id = execution.execution.parse().ok()?;
    let quiet_since = Timestamp(now.0.saturating_sub_unsigned(execution.quiet_ms));
    let seen = match &execution.ended {
        Some(ended) => Seen::Ended(outcome(ended)),
        None => Seen::Running { last_activity_at: quiet_since },
    };
    Some(ExecutionSeen { execution: id, seen })
}

pub(crate) fn outcome(ended: &pinfold_keeper::wire::Ended) -> Outcome {
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
    Outcome { detail: warning(ended.survived), ..outcome }
}

/// For those who read its log: it went on, and the next one may not.
fn warning(survived: Survived) -> Option<String> {
    let told = |limit: &str, times: u64| match times {
        0 => None,
        1 => Some(format!("the sandbox ran into its {limit} limit once")),
        times => Some(format!("the sandbox ran into its {limit} limit {times} times")),
    };
    let told = [told("memory", survived.memory_limit), told("process", survived.process_limit)];
    let told: Vec<_> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| format!("warning: {}", told.join(", ")))
}

#[cfg(test)]
#[path = "look/tests.rs"]
mod tests;
