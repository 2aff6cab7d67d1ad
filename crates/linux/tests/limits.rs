//! Breaches every limit in a real sandbox and checks cause and exit code, with the keeper unharmed. Every breach is
//! bounded even if the limit fails.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "fixture/config.rs"]
mod config;
#[path = "fixture/sandbox.rs"]
mod sandbox;
#[path = "fixture/unprivileged_user.rs"]
mod unprivileged_user;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_lifecycle::{Cause, ExecutionId, ExecutionLimits, Limits, ProbeResult};
use pinfold_linux::LinuxProvider;
use pinfold_provider::{OutputEntry, OutputGap, Provider};
use pinfold_test_support::until_async;
use sandbox::{Sandbox, sh};

/// Number of processes inside with this name.
async fn count(sandbox: &Sandbox, name: &str) -> usize {
    let names = sandbox.says("cat /proc/[0-9]*/comm").await;
    names.lines().filter(|line| *line == name).count()
}

async fn until_count(sandbox: &Sandbox, many: usize, name: &str) {
    until_async("the number of processes is as expected", || async { count(sandbox, name).await == many })
        .await;
}

const SPIN: &str = "while :; do :; done";

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_the_memory_limit_ends_an_execution() {
    let sandbox = Sandbox::with(Limits { memory_mb: Some(64), ..Limits::default() }).await;

    assert_eq!(sandbox.end_of("exec tail /dev/zero").await, (Cause::MemoryLimit, Some(137)));

    sandbox.still_works().await;
    assert_eq!(sandbox.end_of("exit 3").await, (Cause::ExitNonzero, Some(3)));
    let used = sandbox.provider.usage(sandbox.instance).await.unwrap();
    assert!(used.memory_peak_bytes > Some(32 << 20), "{used:?}");
}

