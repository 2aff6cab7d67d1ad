//! The whole life of a sandbox, timed from the caller's side.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use pinfold_bench_report::now;
use pinfold_engine::CreateAsk;

use crate::host::{Host, LIMITS, ask, ask_of_pool};

/// What every contestant runs: one small program, one line.
pub(crate) const COMMAND: [&str; 2] = ["/bin/echo", "ready"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// From the call to the first byte of output in the caller's hands.
    pub(crate) first_byte: Duration,
    /// From the call to the proof that it is gone.
    pub(crate) whole: Duration,
}

/// Create, execute, read, and wait for the durable receipt.
pub(crate) async fn cold(host: &Host) -> Result<Life> {
    let begun = now();
    live(host, ask(LIMITS, true), begun).await
}

/// From the pool of sandboxes that were made ahead, one at a time; what is used up is replaced in between.
pub(crate) async fn warm(runs: usize) -> Result<Vec<Life>> {
    let host = Host::begin_pooled(None).await?;
    let lives = warm_lives(&host, runs).await;
    host.close().await?;
    lives
}

async fn warm_lives(host: &Host, runs: usize) -> Result<Vec<Life>> {
    let mut lives = Vec::new();
    for _ in 0..runs {
        host.wait_pooled().await?;
        lives.push(warm_one(host).await?);
    }
    Ok(lives)
}

pub(crate) async fn warm_one(host: &Host) -> Result<Life> {
    let begun = now();
    live(host, ask_of_pool(), begun).await
}

/// From where a sandbox was asked for to the proof that it is gone.
async fn live(host: &Host, ask: CreateAsk, begun: Instant) -> Result<Life> {
    let (sandbox, execution) = host.run(ask, &COMMAND).await?;
    let _notes = host.first_byte(sandbox, execution).await?;
    let first_byte = begun.elapsed();
    host.wait_gone(sandbox).await?;
    Ok(Life { first_byte, whole: begun.elapsed() })
}

/// So many lives, so many at a time; and how long all of them took.
pub(crate) async fn cold_batch(
    host: &Arc<Host>,
    runs: usize,
    at_once: usize,
) -> Result<(Vec<Life>, Duration)> {
    let begun = now();
    let workers: Vec<_> = (0..at_once)
        .map(|worker| {
            let (host, own) = (host.clone(), runs / at_once + usize::from(worker < runs % at_once));
            tokio::spawn(async move {
                let mut lives = Vec::new();
                for _ in 0..own {
                    lives.push(cold(&host).await?);
                }
                anyhow::Ok(lives)
            })
        })
        .collect();
    let mut lives = Vec::new();
    for worker in workers {
        lives.extend(worker.await??);
    }
    Ok((lives, begun.elapsed()))
}
