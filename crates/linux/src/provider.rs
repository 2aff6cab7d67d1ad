//! The Linux side of the provider contract.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use pinfold_keeper::log::{Onset, Reader};
use pinfold_keeper::wire::{self, Console, Reason, Request, Response};
use pinfold_keeper::world::Layer;
use pinfold_lifecycle::{
    Cause, Command, Evidence, ExecutionId, Generation, Outcome, Probed, SandboxId, StopOutcome, Timestamp,
};
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, Found,
    InstanceId, Killed, Provider, ResizeError, SignalError, Start, StartError, TerminalSize, Usage,
    WaitError,
};

use crate::aside::aside;
use crate::capacity;
use crate::cgroup::{Ability, Cgroups};
use crate::control::{ControlError, ask, ask_patiently};
use crate::disk::{DiskChoice, StorageKind};
use crate::durable;
use crate::host_image::Image;
use crate::id_ranges::IdRanges;
use crate::inside::any_runs;
use crate::look::outcome;
use crate::nursery::{Nurseries, NurseryProgram};
use crate::places::Grounds;
use crate::rush::Rush;
use crate::shared_look::SharedLook;
use crate::under_way::UnderWay;
use crate::used::{AT_ONCE, best_of, told_by_keeper};

/// Where bodies live on this host, and how keepers are born.
#[derive(Clone)]
pub struct LinuxConfig {
    pub data: PathBuf,
    /// The id of the store whose bodies these are.
    pub instance: u128,
    pub nursery: NurseryProgram,
    /// The engine's clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

pub struct LinuxProvider {
    pub(crate) grounds: Grounds,
    pub(crate) cgroups: Cgroups,
    pub(crate) ids: IdRanges,
    pub(crate) host: Image,
    pub(crate) find_layers: Arc<FindLayers>,
    pub(crate) nurseries: Arc<Nurseries>,
    pub(crate) disk: DiskChoice,
    /// The names of bodies' directories.
    pub(crate) directories: SharedLook<Vec<OsString>>,
    pub(crate) rush: Rush,
    pub(crate) under_way: UnderWay,
    pub(crate) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Guards that bodies do without.
    #[cfg(feature = "weakened")]
    pub(crate) weaknesses: Vec<pinfold_keeper::weakness::Weakness>,
}

/// A store's own base in the groups stays as long as anybody may use it again.
impl Drop for LinuxProvider {
    fn drop(&mut self) {
        // What is left is taken away when somebody looks for bodies and finds none.
        let _ = self.cgroups.remove_home_bases();
    }
}

/// The layers of an image by its name, the uppermost first.
pub type FindLayers = dyn Fn(&str) -> io::Result<Vec<Layer>> + Send + Sync;

fn no_other_image(name: &str) -> io::Result<Vec<Layer>> {
    Err(io::Error::new(io::ErrorKind::NotFound, format!("image `{name}` is not on this host")))
}

#[derive(Debug, thiserror::Error)]
#[error("could not prepare `{}` for sandboxes", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl LinuxProvider {
    pub fn open(config: LinuxConfig) -> Result<Self, OpenError> {
        let LinuxConfig { data, instance, nursery, clock } = config;
        let failed = |source| OpenError { path: data.clone(), source };
        let cgroups = Cgroups::detect(&format!("pinfold.{instance:032x}"));
        let grounds = Grounds::prepare(&data).map_err(failed)?;
        Ok(Self {
            ids: IdRanges::new(grounds.ids.clone()),
            cgroups: cgroups.map_err(io::Error::other).map_err(failed)?,
            host: Image::of_host(&grounds.layers).map_err(failed)?,
            find_layers: Arc::new(no_other_image),
            nurseries: Arc::new(Nurseries::new(nursery)),
            disk: DiskChoice::find(),
            directories: SharedLook::default(),
            rush: Rush::on_this_host(),
            under_way: UnderWay::default(),
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

    #[cfg(feature = "weakened")]
    fn leaked_variable(&self) -> Option<(String, String)> {
        self.weaknesses.iter().find_map(|weakness| match weakness {
            pinfold_keeper::weakness::Weakness::LeakedVariable(value) => {
                Some(("LEAKED".to_owned(), value.clone()))
            }
            _ => None,
        })
    }

    /// Where images other than the host itself are looked up.
    #[must_use]
    pub fn with_images(mut self, find_layers: Arc<FindLayers>) -> Self {
        self.find_layers = find_layers;
        self
    }

    /// All bodies live in this kind of storage, whatever their limits are.
    #[must_use]
    pub fn with_storage(mut self, kind: StorageKind) -> Self {
        self.disk.forced = Some(kind);
        self
    }

    /// How what bodies write is limited on this host.
    #[must_use]
    pub fn disk_ability(&self) -> Ability {
        self.disk.ability()
    }

    /// Where what executions write is kept: a directory for each sandbox.
    #[must_use]
    pub fn outputs(&self) -> &Path {
        &self.grounds.logs
    }

    /// What an execution wrote, from the oldest that is kept. It outlives the body.
    #[must_use]
    pub fn output_of(&self, sandbox: SandboxId, execution: ExecutionId) -> Reader {
        Reader::new(self.grounds.logs.join(sandbox.to_string()), &execution.to_string())
    }

    /// On the disk, for whoever is told of its end.
    pub(crate) async fn keep_output(&self, sandbox: SandboxId, execution: ExecutionId) -> io::Result<()> {
        let directory = self.grounds.logs.join(sandbox.to_string());
        aside(move || durable::keep(&directory, &execution.to_string())).await
    }

    /// After what bodies before this one have kept of the execution's output. They are gone, and write no more.
    async fn onset_of_output(&self, body: InstanceId, execution: ExecutionId) -> Result<Onset, ExecError> {
        if body.generation <= Generation(1) {
            return Ok(Onset::default());
        }
        let earlier = self.output_of(body.sandbox, execution);
        let read = tokio::task::spawn_blocking(move || earlier.onset_of_the_next()).await;
        let found = read.map_err(io::Error::other).and_then(|found| found);
        found.map_err(|error| ExecError::Refused {
            cause: Cause::ProviderError,
            why: format!("what earlier tries wrote cannot be read: {error}"),
        })
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
        if bodies.is_empty() {
            // What a crash has left between the last body and its base.
            self.cgroups.remove_empty_bases().map_err(io::Error::other).map_err(failed)?;
        }
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

    async fn probe(&self, body: InstanceId) -> Probed {
        self.probe_body(&self.grounds.of(body)).await
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        self.ping_body(&self.grounds.of(body)).await
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
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
            console: console(exec.command),
            output: self.onset_of_output(body, exec.execution).await?,
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

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let request = Request::Wait { execution: execution.to_string() };
        match ask_patiently(&self.grounds.of(body), &request).await {
            Ok(Response::Ended(ended)) => {
                let kept = self.keep_output(body.sandbox, execution).await;
                kept.map_err(|error| WaitError::Unreachable { why: error.to_string() })?;
                Ok(outcome(&ended))
            }
            Ok(Response::Refused { .. }) => Err(WaitError::NoSuchExecution),
            Ok(other) => Err(WaitError::Unreachable { why: format!("{other:?}") }),
            Err(error) => Err(WaitError::Unreachable { why: error.to_string() }),
        }
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
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

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        self.signal_execution(body, execution, signal).await
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        self.feed_execution(body, execution, feed).await
    }

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.resize_execution(body, execution, size).await
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        self.stop_bodies(body, grace_ms).await
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        let places = self.grounds.of(body);
        if !self.is_whole(&places).await {
            return Err(AskBodyError::NoSuchBody);
        }
        let unreachable =
            |error: &dyn std::fmt::Display| AskBodyError::Unreachable { why: error.to_string() };
        let activity = self.activity(&places).await.map_err(|error| unreachable(&error))?;
        let groups = self.groups_of(&places).map_err(|error| unreachable(&error))?;
        let runs = any_runs(&places, &groups);
        let groups = groups.usage();
        let told = told_by_keeper(&places, AT_ONCE).await;
        let used = best_of(&groups, &told);
        Ok(Usage {
            cpu_ms: used.cpu_ms,
            runs,
            memory_bytes: groups.memory_bytes.or(told.counted.map(|it| it.memory_bytes)),
            memory_peak_bytes: used.memory_peak_bytes,
            processes: groups.processes.or(told.counted.map(|it| it.processes)),
            io_read_bytes: used.io_read_bytes,
            io_written_bytes: used.io_written_bytes,
            operations: activity.operations,
            disk_bytes: told.disk_bytes,
        })
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        Ok(capacity::of(&self.grounds, &self.ids))
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        let left_ms = ends_at.ms_since(self.now());
        match ask(&self.grounds.of(body), &Request::KeepAlive { left_ms }).await {
            Ok(Response::Done) => Ok(()),
            Ok(other) => Err(AskBodyError::Unreachable { why: format!("{other:?}") }),
            Err(ControlError::NobodyThere(_)) => Err(AskBodyError::NoSuchBody),
            Err(error) => Err(AskBodyError::Unreachable { why: error.to_string() }),
        }
    }
}

/// What every terminal once had, until somebody says otherwise.
const USUAL_SIZE: wire::TerminalSize = wire::TerminalSize { columns: 80, rows: 24 };

fn console(command: &Command) -> Console {
    match command {
        Command { tty: true, tty_size, .. } => Console::Terminal(
            tty_size.map_or(USUAL_SIZE, |(columns, rows)| wire::TerminalSize { columns, rows }),
        ),
        Command { stdin: true, .. } => Console::Piped,
        Command { tty: false, stdin: false, .. } => Console::Quiet,
    }
}
