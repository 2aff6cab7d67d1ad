//! [`LinuxProvider`]: the provider contract implemented with Linux namespaces, cgroups and keepers.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use pinfold_keeper_wire::RootLayer;
use pinfold_keeper_wire::{self as wire, Console, RefusalReason, Request, Response};
use pinfold_lifecycle::{
    Cause, Command, Evidence, ExecutionId, Generation, Outcome, ProbeResult, SandboxId, StopOutcome,
    Timestamp,
};
use pinfold_output_log::LogPosition;
use pinfold_provider::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, Found, Inspect, InstanceError,
    InstanceId, KillOutcome, OutputLogs, Provider, ResizeError, SignalError, StartError, StartRequest,
    StdinError, StdinWrite, Suspect, TerminalSize, Usage, WaitError, WriteResult,
};

use crate::blocking::run_blocking;
use crate::capacity;
use crate::cgroup::{Ability, Cgroups};
use crate::control::{ControlError, query, query_without_timeout, unexpected};
use crate::disk::{StorageKind, StorageOptions};
use crate::durable;
use crate::host_image::Image;
use crate::id_ranges::IdRanges;
use crate::keeper_watch::KeeperWatch;
use crate::kill_batching::KillBatcher;
use crate::launches_in_flight::LaunchesInFlight;
use crate::observe::outcome;
use crate::outputs::OutputDirectory;
use crate::paths::DataPaths;
use crate::processes::any_running;
use crate::single_flight::SingleFlight;
use crate::spawner::{SpawnerPool, SpawnerProgram};
use crate::usage::{USAGE_TIMEOUT, keeper_usage, merge};

/// Configuration of [`LinuxProvider`].
#[derive(Clone)]
pub struct LinuxConfig {
    pub data: PathBuf,
    /// Id of the store that owns the instances. Part of the name of the cgroup base.
    pub store_id: u128,
    pub spawner: SpawnerProgram,
    /// The engine's clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

pub struct LinuxProvider {
    pub(crate) data_paths: DataPaths,
    outputs: Arc<OutputDirectory>,
    pub(crate) cgroups: Cgroups,
    pub(crate) ids: IdRanges,
    pub(crate) host: Image,
    pub(crate) find_layers: Arc<FindLayers>,
    pub(crate) spawners: Arc<SpawnerPool>,
    pub(crate) disk: StorageOptions,
    /// Directory names, read once for concurrent observations.
    pub(crate) directories: SingleFlight<Vec<OsString>>,
    pub(crate) kill_batcher: KillBatcher,
    pub(crate) launches_in_flight: LaunchesInFlight,
    pub(crate) keepers: KeeperWatch,
    pub(crate) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Security guards that are switched off for the attack suite.
    #[cfg(feature = "weakened")]
    pub(crate) disabled_guards: Vec<pinfold_keeper_wire::DisabledGuard>,
}

/// The cgroup base of the store is removed when it is empty.
impl Drop for LinuxProvider {
    fn drop(&mut self) {
        // A base that is still in use is removed by the next discovery that finds no instance.
        let _ = self.cgroups.remove_own_bases();
    }
}

/// Finds the layers of an image by name, uppermost first.
pub type FindLayers = dyn Fn(&str) -> io::Result<Vec<RootLayer>> + Send + Sync;

fn no_other_image(name: &str) -> io::Result<Vec<RootLayer>> {
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
        let LinuxConfig { data, store_id, spawner, clock } = config;
        let failed = |source| OpenError { path: data.clone(), source };
        let cgroups = Cgroups::detect(&format!("pinfold.{store_id:032x}"));
        let data_paths = DataPaths::prepare(&data).map_err(failed)?;
        Ok(Self {
            ids: IdRanges::new(data_paths.ids.clone()),
            cgroups: cgroups.map_err(io::Error::other).map_err(failed)?,
            host: Image::of_host(&data_paths.layers).map_err(failed)?,
            find_layers: Arc::new(no_other_image),
            spawners: Arc::new(SpawnerPool::new(spawner)),
            disk: StorageOptions::detect(),
            directories: SingleFlight::default(),
            kill_batcher: KillBatcher::on_this_host(),
            launches_in_flight: LaunchesInFlight::default(),
            keepers: KeeperWatch::default(),
            #[cfg(feature = "weakened")]
            disabled_guards: Vec::new(),
            outputs: Arc::new(OutputDirectory::new(data_paths.logs.clone())),
            data_paths,
            clock,
        })
    }

