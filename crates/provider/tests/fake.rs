//! What the fake does beyond the conformance suite: limits of an instance, dropped output, and a host in a file.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionLimits, Generation, Guards, Limits, Outcome, SandboxId, Spec,
    Timestamp,
};
use pinfold_provider::fake::{Call, CallPlan, FakeProvider, FakeWorld, FaultPlan, NoFaults};
use pinfold_provider::{
    ExecRequest, InstanceId, OutputEntry, OutputGap, Provider, ReadPosition, StartPermit, StartRequest,
};

const INSTANCE: InstanceId = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };

#[derive(Default)]
struct Clock(AtomicI64);

impl FaultPlan for Clock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        NoFaults.sleep_ms(ms)
    }

    fn plan_call(&self, call: Call) -> CallPlan {
        NoFaults.plan_call(call)
    }
}

struct Wanted;

#[async_trait]
impl StartPermit for Wanted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

fn provider(world: FakeWorld, clock: &Arc<Clock>) -> FakeProvider {
    FakeProvider::new(Arc::new(world), clock.clone(), Guards::default())
}

async fn start(provider: &FakeProvider, limits: Limits) {
    let (spec, ends_at) = (Spec { limits, ..Spec::default() }, Timestamp(i64::MAX));
    let (instance, permit) = (INSTANCE, &Wanted);
    let start = StartRequest { instance, spec: &spec, ends_at, ends_with_caller: false, permit };
    provider.start(start).await.unwrap();
}

async fn sh(provider: &FakeProvider, execution: u128, script: &str) -> ExecutionId {
    let execution = ExecutionId(execution);
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let (command, limits) = (Command { argv, ..Command::default() }, ExecutionLimits::default());
    provider.exec(INSTANCE, ExecRequest { execution, command: &command, limits }).await.unwrap();
    execution
}

fn read(provider: &FakeProvider, execution: ExecutionId) -> Vec<OutputEntry> {
    let mut reader = provider.output().reader(INSTANCE.sandbox, execution, ReadPosition::default());
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

fn text(entries: &[OutputEntry]) -> String {
    let chunk = |entry: &OutputEntry| match entry {
        OutputEntry::Chunk(chunk) => String::from_utf8_lossy(&chunk.bytes).into_owned(),
        OutputEntry::Gap(gap) => format!("{gap:?}"),
    };
    entries.iter().map(chunk).collect()
}

#[tokio::test]
async fn operation_limit_ends_running_executions_and_starts_no_more() {
    let clock = Arc::new(Clock::default());
    let provider = provider(FakeWorld::default(), &clock);
    start(&provider, Limits { operations: Some(4), ..Limits::default() }).await;

    let modest = sh(&provider, 1, "echo on").await;
    let chatty = sh(&provider, 2, "while :; do echo on; sleep 0.1; done").await;
    clock.0.store(1_000, Ordering::Relaxed);
    let running = provider.wait(INSTANCE, chatty).await.unwrap();
    let late = sh(&provider, 3, "echo ran").await;

    let exceeded = Outcome::ended_for(Cause::OperationLimit);
    assert_eq!(provider.wait(INSTANCE, modest).await.unwrap(), Outcome::exited(0));
    assert_eq!(running, Outcome { exit_code: Some(137), ..exceeded.clone() });
    assert_eq!(provider.wait(INSTANCE, late).await.unwrap(), exceeded);
    assert_eq!(read(&provider, late), []);
}

#[tokio::test]
async fn more_output_than_is_kept_leaves_a_gap_before_the_rest() {
    let provider = provider(FakeWorld::default(), &Arc::default());
    start(&provider, Limits::default()).await;

    let execution = sh(&provider, 1, "for i in 1 2 3 4; do head -c 3000000 /dev/zero; done").await;

    let entries = read(&provider, execution);
    assert_eq!(entries[0], OutputEntry::Gap(OutputGap { from_seq: 1, to_seq: 2, bytes: 6_000_000 }));
    let numbers = entries[1..].iter().map(|entry| match entry {
        OutputEntry::Chunk(chunk) => (chunk.seq, chunk.bytes.len()),
        OutputEntry::Gap(gap) => panic!("{gap:?}"),
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [(3, 3_000_000), (4, 3_000_000)]);
}

#[tokio::test]
async fn script_goes_on_in_another_process_that_shares_the_host() {
    let file = std::env::temp_dir().join(format!("pinfold-fake-{}.json", std::process::id()));
    let clock = Arc::new(Clock::default());
    let script = "trap 'echo caught' USR1; echo one > file; sleep 1; cat file; sleep 1000 & wait";
    let execution = {
        let first = provider(FakeWorld::on_file(file.clone()), &clock);
        start(&first, Limits::default()).await;
        sh(&first, 1, script).await
    };

    clock.0.store(1_000, Ordering::Relaxed);
    let second = provider(FakeWorld::on_file(file.clone()), &clock);
    let before = text(&read(&second, execution));
    second.signal(INSTANCE, execution, 10).await.unwrap();
    let after = text(&read(&second, execution));

    assert_eq!((before.as_str(), after.as_str()), ("one\n", "one\ncaught\n"));
    for left in [file.clone(), file.with_extension("lock")] {
        std::fs::remove_file(left).unwrap();
    }
}
