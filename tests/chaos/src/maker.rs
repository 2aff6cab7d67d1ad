//! The process that is killed: it creates fifty sandboxes at once, runs commands in them and stops some, until it
//! is killed. Each line it prints is a promise that the test checks afterwards.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pinfold_engine::{CreateRequest, WaitOutcome};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, Limits, OutcomeKind, Policy, SandboxId, Spec,
};
use tokio::task::JoinSet;

use crate::node::{Node, runtime, shell};
use crate::victim::PROMISE;

const SANDBOXES: u64 = 50;
/// Generous, for slow machines.
const TIMEOUT_MS: u64 = 300_000;

pub(crate) fn run_until_killed(data: &Path, seed: u64) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let node = Arc::new(Node::begin(data).await?);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut lives = JoinSet::new();
        for _ in 0..SANDBOXES {
            lives.spawn(use_one_sandbox(node.clone(), rng.u64(..)));
        }
        while let Some(life) = lives.join_next().await {
            life??;
            // Each finished sandbox is replaced, so that work is always in progress.
            lives.spawn(use_one_sandbox(node.clone(), rng.u64(..)));
        }
        Ok(())
    })
}

async fn use_one_sandbox(node: Arc<Node>, seed: u64) -> anyhow::Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    match rng.u8(0..10) {
        0..=5 => stay(&node, &mut rng, seed).await,
        6..=7 => stay_for_a_while(&node, &mut rng).await,
        _ => belong_to_the_maker(&node, &mut rng).await,
    }
}

/// A sandbox that must survive. It is promised once the word is written into it.
async fn stay(node: &Node, rng: &mut fastrand::Rng, seed: u64) -> anyhow::Result<()> {
    let Some(id) = create(node, rng).await? else { return Ok(()) };
    let word = format!("{seed:016x}");
    if run(node, id, &format!("echo {word} > kept; sync kept")).await? {
        say(&format!("{PROMISE} {id} {word}"));
    }
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(0..200))).await;
        run(node, id, "cat kept; exit 0").await?;
    }
}

/// A sandbox that is stopped in the middle of an execution.
async fn stay_for_a_while(node: &Node, rng: &mut fastrand::Rng) -> anyhow::Result<()> {
    let Some(id) = create(node, rng).await? else { return Ok(()) };
    let limits = ExecutionLimits::default();
    node.engine.execute(id, shell("sleep 1000 & sleep 1000"), ExecutionKind::Run, limits, true).await?;
    tokio::time::sleep(Duration::from_millis(rng.u64(0..100))).await;
    node.engine.stop(id, Cause::StoppedByUser, Some(0), TIMEOUT_MS).await?;
    say(&format!("gone {id}"));
    Ok(())
}

/// A sandbox that ends with its creator, as with `pinfold run`.
async fn belong_to_the_maker(node: &Node, rng: &mut fastrand::Rng) -> anyhow::Result<()> {
    let policy = Policy { one_shot: true, ends_with_owner: true, ..wanted() };
    let id = node
        .engine
        .create(CreateRequest { spec: spec(rng).into(), policy: policy.into(), ..CreateRequest::default() })
        .await?;
    let line = if rng.bool() { "true" } else { "setsid sleep 1000 & sleep 1000" };
    let limits = ExecutionLimits { timeout_ms: Some(60_000), inactivity_ms: None };
    node.engine.execute(id, shell(line), ExecutionKind::Run, limits, true).await?;
    node.engine.wait_gone(id, TIMEOUT_MS).await?;
    Ok(())
}

fn wanted() -> Policy {
    Policy { grace_ms: 0, stop_backoff_ms: vec![100, 500], ..Policy::default() }
}

/// Most have their files in memory. Some request more disk than memory, and get an image on a loop device.
fn spec(rng: &mut fastrand::Rng) -> Spec {
    let on_a_device = Limits { memory_mb: Some(64), disk_mb: Some(64), ..Limits::default() };
    let limits = if rng.u8(0..8) == 0 { on_a_device } else { Limits::default() };
    Spec { limits, ..Spec::default() }
}

/// None: it did not become ready, and the failure is printed.
async fn create(node: &Node, rng: &mut fastrand::Rng) -> anyhow::Result<Option<SandboxId>> {
    let id = node
        .engine
        .create(CreateRequest { spec: spec(rng).into(), policy: wanted().into(), ..CreateRequest::default() })
        .await?;
    match node.engine.wait_ready(id, node.in_ms(TIMEOUT_MS)).await? {
        WaitOutcome::Met(Ok(())) => Ok(Some(id)),
        WaitOutcome::Met(Err(cause)) => {
            say(&format!("failed {id} {cause:?}"));
            Ok(None)
        }
        WaitOutcome::DeadlinePassed => {
            say(&format!("failed {id} in time"));
            Ok(None)
        }
    }
}

async fn run(node: &Node, id: SandboxId, line: &str) -> anyhow::Result<bool> {
    let limits = ExecutionLimits::default();
    let execution = node.engine.execute(id, shell(line), ExecutionKind::Run, limits, true).await?;
    match node.engine.wait_execution(id, execution, node.in_ms(TIMEOUT_MS)).await? {
        WaitOutcome::Met(outcome) => Ok(outcome.kind == OutcomeKind::Exited && outcome.exit_code == Some(0)),
        WaitOutcome::DeadlinePassed => Ok(false),
    }
}

/// One write per line, so that a line is complete or absent. A write error means that the test has killed us.
fn say(line: &str) {
    let mut output = std::io::stdout();
    let _ = output.write_all(format!("{line}\n").as_bytes());
    let _ = output.flush();
}
