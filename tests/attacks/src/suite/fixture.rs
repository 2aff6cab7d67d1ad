//! One real sandbox with its data directory, the targets that it must not reach, and the hostile program in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pinfold_keeper_wire::RootLayer;
use pinfold_keeper_wire::{DisabledGuard, UNSEALED};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionLimits, Generation, Limits, Outcome, ProbeResult, SandboxId, Spec,
    StopOutcome,
};
use pinfold_linux::{LinuxProvider, SpawnerProgram};
use pinfold_provider::{
    ExecError, ExecRequest, Files, InMemoryContent, InstanceId, OutputEntry, Provider, ReadPosition,
    StartRequest,
};
use pinfold_test_support::linux::{self, AlwaysWanted, KeeperProcess, now};

use crate::entry::Verdict;
use crate::host_targets::HostTargets;
use crate::unprivileged_user::program;

pub(crate) const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");
const SPAWNER: &str = env!("CARGO_BIN_EXE_weakened-spawner");
pub(crate) const PROGRAMS: [&str; 2] = [HOSTILE, SPAWNER];
pub(crate) const INSIDE: &str = "/tmp/hostile";
/// The exit codes of the hostile program.
const HELD: i32 = 41;
const EXECUTION_TIMEOUT: Duration = Duration::from_secs(12);
/// Longer than the whole suite takes.
const LIFE_MS: u64 = 900_000;
const CANARY: &str = "of the host";

pub(crate) struct Fixture {
    pub(crate) provider: LinuxProvider,
    pub(crate) instance: InstanceId,
    pub(crate) targets: Arc<HostTargets>,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) store_id: u128,
    pub(crate) disabled_guards: Vec<DisabledGuard>,
    last_execution: AtomicU64,
}

/// Limits of every sandbox in this suite, so that nothing it does can harm the machine.
pub(crate) fn standard_limits() -> Limits {
    Limits {
        memory_mb: Some(64),
        processes: Some(64),
        disk_mb: Some(32),
        inodes: Some(4_000),
        ..Limits::default()
    }
}