    /// Switches off these guards for instances started from now on.
    #[cfg(feature = "weakened")]
    #[must_use]
    pub fn with_disabled_guards(mut self, disabled_guards: &[pinfold_keeper_wire::DisabledGuard]) -> Self {
        self.disabled_guards = disabled_guards.to_vec();
        self
    }

    #[cfg(feature = "weakened")]
    fn leaked_variable(&self) -> Option<(String, String)> {
        self.disabled_guards.iter().find_map(|guard| match guard {
            pinfold_keeper_wire::DisabledGuard::LeakedVariable(value) => {
                Some(("LEAKED".to_owned(), value.clone()))
            }
            _ => None,
        })
    }

    /// Sets the lookup of images other than the host image.
    #[must_use]
    pub fn with_images(mut self, find_layers: Arc<FindLayers>) -> Self {
        self.find_layers = find_layers;
        self
    }

    /// Uses this kind of storage for all instances, whatever their limits are.
    #[must_use]
    pub fn with_storage(mut self, kind: StorageKind) -> Self {
        self.disk.forced = Some(kind);
        self
    }

    /// How this host limits what instances write.
    #[must_use]
    pub fn disk_ability(&self) -> Ability {
        self.disk.ability()
    }

    /// Syncs the output of an execution to disk, before its end is reported.
    pub(crate) async fn sync_output(&self, sandbox: SandboxId, execution: ExecutionId) -> io::Result<()> {
        let directory = self.outputs.of(sandbox);
        run_blocking(move || durable::sync_output(&directory, &execution.to_string())).await
    }

    /// Position after the output that earlier generations kept. Those are gone and write no more.
    async fn output_position(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
    ) -> Result<LogPosition, ExecError> {
        if instance.generation <= Generation(1) {
            return Ok(LogPosition::default());
        }
        let earlier = self.outputs.log_of(instance.sandbox, execution);
        let read = tokio::task::spawn_blocking(move || earlier.next_writer_position()).await;
        let found = read.map_err(io::Error::other).and_then(|found| found);
        found.map_err(|error| ExecError::Refused {
            cause: Cause::ProviderError,
            why: format!("could not read the output of earlier generations: {error}"),
        })
    }
}

#[async_trait]
impl Provider for LinuxProvider {
    fn files(&self) -> &dyn Files {
        self
    }

    fn output(&self) -> Arc<dyn OutputLogs> {
        self.outputs.clone()
    }

