//! A run whose keeper is killed: the next instance finishes it, and both are proven gone.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "fixture/config.rs"]
mod config;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::config;
use pinfold_engine::{
    AgentRun, Clock, Config, CreateRequest, DiscardArtifacts, Engine, HostClock, HostLiveness, OnExit, Parts,
    RandomIds, RunRequest, WaitOutcome,
};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Outcome, Policy, SandboxId,
};
use pinfold_linux::{LinuxConfig, LinuxProvider};
use pinfold_provider::{Discovered, OutputEntry, Provider, ReadPosition};
use pinfold_store::Store;
use pinfold_store_sqlite::SqliteStore;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const TIMEOUT_MS: u64 = 60_000;

/// An engine with real sandboxes, all stopped at the end of the test.
struct TestEngine {
    engine: Option<Engine>,
    provider: Arc<LinuxProvider>,
    clock: Arc<HostClock>,
    data: tempfile::TempDir,
}

impl TestEngine {
    async fn begin() -> Self {
        let data = tempfile::tempdir().unwrap();
        let liveness = HostLiveness::take().unwrap();
        let clock = Arc::new(HostClock::anchored(data.path(), liveness.boot_id()).unwrap());
        let store = Arc::new(SqliteStore::open(&data.path().join("store")).unwrap());
        let now = clock.clone();
        let provider = LinuxProvider::open(LinuxConfig {
            data: data.path().join("linux"),
            store_id: store.store_id(),
            clock: Arc::new(move || now.now()),
            ..config(data.path())
        });
        let provider = Arc::new(provider.unwrap());
        let parts = Parts {
            store,
            provider: provider.clone(),
            artifacts: Arc::new(DiscardArtifacts),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            liveness: Arc::new(liveness),
        };
        let engine = Some(Engine::start(parts, Config::default()).await.unwrap());
        Self { engine, provider, clock, data }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    async fn end_of(&self, sandbox: SandboxId, execution: ExecutionId) -> AgentRun {
        let until = self.clock.now().after_ms(TIMEOUT_MS);
        match self.engine().wait_agent_run(sandbox, execution, until).await.unwrap() {
            WaitOutcome::Met(run) => run,
            WaitOutcome::DeadlinePassed => panic!("{:?}", self.engine().agent_run(sandbox, execution).await),
        }
    }

    /// Sequence numbers of all output chunks, and the whole output.
    fn output(&self, sandbox: SandboxId, execution: ExecutionId) -> (Vec<u64>, String) {
        let mut reader = self.provider.output().reader(sandbox, execution, ReadPosition::default());
        let entries = std::iter::from_fn(|| reader.next().unwrap());
        let pieces: Vec<_> = entries
            .map(|entry| match entry {
                OutputEntry::Chunk(piece) => piece,
                OutputEntry::Gap(gap) => panic!("{gap:?}"),
            })
            .collect();
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.clone()).collect();
        (pieces.iter().map(|piece| piece.seq).collect(), String::from_utf8(bytes).unwrap())
    }

    async fn until_said(&self, sandbox: SandboxId, execution: ExecutionId, words: &str) {
        let until = self.clock.now().after_ms(TIMEOUT_MS);
        while self.output(sandbox, execution).1 != words {
            assert!(self.clock.now() < until, "{:?}", self.output(sandbox, execution));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn control_of(&self, sandbox: SandboxId, generation: u64) -> PathBuf {
        self.data.path().join(format!("linux/control/v1.{sandbox}.{generation}"))
    }
}

impl Drop for TestEngine {
    fn drop(&mut self) {
        drop(self.engine.take());
        let provider = self.provider.clone();
        let end = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let Discovered { found, .. } = provider.discover().await.unwrap();
                for found in &found {
                    provider.stop(found.instance, 0).await;
                }
                found.len()
            })
        };
        let left = std::thread::spawn(end).join();
        if !std::thread::panicking() {
            assert_eq!(left.unwrap(), 0, "instances are left");
        }
    }
}

/// Kills the keeper by a pidfd that is verified against its pid file.
fn kill_keeper(control: &Path) {
    let pid_file = fs::read_to_string(control.join("keeper.pid")).unwrap();
    let (pid, since) = pid_file.split_once(' ').unwrap();
    let keeper = pidfd_open(Pid::from_raw(pid.parse().unwrap()).unwrap(), PidfdFlags::empty()).unwrap();
    let began = pinfold_procfs::start_time(pid.parse().unwrap()).unwrap();
    assert_eq!(began, Some(since.trim().parse().unwrap()));
    pidfd_send_signal(&keeper, Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_keeper_is_killed_is_finished_by_the_next_instance() {
    let engine_fixture = TestEngine::begin().await;
    let script = "echo begun; sleep 2; echo done";
    let command = Command { argv: ["sh", "-c", script].map(str::to_owned).to_vec(), ..Command::default() };
    let create = CreateRequest {
        policy: Policy { grace_ms: 0, ..Policy::default() }.into(),
        ..CreateRequest::default()
    };
    let run = RunRequest { command, kind: ExecutionKind::Run, limits: ExecutionLimits::default() };
    let (sandbox, execution) = engine_fixture.engine().run_agent(create, run).await.unwrap();
    engine_fixture.until_said(sandbox, execution, "begun\n").await;

    kill_keeper(&engine_fixture.control_of(sandbox, 1));
    let run = engine_fixture.end_of(sandbox, execution).await;

    assert_eq!(run.outcome, Some(Outcome::exited(0)), "{run:#?}");
    let [first, second] = &run.attempts[..] else { panic!("{run:#?}") };
    let causes = [first, second].map(|attempt| attempt.end.as_ref().unwrap().cause);
    assert!(causes[0].is_retryable() && causes[1] == Cause::Completed, "{causes:?}");
    for (attempt, generation) in [(first, 1), (second, 2)] {
        let receipt = attempt.receipt.as_ref().unwrap();
        assert_eq!((attempt.generation.0, receipt.generation.0), (generation, generation));
        assert!(receipt.proves_absence(), "{receipt:#?}");
        assert!(attempt.started_at.is_some());
        assert!(!engine_fixture.control_of(sandbox, generation).exists());
    }
    assert_eq!(engine_fixture.output(sandbox, execution), (vec![1, 2, 3], "begun\nbegun\ndone\n".to_owned()));
    assert!(run.used.cpu_ms.is_some(), "{:?}", run.used);
    let mut engine_fixture = engine_fixture;
    engine_fixture.engine.take().unwrap().shutdown(OnExit::Stop, TIMEOUT_MS).await.unwrap();
}