impl Fixture {
    /// A data directory without a sandbox yet.
    pub(crate) fn prepare(targets: &Arc<HostTargets>) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = directory.path();
        let add_files = || -> std::io::Result<()> {
            // World-accessible: only the sandbox's own isolation protects it.
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
            fs::create_dir(path.join("canary"))?;
            fs::set_permissions(path.join("canary"), fs::Permissions::from_mode(0o777))?;
            fs::write(path.join("canary/canary"), CANARY)?;
            fs::set_permissions(path.join("canary/canary"), fs::Permissions::from_mode(0o666))
        };
        add_files().map_err(|error| error.to_string())?;
        let store_id = linux::store_id_of(path);
        let id = InstanceId { sandbox: SandboxId(store_id & 0xffff_ffff), generation: Generation(1) };
        let provider = open(&path.join("data"), store_id, &[])?;
        let targets = targets.clone();
        Ok(Self {
            provider,
            instance: id,
            targets,
            directory,
            store_id,
            disabled_guards: Vec::new(),
            last_execution: AtomicU64::new(0),
        })
    }

    /// A sandbox with the hostile program in it.
    pub(crate) async fn start_with_hostile(
        targets: &Arc<HostTargets>,
        disabled_guards: impl FnOnce(&Self) -> Vec<DisabledGuard>,
        limits: Limits,
    ) -> Result<Self, String> {
        let mut fixture = Self::prepare(targets)?;
        fixture.disabled_guards = disabled_guards(&fixture);
        fixture.provider = open(&fixture.data(), fixture.store_id, &fixture.disabled_guards)?;
        let raised = match fixture.start(limits, LIFE_MS).await {
            Ok(()) => fixture.install(HOSTILE, INSIDE).await,
            Err(why) => Err(why),
        };
        fixture.or_clean_up(raised).await
    }

    /// Removes everything if the start failed.
    async fn or_clean_up(self, raised: Result<(), String>) -> Result<Self, String> {
        match raised {
            Ok(()) => Ok(self),
            Err(why) => {
                self.end().await?;
                Err(why)
            }
        }
    }

    /// A sandbox on an image that is a directory of the host. It contains the hostile program.
    pub(crate) async fn start_on_image(targets: &Arc<HostTargets>, root: &Path) -> Result<Self, String> {
        let mut fixture = Self::prepare(targets)?;
        let layer = RootLayer { path: root.to_owned(), first_id: Some(0) };
        let images = Arc::new(move |_: &str| Ok(vec![layer.clone()]));
        fixture.provider = open(&fixture.data(), fixture.store_id, &[])?.with_images(images);
        let spec = Spec { limits: standard_limits(), image: Some("hostile".into()), ..Spec::default() };
        let raised = fixture.start_as(&spec, LIFE_MS).await;
        fixture.or_clean_up(raised).await
    }

    pub(crate) async fn start(&self, limits: Limits, life_ms: u64) -> Result<(), String> {
        self.start_as(&Spec { limits, ..Spec::default() }, life_ms).await
    }

    async fn start_as(&self, spec: &Spec, life_ms: u64) -> Result<(), String> {
        let ends_at = now().after_ms(life_ms);
        // No sandbox outlives this program.
        let start = StartRequest {
            instance: self.instance,
            spec,
            ends_at,
            permit: &AlwaysWanted,
            ends_with_caller: true,
        };
        self.provider.start(start).await.map_err(|error| error.to_string())
    }

    /// A second provider for the same sandboxes.
    pub(crate) fn second_provider(&self) -> Result<LinuxProvider, String> {
        open(&self.data(), self.store_id, &[])
    }

    /// Copies a program into the sandbox, as any client would.
    async fn install(&self, built: &str, inside: &str) -> Result<(), String> {
        let mut content = InMemoryContent::new(fs::read(program(built)).map_err(|error| error.to_string())?);
        let written = self.provider.write(self.instance, inside.as_bytes(), Some(0o755), &mut content).await;
        written.map(|_| ()).map_err(|error| format!("{inside}: {error}"))
    }

    pub(crate) fn inside(&self, path: &str) -> Result<PathBuf, String> {
        Ok(PathBuf::from(format!("/proc/{}/root{path}", self.keeper()?.0)))
    }

    /// The host pid of process 1, and its start time.
    pub(crate) fn keeper(&self) -> Result<(i32, u64), String> {
        let keeper = KeeperProcess::read_in(&self.control()).map_err(|error| error.to_string())?;
        Ok((keeper.pid, keeper.start_ticks))
    }

    pub(crate) fn secret(&self) -> String {
        fs::read_to_string(self.control().join("secret")).unwrap_or_default()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn name(&self) -> String {
        format!("v1.{}.{}", self.instance.sandbox, self.instance.generation.0)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.data().join("control").join(self.name())
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.data().join("logs").join(self.instance.sandbox.to_string())
    }

    pub(crate) fn canary(&self) -> PathBuf {
        self.directory.path().join("canary")
    }

    pub(crate) fn canary_is_intact(&self) -> bool {
        let only = fs::read_dir(self.canary()).is_ok_and(|entries| entries.count() == 1);
        only && fs::read_to_string(self.canary().join("canary")).is_ok_and(|text| text == CANARY)
    }

    fn expand(&self, word: &str) -> String {
        let canary = self.canary().display().to_string();
        word.replace("{canary}", &format!("{canary}/canary"))
            .replace("{outside}", &canary)
            .replace("{hostile}", INSIDE)
            .replace("{tcp}", &self.targets.tcp.to_string())
            .replace("{tcp6}", &self.targets.tcp6.to_string())
            .replace("{udp}", &self.targets.udp.to_string())
    }

    pub(crate) fn hostile(&self, arguments: &[&str]) -> Command {
        let argv = [INSIDE].iter().chain(arguments).map(|word| self.expand(word)).collect();
        let env = BTreeMap::from([
            ("CANARY".to_owned(), self.expand("{canary}")),
            ("TCP_PORT".to_owned(), self.targets.tcp.to_string()),
            ("ABSTRACT".to_owned(), self.targets.name.clone()),
            ("SHARED_MEMORY".to_owned(), self.targets.segment_key.to_string()),
            ("HUNTED".to_owned(), self.secret().chars().rev().collect()),
        ]);
        Command { argv, env, workdir: Some("/".into()), ..Command::default() }
    }

    fn fresh_execution(&self) -> ExecutionId {
        ExecutionId(u128::from(self.last_execution.fetch_add(1, Ordering::Relaxed) + 1))
    }

    pub(crate) async fn begin(
        &self,
        command: &Command,
        timeout_ms: Option<u64>,
    ) -> Result<ExecutionId, ExecError> {
        let limits = ExecutionLimits { timeout_ms, inactivity_ms: None };
        self.begin_within(command, limits).await
    }

    pub(crate) async fn begin_within(
        &self,
        command: &Command,
        limits: ExecutionLimits,
    ) -> Result<ExecutionId, ExecError> {
        let execution = self.fresh_execution();
        self.provider.exec(self.instance, ExecRequest { execution, command, limits }).await?;
        Ok(execution)
    }

    /// None: there was no outcome in time.
    pub(crate) async fn end_of(&self, execution: ExecutionId) -> Option<Outcome> {
        tokio::time::timeout(EXECUTION_TIMEOUT, self.provider.wait(self.instance, execution)).await.ok()?.ok()
    }

    pub(crate) fn output_of(&self, execution: ExecutionId) -> String {
        String::from_utf8_lossy(&self.bytes_of(execution)).into_owned()
    }

    pub(crate) fn bytes_of(&self, execution: ExecutionId) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut reader =
            self.provider.output().reader(self.instance.sandbox, execution, ReadPosition::default());
        while let Ok(Some(entry)) = reader.next() {
            match entry {
                OutputEntry::Chunk(piece) => bytes.extend(piece.bytes),
                OutputEntry::Gap(_) => {}
            }
        }
        bytes
    }

    /// Runs one attempt to its end and takes its exit code as the verdict.
    pub(crate) async fn attempt(&self, arguments: &[&str]) -> Result<Verdict, String> {
        self.attempt_in(arguments, "/").await
    }

    pub(crate) async fn attempt_in(&self, arguments: &[&str], workdir: &str) -> Result<Verdict, String> {
        let command = Command { workdir: Some(workdir.to_owned()), ..self.hostile(arguments) };
        let execution = match self.begin(&command, Some(10_000)).await {
            Ok(execution) => execution,
            Err(ExecError::Refused { why, .. }) => return Ok(Verdict::Held(format!("not started: {why}"))),
            Err(ExecError::Unclear { why }) => {
                return Ok(Verdict::Through(format!("the keeper did not answer: {why}")));
            }
        };
        let Some(outcome) = self.end_of(execution).await else {
            return Ok(Verdict::Through("the keeper did not say how it ended".into()));
        };
        let said = self.output_of(execution).trim().to_owned();
        match outcome.exit_code {
            Some(0) => Ok(Verdict::Through(said)),
            Some(HELD) => Ok(Verdict::Held(said)),
            // The OOM killer may choose another process than the last one to allocate.
            Some(137) if outcome.cause == Cause::OutputLimit => {
                Ok(Verdict::Through("what it wrote could not be kept".into()))
            }
            Some(137) if outcome.cause == Cause::TimeLimit => Err(format!("it took too long: {said}")),
            Some(137) => Ok(Verdict::Held(format!("ended by the kernel: {said}"))),
            Some(126 | 127) => Ok(Verdict::Held(format!("not started: {said}"))),
            code => Err(format!("ended with {code:?} ({:?}): {said}", outcome.cause)),
        }
    }

    /// Whether a plain command succeeds.
    pub(crate) async fn still_works(&self) -> bool {
        let argv = vec!["true".to_owned()];
        let command = Command { argv, workdir: Some("/".into()), ..Command::default() };
        match self.begin(&command, Some(5_000)).await {
            Ok(execution) => self.end_of(execution).await.is_some_and(|outcome| outcome.exit_code == Some(0)),
            Err(_) => false,
        }
    }

    pub(crate) async fn answers(&self) -> bool {
        self.provider.ping(self.instance).await == ProbeResult::Passed
    }

    /// Stops the sandbox. Fails with what is left, or with why that is unknown.
    pub(crate) async fn end(&self) -> Result<(), String> {
        match self.provider.stop(self.instance, 0).await {
            StopOutcome::Gone(_) => Ok(()),
            StopOutcome::StillPresent { what } => Err(format!("still present: {what}")),
            StopOutcome::Unknown { why } => Err(format!("not known to be gone: {why}")),
        }
    }
}

/// The keepers' executable, unless they run a copy of it.
pub(crate) fn runtime() -> PathBuf {
    program(SPAWNER)
}

fn open(data: &Path, store_id: u128, disabled_guards: &[DisabledGuard]) -> Result<LinuxProvider, String> {
    let unsealed = disabled_guards.contains(&DisabledGuard::RuntimeUnsealed).then(|| UNSEALED.into());
    let spawner = SpawnerProgram { program: runtime(), arguments: unsealed.into_iter().collect() };
    let config = linux::config(data, store_id, spawner);
    let opened = LinuxProvider::open(config).map(|provider| provider.with_disabled_guards(disabled_guards));
    opened.map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))
}