    fn inspect(&self) -> &dyn Inspect {
        self
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let failed = |error: io::Error| DiscoverError::ObserveFailed {
            what: "instances".into(),
            why: error.to_string(),
        };
        let (instances, unreadable) = self.discover_instances().map_err(failed)?;
        if instances.is_empty() {
            // Remove bases that a crash left without instances.
            self.cgroups.remove_empty_bases().map_err(io::Error::other).map_err(failed)?;
        }
        let mut found = Vec::new();
        for instance in instances {
            found.push(Found { instance, whole: self.keeper_answers(&self.data_paths.of(instance)).await });
        }
        Ok(Discovered { found, unreadable })
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        self.start_instance(start).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.observe_sandbox(sandbox).await
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        self.probe_instance(&self.data_paths.of(instance)).await
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        self.ping_instance(instance, &self.data_paths.of(instance)).await
    }

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
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
            output: self.output_position(instance, exec.execution).await?,
        };
        match query(&self.data_paths.of(instance), &Request::Exec(Box::new(request))).await {
            Ok(Response::Done) => Ok(()),
            Ok(Response::Refused { reason: RefusalReason::WasKilled, why }) => {
                Err(ExecError::Refused { cause: Cause::Cancelled, why })
            }
            Ok(Response::Refused { why, .. }) => Err(ExecError::Refused { cause: Cause::StartFailed, why }),
            Ok(other) => Err(ExecError::Unclear { why: unexpected(&other) }),
            Err(ControlError::NotListening(error)) => Err(ExecError::Refused {
                cause: Cause::StartFailed,
                why: format!("there is no such instance: {error}"),
            }),
            Err(error @ ControlError::NoAnswer(_)) => Err(ExecError::Unclear { why: error.to_string() }),
        }
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let request = Request::Wait { execution: execution.to_string() };
        match query_without_timeout(&self.data_paths.of(instance), &request).await {
            Ok(Response::Ended(ended)) => {
                let kept = self.sync_output(instance.sandbox, execution).await;
                kept.map_err(|error| WaitError::Unreachable { why: error.to_string() })?;
                Ok(outcome(&ended))
            }
            Ok(Response::Refused { .. }) => Err(WaitError::NoSuchExecution),
            Ok(other) => Err(WaitError::Unreachable { why: unexpected(&other) }),
            Err(error) => Err(WaitError::Unreachable { why: error.to_string() }),
        }
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        let paths = self.data_paths.of(instance);
        let execution = execution.to_string();
        match query(&paths, &Request::Kill { execution: execution.clone() }).await {
            Ok(_) => {}
            Err(error) => return KillOutcome::Unknown { why: error.to_string() },
        }
        match query(&paths, &Request::Wait { execution }).await {
            Ok(Response::Ended(_) | Response::Refused { reason: RefusalReason::NoSuchExecution, .. }) => {
                KillOutcome::Gone
            }
            Ok(other) => KillOutcome::Unknown { why: unexpected(&other) },
            Err(error) => KillOutcome::Unknown { why: error.to_string() },
        }
    }

    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        self.signal_execution(instance, execution, signal).await
    }

    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        write: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        self.write_execution_stdin(instance, execution, write).await
    }

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.resize_execution(instance, execution, size).await
    }

    async fn next_suspect(&self) -> Suspect {
        self.keepers.next_suspect().await
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        self.stop_instances(instance, grace_ms).await
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        let paths = self.data_paths.of(instance);
        if !self.keeper_answers(&paths).await {
            return Err(InstanceError::NoSuchInstance);
        }
        let unreachable =
            |error: &dyn std::fmt::Display| InstanceError::Unreachable { why: error.to_string() };
        let activity = self.activity(&paths).await.map_err(|error| unreachable(&error))?;
        let groups = self.cgroups_of(&paths).map_err(|error| unreachable(&error))?;
        let runs = any_running(&paths, &groups);
        let groups = groups.usage();
        let reported = keeper_usage(&paths, USAGE_TIMEOUT).await;
        let used = merge(&groups, &reported);
        Ok(Usage {
            cpu_ms: used.cpu_ms,
            runs,
            memory_bytes: groups.memory_bytes.or(reported.counted.map(|it| it.memory_bytes)),
            memory_peak_bytes: used.memory_peak_bytes,
            processes: groups.processes.or(reported.counted.map(|it| it.processes)),
            io_read_bytes: used.io_read_bytes,
            io_written_bytes: used.io_written_bytes,
            operations: activity.operations,
            disk_bytes: reported.disk_bytes,
        })
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        Ok(capacity::of(&self.data_paths))
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        let left_ms = ends_at.ms_since(self.now());
        match query(&self.data_paths.of(instance), &Request::KeepAlive { left_ms }).await {
            Ok(Response::Done) => Ok(()),
            Ok(other) => Err(InstanceError::Unreachable { why: unexpected(&other) }),
            Err(ControlError::NotListening(_)) => Err(InstanceError::NoSuchInstance),
            Err(error) => Err(InstanceError::Unreachable { why: error.to_string() }),
        }
    }
}

/// Terminal size if the request names none.
const DEFAULT_TERMINAL_SIZE: wire::TerminalSize = wire::TerminalSize { columns: 80, rows: 24 };

fn console(command: &Command) -> Console {
    match command {
        Command { tty: true, tty_size, .. } => Console::Terminal(
            tty_size.map_or(DEFAULT_TERMINAL_SIZE, |(columns, rows)| wire::TerminalSize { columns, rows }),
        ),
        Command { stdin: true, .. } => Console::Piped,
        Command { tty: false, stdin: false, .. } => Console::NoInput,
    }
}
