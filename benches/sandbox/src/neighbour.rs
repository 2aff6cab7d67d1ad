//! `neighbour`: a command in one sandbox while another runs into its limits, compared with an idle host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use pinfold_bench_report::{Measurements, at_most};
use pinfold_lifecycle::{Cause, Limits, SandboxId};

use crate::Session;
use crate::exec;
use crate::host::{Host, LIMITS};
use crate::stop::FORK_BOMB;
use crate::table::{print_header, print_measurements, print_titles, ratio};

const TO_QUIET: f64 = 3.0;
const ROUNDS: usize = 3;
/// Until the noisy sandbox is at its limits.
const ONSET: Duration = Duration::from_millis(500);
/// Limits of the noisy sandbox.
const NOISY_LIMITS: Limits = Limits {
    memory_mb: Some(256),
    disk_mb: Some(256),
    processes: Some(512),
    cpu_millis: Some(1_000),
    ..LIMITS
};

struct NoisyWorkload {
    name: &'static str,
    script: &'static str,
}

const FILL: &str = "dd if=/dev/zero of=/workspace/big bs=1M count=10240";
const NOISY_WORKLOADS: [NoisyWorkload; 4] = [
    NoisyWorkload { name: "10 GiB of dd under the disk limit", script: FILL },
    NoisyWorkload { name: "a fork bomb under the process limit", script: FORK_BOMB },
    NoisyWorkload { name: "tail /dev/zero under the memory limit", script: "tail /dev/zero" },
    NoisyWorkload { name: "a flood of output", script: "yes" },
];

pub(crate) fn run(session: &Session) -> Result<()> {
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    let measured = measure(session, &host);
    let ended = session.runtime.block_on(host.end());
    measured?;
    ended
}

fn measure(session: &Session, host: &Arc<Host>) -> Result<()> {
    print_header("request to first output byte of `echo` in a live sandbox, beside another one", session)?;
    let starting = host.clone();
    let (neighbour, disk_is_limited) =
        session.run(async move { Ok((starting.ready(LIMITS).await?, disk_is_limited(&starting).await?)) })?;
    let mut quiet = Measurements::default();
    let mut beside: [Measurements; NOISY_WORKLOADS.len()] = Default::default();
    for _ in 0..ROUNDS {
        quiet.extend(round(session, host, neighbour)?);
        for (trouble, figures) in NOISY_WORKLOADS.iter().zip(&mut beside) {
            session.interrupt.check()?;
            if trouble.script == FILL && !disk_is_limited {
                continue;
            }
            let starting = host.clone();
            let troublemaker = session.run(async move { starting.ready(NOISY_LIMITS).await })?;
            let making = Arc::new(AtomicBool::new(true));
            let task =
                session.runtime.spawn(make(host.clone(), troublemaker, trouble.script, making.clone()));
            std::thread::sleep(ONSET);
            let measured = round(session, host, neighbour);
            making.store(false, Ordering::Relaxed);
            session.runtime.block_on(host.stop(troublemaker, Cause::StoppedByUser))?;
            session.runtime.block_on(task)?;
            figures.extend(measured?);
        }
    }
    print_titles("");
    print_measurements("quiet", &quiet);
    for (trouble, figures) in NOISY_WORKLOADS.iter().zip(&beside).filter(|(_, figures)| figures.count() > 0) {
        print_measurements(&format!("beside {}", trouble.name), figures);
    }
    println!();
    for (trouble, figures) in NOISY_WORKLOADS.iter().zip(&beside) {
        if figures.count() == 0 {
            println!("beside {}: not measured, since the disk limit does not hold here", trouble.name);
        } else {
            let reached = ratio(figures.p99(), quiet.p99());
            at_most(&format!("p99 beside {} to quiet", trouble.name), reached, TO_QUIET, "x");
        }
    }
    Ok(())
}

fn round(session: &Session, host: &Arc<Host>, neighbour: SandboxId) -> Result<Vec<Duration>> {
    let (host, runs) = (host.clone(), session.runs.div_ceil(ROUNDS));
    session.run(async move { exec::many(&host, neighbour, runs).await })
}

/// Repeats the command until its sandbox is stopped, whatever its limits do to it.
async fn make(host: Arc<Host>, sandbox: SandboxId, script: &'static str, making: Arc<AtomicBool>) {
    while making.load(Ordering::Relaxed) {
        let Ok(execution) = host.execute(sandbox, &["sh", "-c", script]).await else { return };
        if host.wait_execution(sandbox, execution).await.is_err() {
            return;
        }
    }
}

/// Checks that the limit holds with a little more than it, before 10 GiB are written.
async fn disk_is_limited(host: &Host) -> Result<bool> {
    let sandbox = host.ready(NOISY_LIMITS).await?;
    let more = NOISY_LIMITS.disk_mb.unwrap_or(0) + 64;
    let script = format!("dd if=/dev/zero of=/workspace/big bs=1M count={more} 2>/dev/null");
    let execution = host.execute(sandbox, &["sh", "-c", &script]).await?;
    let cause = host.wait_execution(sandbox, execution).await?;
    host.stop(sandbox, Cause::StoppedByUser).await?;
    Ok(cause != Cause::Completed)
}
