//! One real sandbox with everything around it: where it lives, what it must not reach, and the hostile program in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use pinfold_keeper::log::Entry;
use pinfold_keeper::weakness::{UNSEALED, Weakness};
use pinfold_keeper::world::Layer;
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionLimits, Generation, Limits, Outcome, Probed, SandboxId, Spec,
    StopOutcome, Timestamp,
};
use pinfold_linux::{LinuxConfig, LinuxProvider, NurseryProgram};
use pinfold_provider::{Exec, ExecError, Files, InstanceId, Provider, Start, StartPermit, Whole};

use crate::entry::Verdict;
use crate::outside::Outside;
use crate::somebody::program;

pub(crate) const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");
const NURSERY: &str = env!("CARGO_BIN_EXE_weakened-nursery");
pub(crate) const PROGRAMS: [&str; 2] = [HOSTILE, NURSERY];
pub(crate) const INSIDE: &str = "/tmp/hostile";
/// The exit codes of the hostile program.
const HELD: i32 = 41;
const PATIENCE: Duration = Duration::from_secs(12);
/// Longer than the whole suite takes.
const LIFE_MS: u64 = 900_000;
const CANARY: &str = "of the host";

pub(crate) struct Stage {
    pub(crate) provider: LinuxProvider,
    pub(crate) body: InstanceId,
    pub(crate) outside: Arc<Outside>,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) instance: u128,
    pub(crate) weaknesses: Vec<Weakness>,
    last_execution: AtomicU64,
}

struct Granted;

#[async_trait]
impl StartPermit for Granted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

#[expect(clippy::disallowed_methods, reason = "real sandboxes take real time")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// What every sandbox of this suite is held to, so that nothing it does can harm the machine.
pub(crate) fn standard_limits() -> Limits {
    Limits {
        memory_mb: Some(64),
        processes: Some(64),
        disk_mb: Some(32),
        inodes: Some(4_000),
        ..Limits::default()
    }
}

