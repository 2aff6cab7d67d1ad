//! Times whole runs, from create to receipt, as the caller sees them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use pinfold_bench_report::now;
use pinfold_engine::CreateRequest;

use crate::host::{Host, LIMITS, create_request, pooled_create_request};

/// The command that every contestant runs.
pub(crate) const COMMAND: [&str; 2] = ["/bin/echo", "ready"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTiming {
    /// From the call to the first byte of output at the caller.
    pub(crate) first_byte: Duration,
    /// From the call to the receipt.
    pub(crate) whole: Duration,
}

/// Create, execute, read, and wait for the durable receipt.
pub(crate) async fn cold(host: &Host) -> Result<RunTiming> {
    let begun = now();
    live(host, create_request(LIMITS, true), begun).await
}

/// From the warm pool, one at a time; the pool is refilled in between.
pub(crate) async fn warm(runs: usize) -> Result<Vec<RunTiming>> {
    let host = Host::begin_pooled(None).await?;
    let lives = warm_lives(&host, runs).await;
    host.close().await?;
    lives
}

async fn warm_lives(host: &Host, runs: usize) -> Result<Vec<RunTiming>> {
    let mut lives = Vec::new();
    for _ in 0..runs {
        host.wait_pooled().await?;
        lives.push(warm_one(host).await?);
    }
    Ok(lives)
}

pub(crate) async fn warm_one(host: &Host) -> Result<RunTiming> {
    let begun = now();
    live(host, pooled_create_request(), begun).await
}

/// From the create request to the receipt.
async fn live(host: &Host, ask: CreateRequest, begun: Instant) -> Result<RunTiming> {
    let (sandbox, execution) = host.run(ask, &COMMAND).await?;
    let _notes = host.first_byte(sandbox, execution).await?;
    let first_byte = begun.elapsed();
    host.wait_gone(sandbox).await?;
    Ok(RunTiming { first_byte, whole: begun.elapsed() })
}

/// Runs so many, `at_once` in parallel. Returns their times and the total.
pub(crate) async fn cold_batch(
    host: &Arc<Host>,
    runs: usize,
    at_once: usize,
) -> Result<(Vec<RunTiming>, Duration)> {
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
