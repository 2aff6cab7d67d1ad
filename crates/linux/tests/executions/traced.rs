//! Traced processes, by their keeper or by another execution, end like others and report their true cause.

use pinfold_lifecycle::{Cause, ExecutionLimits};
use pinfold_provider::{KillOutcome, Provider};

use crate::NO_LIMITS;
use crate::sandbox::{Sandbox, sh};

#[cfg(target_arch = "x86_64")]
const PTRACE: u32 = 101;
#[cfg(target_arch = "aarch64")]
const PTRACE: u32 = 117;
const TRACEME: u32 = 0;
const SEIZE: u32 = 0x4206;

#[tokio::test(flavor = "multi_thread")]
async fn a_process_traced_by_its_keeper_has_not_ended_when_it_stops() {
    let sandbox = Sandbox::plain().await;
    let stop = format!("exec perl -e 'syscall({PTRACE}, {TRACEME}, 0, 0, 0) == 0 or die; kill STOP => $$'");
    let limits = ExecutionLimits { timeout_ms: Some(500), ..NO_LIMITS };

    let stopped = sandbox.exec(&sh(&stop), limits).await;

    assert_eq!(sandbox.how(stopped).await, (Cause::TimeLimit, Some(137)));
    sandbox.still_works().await;
}

/// The kernel reports the exit to the tracer only, which never asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_traced_by_another_execution_is_gone_after_a_kill() {
    let sandbox = Sandbox::plain().await;
    let traced = sandbox.script("echo $$; exec sleep 1000").await;
    sandbox.until_said(traced, "\n").await;
    let first = sandbox.stdout(traced).trim().to_owned();
    let seize = format!(
        "exec perl -e '$| = 1; syscall({PTRACE}, {SEIZE}, {first}, 0, 0) == 0 or die; print q(seized); sleep 1000'"
    );
    let tracer = sandbox.script(&seize).await;
    sandbox.until_said(tracer, "seized").await;

    let killed = sandbox.provider.kill(sandbox.instance, traced).await;

    assert_eq!(killed, KillOutcome::Gone);
    assert_eq!(sandbox.how(traced).await, (Cause::Cancelled, Some(137)));
    sandbox.still_works().await;
}
