//! The process that is killed: it makes fifty sandboxes at once, some to stay, some of its own, works in them, stops
//! some, and goes on with that until its end. What it says on its output is promised.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pinfold_engine::{CreateAsk, Waited};
use pinfold_lifecycle::{
    Cause, ExecutionKind, ExecutionLimits, Limits, OutcomeKind, Policy, SandboxId, Spec,
};
use tokio::task::JoinSet;

use crate::node::{Node, runtime, shell};
use crate::victim::PROMISE;

const SANDBOXES: u64 = 50;
/// For a machine that is slow, not for us.
const PATIENCE_MS: u64 = 300_000;

pub(crate) fn live(data: &Path, seed: u64) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let node = Arc::new(Node::begin(data).await?);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut lives = JoinSet::new();
        for _ in 0..SANDBOXES {
            lives.spawn(one_life(node.clone(), rng.u64(..)));
        }
        while let Some(life) = lives.join_next().await {
            life??;
            // For each that is done with its own another one begins: there is always something going on.
            lives.spawn(one_life(node.clone(), rng.u64(..)));
        }
        Ok(())
    })
}

async fn one_life(node: Arc<Node>, seed: u64) -> anyhow::Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    match rng.u8(0..10) {
        0..=5 => stay(&node, &mut rng, seed).await,
        6..=7 => stay_for_a_while(&node, &mut rng).await,
        _ => belong_to_the_maker(&node, &mut rng).await,
    }
}

/// Wanted for good: it is promised once the word is in it.
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

/// Wanted until it is stopped, half-way into some work.
async fn stay_for_a_while(node: &Node, rng: &mut fastrand::Rng) -> anyhow::Result<()> {
    let Some(id) = create(node, rng).await? else { return Ok(()) };
    let limits = ExecutionLimits::default();
    node.engine.execute(id, shell("sleep 1000 & sleep 1000"), ExecutionKind::Run, limits, true).await?;
    tokio::time::sleep(Duration::from_millis(rng.u64(0..100))).await;
    node.engine.stop(id, Cause::StoppedByUser, true, PATIENCE_MS).await?;
    say(&format!("gone {id}"));
    Ok(())
}

/// As with `pinfold run`.
async fn belong_to_the_maker(node: &Node, rng: &mut fastrand::Rng) -> anyhow::Result<()> {
    let policy = Policy { one_shot: true, ends_with_owner: true, ..wanted() };
    let id = node.engine.create(CreateAsk { spec: spec(rng), policy, key: None, queue: None }).await?;
    let line = if rng.bool() { "true" } else { "setsid sleep 1000 & sleep 1000" };
    let limits = ExecutionLimits { timeout_ms: Some(60_000), inactivity_ms: None };
    node.engine.execute(id, shell(line), ExecutionKind::Run, limits, true).await?;
    node.engine.wait_gone(id, PATIENCE_MS).await?;
    Ok(())
}

fn wanted() -> Policy {
    Policy { grace_ms: 0, stop_backoff_ms: vec![100, 500], ..Policy::default() }
}

/// Mostly files in memory. Some ask for more disk than their memory allows, and get an image on a device.
fn spec(rng: &mut fastrand::Rng) -> Spec {
    let on_a_device = Limits { memory_mb: Some(64), disk_mb: Some(64), ..Limits::default() };
    let limits = if rng.u8(0..8) == 0 { on_a_device } else { Limits::default() };
    Spec { limits, ..Spec::default() }
}

/// None: it did not become ready, and has said so.
async fn create(node: &Node, rng: &mut fastrand::Rng) -> anyhow::Result<Option<SandboxId>> {
    let id =
        node.engine.create(CreateAsk { spec: spec(rng), policy: wanted(), key: None, queue: None }).await?;
    match node.engine.wait_ready(id, node.in_ms(PATIENCE_MS)).await? {
        Waited::Met(Ok(())) => Ok(Some(id)),
        Waited::Met(Err(cause)) => {
            say(&format!("failed {id} {cause:?}"));
            Ok(None)
        }
        Waited::DeadlinePassed => {
            say(&format!("failed {id} in time"));
            Ok(None)
        }
    }
}

async fn run(node: &Node, id: SandboxId, line: &str) -> anyhow::Result<bool> {
    let limits = ExecutionLimits::default();
    let execution = node.engine.execute(id, shell(line), ExecutionKind::Run, limits, true).await?;
    match node.engine.wait_execution(id, execution, node.in_ms(PATIENCE_MS)).await? {
        Waited::Met(outcome) => Ok(outcome.kind == OutcomeKind::Exited && outcome.exit_code == Some(0)),
        Waited::DeadlinePassed => Ok(false),
    }
}

/// One write, so that a line is whole or not there. Whoever does not listen any more has killed us.
fn say(line: &str) {
    let mut output = std::io::stdout();
    let _ = output.write_all(format!("{line}\n").as_bytes());
    let _ = output.flush();
}