impl Stage {
    /// A place without a sandbox yet.
    pub(crate) fn prepare(outside: &Arc<Outside>) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = directory.path();
        let furnish = || -> std::io::Result<()> {
            // Open to everybody: nothing but the sandbox's own walls is in the way.
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
            fs::create_dir(path.join("canary"))?;
            fs::set_permissions(path.join("canary"), fs::Permissions::from_mode(0o777))?;
            fs::write(path.join("canary/canary"), CANARY)?;
            fs::set_permissions(path.join("canary/canary"), fs::Permissions::from_mode(0o666))
        };
        furnish().map_err(|error| error.to_string())?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let instance = name.bytes().fold(0, |sum: u128, byte| (sum << 8) | u128::from(byte));
        let body = InstanceId { sandbox: SandboxId(instance & 0xffff_ffff), generation: Generation(1) };
        let provider = open(&path.join("data"), instance, &[])?;
        let outside = outside.clone();
        Ok(Self {
            provider,
            body,
            outside,
            directory,
            instance,
            weaknesses: Vec::new(),
            last_execution: AtomicU64::new(0),
        })
    }

    /// A sandbox with the hostile program in it.
    pub(crate) async fn raise(
        outside: &Arc<Outside>,
        weaknesses: impl FnOnce(&Self) -> Vec<Weakness>,
        limits: Limits,
    ) -> Result<Self, String> {
        let mut stage = Self::prepare(outside)?;
        stage.weaknesses = weaknesses(&stage);
        stage.provider = open(&stage.data(), stage.instance, &stage.weaknesses)?;
        let raised = match stage.start(limits, LIFE_MS).await {
            Ok(()) => stage.bring(HOSTILE, INSIDE).await,
            Err(why) => Err(why),
        };
        stage.or_nothing(raised).await
    }

    /// What did not come about leaves nothing behind.
    async fn or_nothing(self, raised: Result<(), String>) -> Result<Self, String> {
        match raised {
            Ok(()) => Ok(self),
            Err(why) => {
                self.end().await?;
                Err(why)
            }
        }
    }

    /// A sandbox of an image that is a directory of the host. The hostile program comes with it.
    pub(crate) async fn raise_on(outside: &Arc<Outside>, root: &Path) -> Result<Self, String> {
        let mut stage = Self::prepare(outside)?;
        let layer = Layer { path: root.to_owned(), first_id: Some(0) };
        let images = Arc::new(move |_: &str| Ok(vec![layer.clone()]));
        stage.provider = open(&stage.data(), stage.instance, &[])?.with_images(images);
        let spec = Spec { limits: standard_limits(), image: Some("hostile".into()), ..Spec::default() };
        let raised = stage.start_as(&spec, LIFE_MS).await;
        stage.or_nothing(raised).await
    }

    pub(crate) async fn start(&self, limits: Limits, life_ms: u64) -> Result<(), String> {
        self.start_as(&Spec { limits, ..Spec::default() }, life_ms).await
    }

    async fn start_as(&self, spec: &Spec, life_ms: u64) -> Result<(), String> {
        let ends_at = now().after_ms(life_ms);
        // Whatever happens to this program, no sandbox outlives it.
        let start = Start { body: self.body, spec, ends_at, permit: &Granted, ends_with_caller: true };
        self.provider.start(start).await.map_err(|error| error.to_string())
    }

    /// Another control plane of the same sandboxes.
    pub(crate) fn second_provider(&self) -> Result<LinuxProvider, String> {
        open(&self.data(), self.instance, &[])
    }

    /// Puts a program into the sandbox, as any caller would.
    async fn bring(&self, built: &str, inside: &str) -> Result<(), String> {
        let mut content = Whole::new(fs::read(program(built)).map_err(|error| error.to_string())?);
        let written = self.provider.write(self.body, inside.as_bytes(), Some(0o755), &mut content).await;
        written.map(|_| ()).map_err(|error| format!("{inside}: {error}"))
    }

    pub(crate) fn inside(&self, path: &str) -> Result<PathBuf, String> {
        Ok(PathBuf::from(format!("/proc/{}/root{path}", self.keeper()?.0)))
    }

    /// Process 1 of the sandbox as it is seen outside, and when it began.
    pub(crate) fn keeper(&self) -> Result<(i32, u64), String> {
        let noted = fs::read_to_string(self.control().join("process")).map_err(|error| error.to_string())?;
        let parsed = noted.split_once(' ').and_then(|(pid, at)| Some((pid.parse().ok()?, at.parse().ok()?)));
        parsed.ok_or_else(|| format!("`{noted}` is no process"))
    }

    pub(crate) fn secret(&self) -> String {
        fs::read_to_string(self.control().join("secret")).unwrap_or_default()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn name(&self) -> String {
        format!("v1.{}.{}", self.body.sandbox, self.body.generation.0)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.data().join("control").join(self.name())
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.data().join("logs").join(self.body.sandbox.to_string())
    }

    pub(crate) fn canary(&self) -> PathBuf {
        self.directory.path().join("canary")
    }

    pub(crate) fn canary_is_well(&self) -> bool {
        let only = fs::read_dir(self.canary()).is_ok_and(|entries| entries.count() == 1);
        only && fs::read_to_string(self.canary().join("canary")).is_ok_and(|text| text == CANARY)
    }

    fn filled_in(&self, word: &str) -> String {
        let canary = self.canary().display().to_string();
        word.replace("{canary}", &format!("{canary}/canary"))
            .replace("{outside}", &canary)
            .replace("{hostile}", INSIDE)
            .replace("{tcp}", &self.outside.tcp.to_string())
            .replace("{tcp6}", &self.outside.tcp6.to_string())
            .replace("{udp}", &self.outside.udp.to_string())
    }

    pub(crate) fn hostile(&self, arguments: &[&str]) -> Command {
        let argv = [INSIDE].iter().chain(arguments).map(|word| self.filled_in(word)).collect();
        let env = BTreeMap::from([
            ("CANARY".to_owned(), self.filled_in("{canary}")),
            ("TCP_PORT".to_owned(), self.outside.tcp.to_string()),
            ("ABSTRACT".to_owned(), self.outside.name.clone()),
            ("SHARED_MEMORY".to_owned(), self.outside.segment_key.to_string()),
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
        self.provider.exec(self.body, Exec { execution, command, limits }).await?;
        Ok(execution)
    }

    /// None: nobody said in time how it ended.
    pub(crate) async fn end_of(&self, execution: ExecutionId) -> Option<Outcome> {
        tokio::time::timeout(PATIENCE, self.provider.wait(self.body, execution)).await.ok()?.ok()
    }

    pub(crate) fn output_of(&self, execution: ExecutionId) -> String {
        String::from_utf8_lossy(&self.bytes_of(execution)).into_owned()
    }

    pub(crate) fn bytes_of(&self, execution: ExecutionId) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut reader = self.provider.output_of(self.body.sandbox, execution);
        while let Ok(Some(entry)) = reader.next() {
            match entry {
                Entry::Piece(piece) => bytes.extend(piece.bytes),
                Entry::Gap(_) => {}
            }
        }
        bytes
    }

    /// Runs one attempt to its end and believes what it says.
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
            // The kernel ends who takes too much, and it may take the first for the last.
            Some(137) if outcome.cause == Cause::OutputLimit => {
                Ok(Verdict::Through("what it wrote could not be kept".into()))
            }
            Some(137) if outcome.cause == Cause::TimeLimit => Err(format!("it took too long: {said}")),
            Some(137) => Ok(Verdict::Held(format!("ended by the kernel: {said}"))),
            Some(126 | 127) => Ok(Verdict::Held(format!("not started: {said}"))),
            code => Err(format!("ended with {code:?} ({:?}): {said}", outcome.cause)),
        }
    }

    /// A plain command that must succeed.
    pub(crate) async fn still_works(&self) -> bool {
        let argv = vec!["true".to_owned()];
        let command = Command { argv, workdir: Some("/".into()), ..Command::default() };
        match self.begin(&command, Some(5_000)).await {
            Ok(execution) => self.end_of(execution).await.is_some_and(|outcome| outcome.exit_code == Some(0)),
            Err(_) => false,
        }
    }

    pub(crate) async fn answers(&self) -> bool {
        self.provider.ping(self.body).await == Probed::Passed
    }

    /// Ends the sandbox, and says what is left or why that is not known.
    pub(crate) async fn end(&self) -> Result<(), String> {
        match self.provider.stop(self.body, 0).await {
            StopOutcome::Gone(_) => Ok(()),
            StopOutcome::StillPresent { what } => Err(format!("still present: {what}")),
            StopOutcome::Unknown { why } => Err(format!("not known to be gone: {why}")),
        }
    }
}

/// The file that keepers run, unless they run a copy of it.
pub(crate) fn runtime() -> PathBuf {
    program(NURSERY)
}

fn open(data: &Path, instance: u128, weaknesses: &[Weakness]) -> Result<LinuxProvider, String> {
    let unsealed = weaknesses.contains(&Weakness::RuntimeUnsealed).then(|| UNSEALED.into());
    let config = LinuxConfig {
        data: data.to_owned(),
        instance,
        nursery: NurseryProgram { program: runtime(), arguments: unsealed.into_iter().collect() },
        clock: Arc::new(now),
    };
    let opened = LinuxProvider::open(config).map(|provider| provider.weakened_by(weaknesses));
    opened.map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))
}
