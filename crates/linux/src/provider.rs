//! The Linux side of the provider contract.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_keeper::wire::{self, Reason, Request, Response};
use pinfold_lifecycle::{
    Cause, Evidence, ExecutionId, Outcome, ProbeFailure, Probed, SandboxId, StopOutcome, Timestamp,
};
use pinfold_provider::{
    AskBodyError, Body, Capacity, DiscoverError, Discovered, Exec, ExecError, Found, Killed, Provider, Start,
    StartError, Usage, WaitError,
};

use crate::cgroup::Cgroups;
use crate::control::{ControlError, ask, ask_patiently};
use crate::host_image::HostImage;
use crate::id_ranges::IdRanges;
use crate::look::outcome;
use crate::nursery::{Nursery, NurseryProgram};
use crate::places::Grounds;

/// Where bodies live on this host, and how keepers are born.
#[derive(Clone)]
pub struct LinuxConfig {
    pub data: PathBuf,
    /// The id of the store whose bodies these are.
    pub instance: u128,
    pub nursery: NurseryProgram,
    /// Bodies belong to this process, and end themselves when it is gone.
    pub ends_with_caller: bool,
    /// The engine's clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

pub struct LinuxProvider {
    pub(crate) grounds: Grounds,
    pub(crate) cgroups: Cgroups,
    pub(crate) ids: IdRanges,
    pub(crate) host: HostImage,
    pub(crate) nursery: Nursery,
    pub(crate) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(crate) ends_with_caller: bool,
    probes: AtomicU64,
    /// Guards that bodies do without.
    #[cfg(feature = "weakened")]
    pub(crate) weaknesses: Vec<pinfold_keeper::weakness::Weakness>,
}

#[derive(Debug, thiserror::Error)]
#[error("could not prepare `{}` for sandboxes", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

const OUTPUT_BYTES: u64 = 10 << 20;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl LinuxProvider {
    pub fn open(config: LinuxConfig) -> Result<Self, OpenError> {
        let LinuxConfig { data, instance, nursery, ends_with_caller, clock } = config;
        let failed = |source| OpenError { path: data.clone(), source };
        let cgroups = Cgroups::detect(&format!("pinfold.{instance:032x}"));
        let grounds = Grounds::prepare(&data).map_err(failed)?;
        Ok(Self {
            ids: IdRanges::new(grounds.ids.clone()),
            cgroups: cgroups.map_err(io::Error::other).map_err(failed)?,
            host: HostImage::find(),
            nursery: Nursery::new(nursery),
            ends_with_caller,
            probes: AtomicU64::new(0),
            #[cfg(feature = "weakened")]
            weaknesses: Vec::new(),
            grounds,
            clock,
        })
    }

    /// Bodies that are started from now on do without these guards.
    #[cfg(feature = "weakened")]
    #[must_use]
    pub fn weakened_by(mut self, weaknesses: &[pinfold_keeper::weakness::Weakness]) -> Self {
        self.weaknesses = weaknesses.to_vec();
        self
    }

    /// The file that holds what an execution wrote. It outlives the body.
    #[must_use]
    pub fn output_of(&self, sandbox: SandboxId, execution: ExecutionId) -> PathBuf {
        self.grounds.logs.join(sandbox.to_string()).join(format!("{execution}.log"))
    }

    fn output_bytes(&self) -> u64 {
        #[cfg(feature = "weakened")]
        if self.weaknesses.contains(&pinfold_keeper::weakness::Weakness::OutputWithoutEnd) {
            return u64::MAX;
        }
        OUTPUT_BYTES
    }

    #[cfg(feature = "weakened")]
    fn leaked_variable(&self) -> Option<(String, String)> {
        self.weaknesses.iter().find_map(|weakness| match weakness {
            pinfold_keeper::weakness::Weakness::LeakedVariable(value) => {
                Some(("LEAKED".to_owned(), value.clone()))
            }
            _ => None,
        })
    }

    async fn probe_exec(&self, body: Body) -> Result<(), String> {
        let number = self.probes.fetch_add(1, Ordering::Relaxed);
        let execution = format!("probe_{}_{number}", std::process::id());
        let exec = wire::Exec {
            execution: execution.clone(),
            argv: vec!["true".into()],
            env: [("PATH".to_owned(), PATH.to_owned())].into(),
            workdir: "/".into(),
            timeout_ms: Some(5_000),
            inactivity_ms: None,
            output_bytes: OUTPUT_BYTES,
        };
        let places = self.grounds.of(body);
        let asked = ask(&places, &Request::Exec(Box::new(exec))).await;
        let log = places.logs.join(format!("{execution}.log"));
        let ended = match asked {
            Ok(Response::Done) => ask(&places, &Request::Wait { execution }).await,
            other => other,
        };
        let _ = std::fs::remove_file(log);
        match ended {
            Ok(Response::Ended(ended)) if ended.code == Some(0) => Ok(()),
            Ok(Response::Refused { why, .. }) => Err(why),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[async_trait]
impl Provider for LinuxProvider {
    fn name(&self) -> &'static str {
        "linux"
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let failed =
            |error: io::Error| DiscoverError::LookFailed { what: "bodies".into(), why: error.to_string() };
        let (bodies, unreadable) = self.marks().map_err(failed)?;
        let mut found = Vec::new();
        for body in bodies {
            found.push(Found { body, whole: self.is_whole(&self.grounds.of(body)).await });
        }
        Ok(Discovered { found, unreadable })
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        self.start_body(start).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.look_at(sandbox).await
    }

    async fn probe(&self, body: Body) -> Probed {
        let places = self.grounds.of(body);
        if !self.is_whole(&places).await {
            return Probed::Failed(ProbeFailure::Control { why: "its keeper does not answer".into() });
        }
        let path = format!("/workspace/.pinfold-probe-{}", self.probes.fetch_add(1, Ordering::Relaxed));
        match ask(&places, &Request::Probe { path }).await {
            Ok(Response::Done) => {}
            Ok(Response::Refused { why, .. }) => return Probed::Failed(ProbeFailure::Files { why }),
            Ok(other) => return Probed::Unknown { why: format!("{other:?}") },
            Err(error) => return Probed::Failed(ProbeFailure::Control { why: error.to_string() }),
        }
        match self.probe_exec(body).await {
            Ok(()) => Probed::Passed,
            Err(why) => Probed::Failed(ProbeFailure::Exec { why }),
        }
    }

    async fn ping(&self, body: Body) -> Probed {
        if self.is_whole(&self.grounds.of(body)).await {
            Probed::Passed
        } else {
            Probed::Failed(ProbeFailure::Control { why: "its keeper does not answer".into() })
        }
    }

    async fn exec(&self, body: Body, exec: Exec<'_>) -> Result<(), ExecError> {
        let mut env = exec.command.env.clone();
        env.entry("PATH".into()).or_insert_with(|| PATH.into());
        env.entry("HOME".into()).or_insert_with(|| "/root".into());
        #[cfg(feature = "weakened")]
        env.extend(self.leaked_variable());
        let request = wire::Exec {
            execution: exec.execution.to_string(),
            argv: exec.command.argv.clone(),
            env,
            workdir: exec.command.workdir.clone().unwrap_or_else(|| "/workspace".into()),
            timeout_ms: exec.limits.timeout_ms,
            inactivity_ms: exec.limits.inactivity_ms,
            output_bytes: self.output_bytes(),
        };
        match ask(&self.grounds.of(body), &Request::Exec(Box::new(request))).await {
            Ok(Response::Done) => Ok(()),
            Ok(Response::Refused { reason: Reason::WasKilled, why }) => {
                Err(ExecError::Refused { cause: Cause::Cancelled, why })
            }
            Ok(Response::Refused { why, .. }) => Err(ExecError::Refused { cause: Cause::StartFailed, why }),
            Ok(other) => Err(ExecError::Unclear { why: format!("{other:?}") }),
            Err(ControlError::NobodyThere(error)) => Err(ExecError::Refused {
                cause: Cause::StartFailed,
                why: format!("there is no such body: {error}"),
            }),
            Err(error @ ControlError::NoAnswer(_)) => Err(ExecError::Unclear { why: error.to_string() }),
        }
    }

    async fn wait(&self, body: Body, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let request = Request::Wait { execution: execution.to_string() };
        match ask_patiently(&self.grounds.of(body), &request).await {
            Ok(Response::Ended(ended)) => Ok(outcome(&ended)),
            Ok(Response::Refused { .. }) => Err(WaitError::NoSuchExecution),
            Ok(other) => Err(WaitError::Unreachable { why: format!("{other:?}") }),
            Err(error) => Err(WaitError::Unreachable { why: error.to_string() }),
        }
    }

    async fn kill(&self, body: Body, execution: ExecutionId) -> Killed {
        let places = self.grounds.of(body);
        let execution = execution.to_string();
        match ask(&places, &Request::Kill { execution: execution.clone() }).await {
            Ok(_) => {}
            Err(error) => return Killed::Unknown { why: error.to_string() },
        }
        match ask(&places, &Request::Wait { execution }).await {
            Ok(Response::Ended(_) | Response::Refused { reason: Reason::NoSuchExecution, .. }) => {
                Killed::Gone
            }
            Ok(other) => Killed::Unknown { why: format!("{other:?}") },
            Err(error) => Killed::Unknown { why: error.to_string() },
        }
    }

    async fn stop(&self, body: Body, grace_ms: u64) -> StopOutcome {
        self.stop_bodies(body, grace_ms).await
    }

    async fn usage(&self, body: Body) -> Result<Usage, AskBodyError> {
        let places = self.grounds.of(body);
        if !self.is_whole(&places).await {
            return Err(AskBodyError::NoSuchBody);
        }
        let unreachable =
            |error: crate::cgroup::OpenError| AskBodyError::Unreachable { why: error.to_string() };
        let used = self.cgroups.open(&places.name).map_err(unreachable)?.usage();
        Ok(Usage {
            cpu_ms: used.cpu_ms.unwrap_or(0),
            memory_bytes: used.memory_bytes.unwrap_or(0),
            memory_peak_bytes: used.memory_peak_bytes.unwrap_or(0),
            processes: used.processes.unwrap_or(0),
            ..Usage::default()
        })
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        Ok(Capacity::default())
    }

    async fn keep_alive(&self, body: Body, ends_at: Timestamp) -> Result<(), AskBodyError> {
        let left_ms = ends_at.ms_since(self.now());
        match ask(&self.grounds.of(body), &Request::KeepAlive { left_ms }).await {
            Ok(Response::Done) => Ok(()),
            Ok(other) => Err(AskBodyError::Unreachable { why: format!("{other:?}") }),
            Err(ControlError::NobodyThere(_)) => Err(AskBodyError::NoSuchBody),
            Err(error) => Err(AskBodyError::Unreachable { why: error.to_string() }),
        }
    }
}
