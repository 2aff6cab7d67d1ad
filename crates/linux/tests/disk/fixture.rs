//! Real sandboxes for storage tests, all stopped when the fixture is dropped.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pinfold_lifecycle::{
    Command, ExecutionId, ExecutionLimits, Finding, Generation, Limits, Outcome, Receipt, SandboxId, Spec,
    StopOutcome,
};
use pinfold_linux::{LinuxProvider, SpawnerProgram, StorageKind};
use pinfold_provider::{Discovered, ExecRequest, InstanceId, Provider, StartError, StartRequest};
use pinfold_test_support::linux::{self, AlwaysWanted, KeeperProcess, now};

pub(crate) struct Fixture {
    pub(crate) data: tempfile::TempDir,
    pub(crate) provider: Arc<LinuxProvider>,
    last_id: AtomicU64,
    made: Mutex<Vec<InstanceId>>,
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
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
    linux::spawner(env!("CARGO_BIN_EXE_pinfold-spawner"))
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
        let config = linux::config(data.path(), linux::store_id_of(data.path()), spawner);
        let provider = Arc::new(LinuxProvider::open(config).unwrap());
        Self { data, provider, last_id: AtomicU64::new(0), made: Mutex::default() }
    }

    /// A provider as another process on the same data would have it.
    pub(crate) fn another_provider(&self, spawner: SpawnerProgram) -> LinuxProvider {
        let data = self.data.path();
        LinuxProvider::open(linux::config(data, linux::store_id_of(data), spawner)).unwrap()
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
        KeeperProcess::read_in(&control).unwrap().open().unwrap()
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
