//! Real sandboxes for storage tests, all stopped when the fixture is dropped.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use pinfold_lifecycle::{
    Command, ExecutionId, ExecutionLimits, Finding, Generation, Limits, Outcome, Receipt, SandboxId, Spec,
    StopOutcome, Timestamp,
};
use pinfold_linux::{LinuxConfig, LinuxProvider, SpawnerProgram, StorageKind};
use pinfold_provider::{
    Discovered, ExecRequest, InstanceId, Provider, StartError, StartPermit, StartRequest,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub(crate) struct Fixture {
    pub(crate) data: tempfile::TempDir,
    pub(crate) provider: Arc<LinuxProvider>,
    store_id: u128,
    last_id: AtomicU64,
    made: Mutex<Vec<InstanceId>>,
}

struct AlwaysWanted;

#[async_trait]
impl StartPermit for AlwaysWanted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Adds a line to the list of skipped tests.
pub(crate) fn skip(test: &str, why: &str) {
    let Some(list) = std::env::var_os("PINFOLD_SKIPPED_TESTS") else { return };
    let mut list = OpenOptions::new().create(true).append(true).open(list).unwrap();
    writeln!(list, "{test}: {why}").unwrap();
}

/// Kinds of storage that enforce a limit on this host, as this user.
pub(crate) fn limited_kinds() -> Vec<StorageKind> {
    let mut kinds = vec![StorageKind::Memory];
    kinds.extend(is_root().then_some(StorageKind::Image));
    kinds
}

/// Before Linux 6.6 an overlay on tmpfs cannot recreate a directory that it removed from a layer.
pub(crate) fn tmpfs_has_user_xattrs() -> bool {
    let file = rustix::fs::memfd_create("xattrs", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::fsetxattr(&file, "user.test", b"y", rustix::fs::XattrFlags::empty()).is_ok()
}

pub(crate) fn spawner() -> SpawnerProgram {
    SpawnerProgram { program: env!("CARGO_BIN_EXE_pinfold-spawner").into(), arguments: Vec::new() }
}

#[expect(clippy::disallowed_methods, reason = "a test of real sandboxes takes real time")]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap())
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_spawner(spawner())
    }

    pub(crate) fn with(kind: StorageKind) -> Self {
        let mut fixture = Self::new();
        fixture.provider = Arc::new(fixture.another_provider(spawner()).with_storage(kind));
        fixture
    }

    pub(crate) fn with_spawner(spawner: SpawnerProgram) -> Self {
        let data = tempfile::tempdir().unwrap();
        let name = data.path().file_name().unwrap().to_string_lossy().into_owned();
        let store_id = name.bytes().fold(0, |sum: u128, byte| (sum << 8) | u128::from(byte));
        let provider = Arc::new(open(data.path(), store_id, spawner));
        Self { data, provider, store_id, last_id: AtomicU64::new(0), made: Mutex::default() }
    }

    /// A provider as another process on the same data would have it.
    pub(crate) fn another_provider(&self, spawner: SpawnerProgram) -> LinuxProvider {
        open(self.data.path(), self.store_id, spawner)
    }

    fn fresh(&self) -> u128 {
        u128::from(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) async fn try_start(&self, limits: Limits) -> (InstanceId, Result<(), StartError>) {
        self.try_start_as(Spec { limits, ..Spec::default() }).await
    }

    pub(crate) async fn try_start_as(&self, spec: Spec) -> (InstanceId, Result<(), StartError>) {
        let instance = InstanceId { sandbox: SandboxId(self.fresh()), generation: Generation(1) };
        self.made.lock().unwrap().push(instance);
        let start = StartRequest {
            instance,
            spec: &spec,
            ends_at: now().after_ms(60_000),
            permit: &AlwaysWanted,
            ends_with_caller: true,
        };
        (instance, self.provider.start(start).await)
    }

    pub(crate) async fn start(&self, limits: Limits) -> InstanceId {
        let (instance, started) = self.try_start(limits).await;
        started.unwrap();
        instance
    }

    pub(crate) async fn begin(&self, instance: InstanceId, script: &str) -> ExecutionId {
        let execution = ExecutionId(self.fresh());
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = Command { argv, ..Command::default() };
        let limits = ExecutionLimits { timeout_ms: Some(30_000), ..ExecutionLimits::default() };
        self.provider.exec(instance, ExecRequest { execution, command: &command, limits }).await.unwrap();
        execution
    }

    pub(crate) async fn sh(&self, instance: InstanceId, script: &str) -> Outcome {
        let execution = self.begin(instance, script).await;
        self.provider.wait(instance, execution).await.unwrap()
    }

    pub(crate) async fn code(&self, instance: InstanceId, script: &str) -> Option<i32> {
        self.sh(instance, script).await.exit_code
    }

    pub(crate) async fn stop(&self, instance: InstanceId) -> Receipt {
        match self.provider.stop(instance, 0).await {
            StopOutcome::Gone(receipt) => {
                assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:?}");
                assert!(receipt.checks.iter().any(|check| check.kind == "devices"), "{receipt:?}");
                *receipt
            }
            other => panic!("{other:?}"),
        }
    }

    /// Pidfd of process 1 of an instance, verified against its pid file.
    pub(crate) fn keeper(&self, instance: InstanceId) -> OwnedFd {
        let control = self
            .data
            .path()
            .join("control")
            .join(format!("v1.{}.{}", instance.sandbox, instance.generation.0));
        let pid_file = fs::read_to_string(control.join("keeper.pid")).unwrap();
        let (pid, since) = pid_file.split_once(' ').unwrap();
        let (pid, since) = (pid.parse().unwrap(), since.trim().parse().unwrap());
        let keeper = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        assert_eq!(pinfold_procfs::start_time(pid).unwrap(), Some(since));
        keeper
    }

    pub(crate) fn storage_directory(&self) -> PathBuf {
        fs::canonicalize(self.data.path().join("instances")).unwrap()
    }

    /// Loop devices backed by files of this fixture, found without the code under test.
    pub(crate) fn device_paths(&self) -> Vec<PathBuf> {
        let storage_directory = self.storage_directory().to_string_lossy().into_owned();
        let is_ours = |block: &PathBuf| {
            fs::read_to_string(block.join("loop/backing_file"))
                .is_ok_and(|file| file.starts_with(&storage_directory))
        };
        let blocks = fs::read_dir("/sys/block").unwrap().map(|block| block.unwrap().path()).filter(is_ours);
        blocks.map(|block| Path::new("/dev").join(block.file_name().unwrap())).collect()
    }

    pub(crate) fn devices(&self) -> usize {
        self.device_paths().len()
    }
}

fn open(data: &Path, store_id: u128, spawner: SpawnerProgram) -> LinuxProvider {
    let config = LinuxConfig { data: data.to_owned(), store_id, spawner, clock: Arc::new(now) };
    LinuxProvider::open(config).unwrap()
}

/// Stops everything, also when a test has failed.
impl Drop for Fixture {
    fn drop(&mut self) {
        let provider = Arc::clone(&self.provider);
        let made = std::mem::take(&mut *self.made.lock().unwrap());
        let stop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            for instance in made {
                let _checked_below = runtime.block_on(provider.stop(instance, 0));
            }
            runtime.block_on(provider.discover()).unwrap()
        });
        let left = stop.join();
        if !std::thread::panicking() {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            assert_eq!(left.unwrap(), Discovered::default(), "{test} left instances");
        }
    }
}

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("timed out: {what}");
}
