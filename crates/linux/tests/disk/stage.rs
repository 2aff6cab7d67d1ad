//! Real sandboxes for tests about what they write. Nothing of them outlives the stage.

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
use pinfold_linux::{LinuxConfig, LinuxProvider, NurseryProgram, StorageKind};
use pinfold_provider::{Discovered, Exec, InstanceId, Provider, Start, StartError, StartPermit};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub(crate) struct Stage {
    pub(crate) data: tempfile::TempDir,
    pub(crate) provider: Arc<LinuxProvider>,
    instance: u128,
    last_id: AtomicU64,
    made: Mutex<Vec<InstanceId>>,
}

struct Granted;

#[async_trait]
impl StartPermit for Granted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// One line in the list of tests that could not run here.
pub(crate) fn skip(test: &str, why: &str) {
    let Some(list) = std::env::var_os("PINFOLD_SKIPPED_TESTS") else { return };
    let mut list = OpenOptions::new().create(true).append(true).open(list).unwrap();
    writeln!(list, "{test}: {why}").unwrap();
}

/// What can hold a limit on this host, as this user.
pub(crate) fn limited_kinds() -> Vec<StorageKind> {
    let mut kinds = vec![StorageKind::Memory];
    kinds.extend(is_root().then_some(StorageKind::Image));
    kinds
}

/// Before Linux 6.6 an overlay in memory cannot make a directory again that it has removed from a layer.
pub(crate) fn memory_holds_marks() -> bool {
    let file = rustix::fs::memfd_create("marks", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::fsetxattr(&file, "user.mark", b"y", rustix::fs::XattrFlags::empty()).is_ok()
}

pub(crate) fn nursery() -> NurseryProgram {
    NurseryProgram { program: env!("CARGO_BIN_EXE_pinfold-nursery").into(), arguments: Vec::new() }
}

#[expect(clippy::disallowed_methods, reason = "a test of real sandboxes takes real time")]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap())
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::born_by(nursery())
    }

    pub(crate) fn with(kind: StorageKind) -> Self {
        let mut stage = Self::new();
        stage.provider = Arc::new(stage.another_provider(nursery()).with_storage(kind));
        stage
    }

    pub(crate) fn born_by(nursery: NurseryProgram) -> Self {
        let data = tempfile::tempdir().unwrap();
        let name = data.path().file_name().unwrap().to_string_lossy().into_owned();
        let instance = name.bytes().fold(0, |sum: u128, byte| (sum << 8) | u128::from(byte));
        let provider = Arc::new(open(data.path(), instance, nursery));
        Self { data, provider, instance, last_id: AtomicU64::new(0), made: Mutex::default() }
    }

    /// As another process on the same data would have it.
    pub(crate) fn another_provider(&self, nursery: NurseryProgram) -> LinuxProvider {
        open(self.data.path(), self.instance, nursery)
    }

    fn fresh(&self) -> u128 {
        u128::from(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) async fn try_start(&self, limits: Limits) -> (InstanceId, Result<(), StartError>) {
        self.try_start_as(Spec { limits, ..Spec::default() }).await
    }

    pub(crate) async fn try_start_as(&self, spec: Spec) -> (InstanceId, Result<(), StartError>) {
        let body = InstanceId { sandbox: SandboxId(self.fresh()), generation: Generation(1) };
        self.made.lock().unwrap().push(body);
        let start = Start {
            body,
            spec: &spec,
            ends_at: now().after_ms(60_000),
            permit: &Granted,
            ends_with_caller: true,
        };
        (body, self.provider.start(start).await)
    }

    pub(crate) async fn start(&self, limits: Limits) -> InstanceId {
        let (body, started) = self.try_start(limits).await;
        started.unwrap();
        body
    }

    pub(crate) async fn begin(&self, body: InstanceId, script: &str) -> ExecutionId {
        let execution = ExecutionId(self.fresh());
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = Command { argv, ..Command::default() };
        let limits = ExecutionLimits { timeout_ms: Some(30_000), ..ExecutionLimits::default() };
        self.provider.exec(body, Exec { execution, command: &command, limits }).await.unwrap();
        execution
    }

    pub(crate) async fn sh(&self, body: InstanceId, script: &str) -> Outcome {
        let execution = self.begin(body, script).await;
        self.provider.wait(body, execution).await.unwrap()
    }

    pub(crate) async fn code(&self, body: InstanceId, script: &str) -> Option<i32> {
        self.sh(body, script).await.exit_code
    }

    pub(crate) async fn stop(&self, body: InstanceId) -> Receipt {
        match self.provider.stop(body, 0).await {
            StopOutcome::Gone(receipt) => {
                assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:?}");
                assert!(receipt.checks.iter().any(|check| check.kind == "devices"), "{receipt:?}");
                *receipt
            }
            other => panic!("{other:?}"),
        }
    }

    /// Process 1 of a body, by a handle that is proven to be the very process that its note names.
    pub(crate) fn keeper(&self, body: InstanceId) -> OwnedFd {
        let control =
            self.data.path().join("control").join(format!("v1.{}.{}", body.sandbox, body.generation.0));
        let noted = fs::read_to_string(control.join("process")).unwrap();
        let (pid, since) = noted.split_once(' ').unwrap();
        let (pid, since) = (pid.parse().unwrap(), since.trim().parse().unwrap());
        let keeper = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        assert_eq!(pinfold_keeper::process::began(pid).unwrap(), Some(since));
        keeper
    }

    pub(crate) fn places(&self) -> PathBuf {
        fs::canonicalize(self.data.path().join("bodies")).unwrap()
    }

    /// Loop devices with a file of this stage behind them, found without the code under test.
    pub(crate) fn device_paths(&self) -> Vec<PathBuf> {
        let places = self.places().to_string_lossy().into_owned();
        let is_ours = |block: &PathBuf| {
            fs::read_to_string(block.join("loop/backing_file")).is_ok_and(|file| file.starts_with(&places))
        };
        let blocks = fs::read_dir("/sys/block").unwrap().map(|block| block.unwrap().path()).filter(is_ours);
        blocks.map(|block| Path::new("/dev").join(block.file_name().unwrap())).collect()
    }

    pub(crate) fn devices(&self) -> usize {
        self.device_paths().len()
    }
}

fn open(data: &Path, instance: u128, nursery: NurseryProgram) -> LinuxProvider {
    let config = LinuxConfig { data: data.to_owned(), instance, nursery, clock: Arc::new(now) };
    LinuxProvider::open(config).unwrap()
}

/// Also when a test has failed.
impl Drop for Stage {
    fn drop(&mut self) {
        let provider = Arc::clone(&self.provider);
        let made = std::mem::take(&mut *self.made.lock().unwrap());
        let stop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            for body in made {
                let _looked_for_below = runtime.block_on(provider.stop(body, 0));
            }
            runtime.block_on(provider.discover()).unwrap()
        });
        let left = stop.join();
        if !std::thread::panicking() {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            assert_eq!(left.unwrap(), Discovered::default(), "{test} has left bodies");
        }
    }
}

/// Waits for what must become true.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}