/// In v2 the whole workload is killed with the process that exceeded the limit.
#[tokio::test(flavor = "multi_thread")]
async fn memory_limit_hit_by_a_child_is_the_cause_of_its_parents_failure() {
    let sandbox = Sandbox::with(Limits { memory_mb: Some(64), ..Limits::default() }).await;

    let (cause, code) = sandbox.end_of("tail /dev/zero; exit 5").await;

    assert_eq!(cause, Cause::MemoryLimit);
    assert!(matches!(code, Some(5 | 137)), "{code:?}");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_the_process_limit_is_the_cause_of_a_failure() {
    let sandbox = Sandbox::with(Limits { processes: Some(32), ..Limits::default() }).await;

    let bomb = "i=0; while [ $i -lt 300 ]; do sleep 100 & i=$((i+1)); done; wait";
    let (cause, code) = sandbox.end_of(bomb).await;

    assert_eq!(cause, Cause::ProcessLimit);
    assert_ne!(code, Some(0));
    // The processes of the bomb are gone: there is room for as many again.
    assert_eq!(sandbox.end_of("for i in 1 2 3 4 5 6; do sleep 0.01 & done; wait").await.1, Some(0));
    assert_eq!(sandbox.end_of("exit 3").await, (Cause::ExitNonzero, Some(3)));
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_at_its_process_limit_passes_its_probe() {
    let sandbox = Sandbox::with(Limits { processes: Some(32), ..Limits::default() }).await;
    let fill = r#"perl -e '$| = 1; while (defined(my $child = fork)) { sleep 1000 if !$child }
        print "full"; sleep 1000'"#;
    let full = sandbox.script(fill).await;
    sandbox.until_said(full, "full").await;

    sandbox.still_works().await;

    sandbox.provider.kill(sandbox.instance, full).await;
    assert_eq!(sandbox.how(full).await, (Cause::Cancelled, Some(137)));
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_the_cpu_time_limit_ends_an_execution() {
    let sandbox = Sandbox::with(Limits { cpu_time_ms: Some(500), ..Limits::default() }).await;

    assert_eq!(sandbox.end_of(SPIN).await, (Cause::CpuLimit, Some(137)));

    assert_eq!(sandbox.end_of("sleep 0.8").await, (Cause::Completed, Some(0)), "sleeping uses no CPU time");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_time_is_counted_over_all_processes_of_an_execution() {
    let sandbox = Sandbox::with(Limits { cpu_time_ms: Some(500), ..Limits::default() }).await;

    let spin_aside = format!("setsid sh -c '{SPIN}' & sleep 1000");

    assert_eq!(sandbox.end_of(&spin_aside).await, (Cause::CpuLimit, Some(137)));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_without_a_control_plane() {
    let limits = Limits { cpu_time_ms: Some(300), output_mb: Some(1), ..Limits::default() };
    let mut sandbox = Sandbox::with(limits).await;
    let spin = sandbox.script(SPIN).await;
    let flood = sandbox.script("yes").await;

    // As after a crash and restart of the control plane.
    sandbox.provider = Arc::new(LinuxProvider::open(config::config(sandbox.data.path())).unwrap());

    assert_eq!(sandbox.how(spin).await, (Cause::CpuLimit, Some(137)));
    assert_eq!(sandbox.how(flood).await, (Cause::OutputLimit, Some(137)));
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_usage_stays_within_the_cpu_share() {
    let sandbox = Sandbox::with(Limits { cpu_millis: Some(200), ..Limits::default() }).await;
    let limits = ExecutionLimits { timeout_ms: Some(1_500), ..ExecutionLimits::default() };

    let spin = sandbox.exec(&sh(SPIN), limits).await;

    assert_eq!(sandbox.how(spin).await, (Cause::TimeLimit, Some(137)));
    let used = sandbox.provider.usage(sandbox.instance).await.unwrap();
    assert!(used.cpu_ms.unwrap() < 1_000, "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_the_time_limit_ends_an_execution() {
    let sandbox = Sandbox::plain().await;
    let limits = ExecutionLimits { timeout_ms: Some(300), ..ExecutionLimits::default() };

    let execution = sandbox.exec(&sh("trap '' TERM; sleep 1000"), limits).await;

    assert_eq!(sandbox.how(execution).await, (Cause::TimeLimit, Some(137)));
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inactivity_ends_an_execution_and_output_defers_it() {
    let sandbox = Sandbox::plain().await;
    let limits = ExecutionLimits { inactivity_ms: Some(1_000), ..ExecutionLimits::default() };

    let chatty = "for i in 1 2 3 4 5 6; do sleep 0.3; echo $i; done";
    let silent = sandbox.exec(&sh("echo hello; sleep 1000"), limits).await;
    let chatty = sandbox.exec(&sh(chatty), limits).await;

    assert_eq!(sandbox.how(silent).await, (Cause::Inactivity, Some(137)));
    assert_eq!(sandbox.how(chatty).await, (Cause::Completed, Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_the_output_limit_ends_an_execution_and_no_more_is_kept() {
    let sandbox = Sandbox::with(Limits { output_mb: Some(1), ..Limits::default() }).await;

    let flood = sandbox.script("yes").await;

    assert_eq!(sandbox.how(flood).await, (Cause::OutputLimit, Some(137)));
    assert_eq!(sandbox.stdout(flood).len(), 1 << 20);
    sandbox.still_works().await;
}

fn operation_limit(operations: u64) -> Limits {
    Limits { operations: Some(operations), ..Limits::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_beyond_the_operation_limit_ends_all_executions() {
    let sandbox = Sandbox::with(operation_limit(5)).await;

    let silent = sandbox.script("sleep 1000").await;
    let chatty = sandbox.script("while :; do echo on; sleep 0.1; done").await;

    assert_eq!(sandbox.how(chatty).await, (Cause::OperationLimit, Some(137)));
    assert_eq!(sandbox.how(silent).await, (Cause::OperationLimit, Some(137)));
    assert!(sandbox.stdout(chatty).starts_with("on\non\non\n"), "output within the limit is kept");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reaching_the_operation_limit_ends_nothing() {
    let sandbox = Sandbox::with(operation_limit(3)).await;

    let ended = sandbox.end_of("echo one; sleep 0.1; echo two; sleep 0.3").await;

    assert_eq!(ended, (Cause::Completed, Some(0)));
    assert_eq!(sandbox.provider.usage(sandbox.instance).await.unwrap().operations, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_beyond_the_operation_limit_are_not_started_and_end_running_ones() {
    let sandbox = Sandbox::with(operation_limit(2)).await;
    assert_eq!(sandbox.end_of("true").await, (Cause::Completed, Some(0)));
    let running = sandbox.script("sleep 1000").await;

    for _ in 0..2 {
        let refused = sandbox.script("echo ran").await;
        assert_eq!(sandbox.how(refused).await, (Cause::OperationLimit, None));
        assert_eq!(sandbox.stdout(refused), "");
    }

    assert_eq!(sandbox.how(running).await, (Cause::OperationLimit, Some(137)));
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_written_just_before_exit_counts_as_an_operation() {
    let sandbox = Sandbox::with(operation_limit(1)).await;

    assert_eq!(sandbox.end_of("echo on").await.0, Cause::OperationLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_large_output_is_kept_and_the_rest_is_a_gap() {
    const MUCH: u64 = 20_000_000;
    let sandbox = Sandbox::plain().await;

    let execution = sandbox.script(&format!("head -c {MUCH} /dev/zero; echo end")).await;
    assert_eq!(sandbox.how(execution).await, (Cause::Completed, Some(0)));

    let entries = sandbox.entries(execution);
    let OutputEntry::Gap(OutputGap { from_seq: 1, bytes, .. }) = entries[0] else {
        panic!("{:?}", entries[0])
    };
    let kept = sandbox.stdout(execution);
    assert!(kept.ends_with("\0end\n"));
    assert_eq!(bytes + kept.len() as u64, MUCH + 4);
    assert!(kept.len() > 6 << 20 && kept.len() < 9 << 20, "{}", kept.len());
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "measures how long an answer takes")]
async fn a_flood_of_output_does_not_delay_other_requests() {
    let sandbox = Sandbox::with(Limits { output_mb: Some(1_000_000), ..Limits::default() }).await;
    let flood = sandbox.script("yes").await;
    sandbox.until_said(flood, "y\n").await;

    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(sandbox.provider.ping(sandbox.instance).await, ProbeResult::Passed);
    }
    assert_eq!(sandbox.end_of("exit 0").await.1, Some(0));

    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    sandbox.provider.kill(sandbox.instance, flood).await;
    assert_eq!(sandbox.how(flood).await.0, Cause::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_the_open_files_limit_fails_inside_and_ends_nothing() {
    let sandbox = Sandbox::with(Limits { open_files: Some(32), ..Limits::default() }).await;

    let open_many = r#"perl -e 'for (1..100) { open(my $f, "<", "/dev/null") or do { print "$_: $!"; exit };
        push @f, $f }'"#;
    let said = sandbox.says(open_many).await;

    assert!(said.ends_with("Too many open files"), "{said}");
    assert_eq!(sandbox.says("ulimit -n; ulimit -Hn").await, "32\n32\n");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_files_limit_too_low_to_start_anything_fails_the_start() {
    let limits = Limits { open_files: Some(3), ..Limits::default() };

    let started = tokio::spawn(Sandbox::with(limits)).await;

    let why = started.err().unwrap().into_panic();
    let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(why.contains("3 open files"), "{why}");
}

/// Forked twice, in its own session, ignores signals, and has none of the pipes of the first process.
const DAEMONIZE: &str = r#"(setsid sh -c 'trap "" TERM HUP INT PIPE; echo astray;
    exec tail -f /dev/null > /dev/null 2>&1' &) ; "#;

async fn daemonize(sandbox: &Sandbox, then: &str, limits: ExecutionLimits) -> ExecutionId {
    let execution = sandbox.exec(&sh(&format!("{DAEMONIZE}{then}")), limits).await;
    sandbox.until_said(execution, "astray").await;
    execution
}

#[tokio::test(flavor = "multi_thread")]
async fn daemonized_processes_are_gone_after_a_kill() {
    let sandbox = Sandbox::plain().await;
    let killed = daemonize(&sandbox, "sleep 1000", ExecutionLimits::default()).await;
    let other = daemonize(&sandbox, "sleep 1000", ExecutionLimits::default()).await;
    until_count(&sandbox, 2, "tail").await;

    sandbox.provider.kill(sandbox.instance, killed).await;

    assert_eq!(sandbox.how(killed).await, (Cause::Cancelled, Some(137)));
    until_count(&sandbox, 1, "tail").await;
    sandbox.provider.kill(sandbox.instance, other).await;
    until_count(&sandbox, 0, "tail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemonized_processes_are_gone_after_a_timeout() {
    let sandbox = Sandbox::plain().await;
    let limits = ExecutionLimits { timeout_ms: Some(1_000), ..ExecutionLimits::default() };

    let execution = daemonize(&sandbox, "sleep 1000", limits).await;

    assert_eq!(sandbox.how(execution).await, (Cause::TimeLimit, Some(137)));
    until_count(&sandbox, 0, "tail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemonized_processes_are_gone_when_the_first_process_ends() {
    let sandbox = Sandbox::plain().await;

    let execution = daemonize(&sandbox, "sleep 0.3; exit 4", ExecutionLimits::default()).await;

    assert_eq!(sandbox.how(execution).await, (Cause::ExitNonzero, Some(4)));
    until_count(&sandbox, 0, "tail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_process_that_ends_at_once_leaves_nothing_behind() {
    let sandbox = Sandbox::plain().await;

    for _ in 0..10 {
        let execution = sandbox.script("setsid tail -f /dev/null > /dev/null 2>&1 & exit 0").await;
        assert_eq!(sandbox.how(execution).await, (Cause::Completed, Some(0)));
    }

    until_count(&sandbox, 0, "tail").await;
}

#[test]
fn keeper_limits_hold_for_an_unprivileged_user() {
    unprivileged_user::run_tests(&[
        "exceeding_the_cpu_time_limit_ends_an_execution",
        "cpu_time_is_counted_over_all_processes_of_an_execution",
        "limits_hold_without_a_control_plane",
        "exceeding_the_time_limit_ends_an_execution",
        "inactivity_ends_an_execution_and_output_defers_it",
        "exceeding_the_output_limit_ends_an_execution_and_no_more_is_kept",
        "output_beyond_the_operation_limit_ends_all_executions",
        "executions_beyond_the_operation_limit_are_not_started_and_end_running_ones",
        "the_end_of_large_output_is_kept_and_the_rest_is_a_gap",
        "a_flood_of_output_does_not_delay_other_requests",
        "exceeding_the_open_files_limit_fails_inside_and_ends_nothing",
        "daemonized_processes_are_gone_after_a_kill",
        "daemonized_processes_are_gone_after_a_timeout",
        "daemonized_processes_are_gone_when_the_first_process_ends",
        "a_first_process_that_ends_at_once_leaves_nothing_behind",
    ]);
}
