//! Roles that run after a maker was killed: one reads back what was written, one stops everything.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use pinfold_engine::{OnExit, StopProgress, WaitOutcome};
use pinfold_lifecycle::{Cause, ExecutionKind, ExecutionLimits, SandboxId};
use pinfold_store::Store;
use tokio::task::JoinSet;

use crate::node::{Node, present, runtime, shell};

/// Generous, for slow machines.
const TIMEOUT_MS: u64 = 300_000;

pub(crate) fn read_back(data: &Path, words: &[String]) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let node = Arc::new(Node::begin(data).await?);
        let mut visits = JoinSet::new();
        for pair in words.chunks_exact(2) {
            let id: SandboxId = pair[0].parse().ok().with_context(|| format!("`{}` is no id", pair[0]))?;
            visits.spawn(read_one(node.clone(), id, pair[1].clone()));
        }
        end(node, visits).await
    })
}

pub(crate) fn stop_all(data: &Path) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let node = Arc::new(Node::begin(data).await?);
        let mut stops = JoinSet::new();
        for stored in present(&node.store).await? {
            stops.spawn(stop_one(node.clone(), stored.sandbox.id));
        }
        end(node, stops).await
    })
}

/// Waits for all of them, then shuts this node down.
async fn end(node: Arc<Node>, mut work: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut first_failed = Ok(());
    while let Some(done) = work.join_next().await {
        first_failed = first_failed.and(done?);
    }
    first_failed?;
    let node = Arc::into_inner(node).context("the node is still in use")?;
    Ok(node.engine.shutdown(OnExit::Keep, 0).await.map(drop)?)
}

async fn read_one(node: Arc<Node>, id: SandboxId, word: String) -> anyhow::Result<()> {
    let command = shell(&format!(r#"test "$(cat kept)" = {word}"#));
    let limits = ExecutionLimits::default();
    let asked = node.engine.execute(id, command, ExecutionKind::Run, limits, false).await;
    let execution = asked.with_context(|| format!("{id} takes no work"))?;
    match node.engine.wait_execution(id, execution, node.in_ms(TIMEOUT_MS)).await? {
        WaitOutcome::Met(outcome) if outcome.exit_code == Some(0) => Ok(()),
        other => bail!("{id} does not have its word any more: {other:?}"),
    }
}

async fn stop_one(node: Arc<Node>, id: SandboxId) -> anyhow::Result<()> {
    match node.engine.stop(id, Cause::StoppedByUser, Some(0), TIMEOUT_MS).await? {
        StopProgress::Gone { .. } => Ok(()),
        StopProgress::Pending => {
            bail!("{id} is not gone after {TIMEOUT_MS} ms: {:?}", node.store.load(id).await?)
        }
    }
}
