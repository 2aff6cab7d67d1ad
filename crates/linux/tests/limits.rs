//! Every limit breached by a real sandbox, and what is said of it afterwards: its cause and exit code, with the keeper
//! unharmed. Each breach is bounded, whatever the limit does.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "ground/config.rs"]
mod config;
#[path = "ground/sandbox.rs"]
mod sandbox;
#[path = "ground/somebody.rs"]
mod somebody;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_keeper::log::{Entry, Gap};
use pinfold_lifecycle::{Cause, ExecutionId, ExecutionLimits, Limits, Probed};
use pinfold_linux::LinuxProvider;
use pinfold_provider::Provider;
use sandbox::{Sandbox, sh, until};

/// How many processes inside have this name.
async fn count(sandbox: &Sandbox, name: &str) -> usize {
    let names = sandbox.says("cat /proc/[0-9]*/comm").await;
    names.lines().filter(|line| *line == name).count()
}

async fn until_left(sandbox: &Sandbox, many: usize, name: &str) {
    until("so many are left", || async { count(sandbox, name).await == many }).await;
}

const SPIN: &str = "while :; do :; done";

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_not_there_ends_an_execution() {
    let sandbox = Sandbox::with(Limits { memory_mb: Some(64), ..Limits::default() }).await;

    assert_eq!(sandbox.end_of("exec tail /dev/zero").await, (Cause::MemoryLimit, Some(137)));

    sandbox.still_works().await;
    assert_eq!(sandbox.end_of("exit 3").await, (Cause::ExitNonzero, Some(3)));
    let used = sandbox.provider.usage(sandbox.body).await.unwrap();
    assert!(used.memory_peak_bytes > Some(32 << 20), "{used:?}");
}

/// In v2 the whole work goes with the one that took too much.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_takes_too_much_memory_is_the_cause_of_its_parents_failure() {
    let sandbox = Sandbox::with(Limits { memory_mb: Some(64), ..Limits::default() }).await;

    let (cause, code) = sandbox.end_of("tail /dev/zero; exit 5").await;

    assert_eq!(cause, Cause::MemoryLimit);
    assert!(matches!(code, Some(5 | 137)), "{code:?}");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_cannot_be_made_are_the_cause_of_a_failure() {
    let sandbox = Sandbox::with(Limits { processes: Some(32), ..Limits::default() }).await;

    let bomb = "i=0; while [ $i -lt 300 ]; do sleep 100 & i=$((i+1)); done; wait";
    let (cause, code) = sandbox.end_of(bomb).await;

    assert_eq!(cause, Cause::ProcessLimit);
    assert_ne!(code, Some(0));
    // What the bomb left behind is gone with it: there is room for as many again.
    assert_eq!(sandbox.end_of("for i in 1 2 3 4 5 6; do sleep 0.01 & done; wait").await.1, Some(0));
    assert_eq!(sandbox.end_of("exit 3").await, (Cause::ExitNonzero, Some(3)));
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_with_no_room_for_a_process_passes_its_probe() {
    let sandbox = Sandbox::with(Limits { processes: Some(32), ..Limits::default() }).await;
    let fill = r#"perl -e '$| = 1; while (defined(my $child = fork)) { sleep 1000 if !$child }
        print "full"; sleep 1000'"#;
    let full = sandbox.script(fill).await;
    sandbox.until_said(full, "full").await;

    sandbox.still_works().await;

    sandbox.provider.kill(sandbox.body, full).await;
    assert_eq!(sandbox.how(full).await, (Cause::Cancelled, Some(137)));
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_time_that_is_used_up_ends_an_execution() {
    let sandbox = Sandbox::with(Limits { cpu_time_ms: Some(500), ..Limits::default() }).await;

    assert_eq!(sandbox.end_of(SPIN).await, (Cause::CpuLimit, Some(137)));

    assert_eq!(sandbox.end_of("sleep 0.8").await, (Cause::Completed, Some(0)), "sleep is no use of CPU");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_time_is_counted_over_all_processes_of_an_execution() {
    let sandbox = Sandbox::with(Limits { cpu_time_ms: Some(500), ..Limits::default() }).await;

    let spin_aside = format!("setsid sh -c '{SPIN}' & sleep 1000");

    assert_eq!(sandbox.end_of(&spin_aside).await, (Cause::CpuLimit, Some(137)));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_while_no_control_plane_is_there() {
    let limits = Limits { cpu_time_ms: Some(300), output_mb: Some(1), ..Limits::default() };
    let mut sandbox = Sandbox::with(limits).await;
    let spin = sandbox.script(SPIN).await;
    let flood = sandbox.script("yes").await;

    // As if every process of it had been killed and another had come up.
    sandbox.provider = Arc::new(LinuxProvider::open(config::config(sandbox.data.path())).unwrap());

    assert_eq!(sandbox.how(spin).await, (Cause::CpuLimit, Some(137)));
    assert_eq!(sandbox.how(flood).await, (Cause::OutputLimit, Some(137)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_the_cpu_is_all_that_can_be_used() {
    let sandbox = Sandbox::with(Limits { cpu_millis: Some(200), ..Limits::default() }).await;
    let limits = ExecutionLimits { timeout_ms: Some(1_500), ..ExecutionLimits::default() };

    let spin = sandbox.exec(&sh(SPIN), limits).await;

    assert_eq!(sandbox.how(spin).await, (Cause::TimeLimit, Some(137)));
    let used = sandbox.provider.usage(sandbox.body).await.unwrap();
    assert!(used.cpu_ms.unwrap() < 1_000, "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_is_up_ends_an_execution() {
    let sandbox = Sandbox::plain().await;
    let limits = ExecutionLimits { timeout_ms: Some(300), ..ExecutionLimits::default() };

    let execution = sandbox.exec(&sh("trap '' TERM; sleep 1000"), limits).await;

    assert_eq!(sandbox.how(execution).await, (Cause::TimeLimit, Some(137)));
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_an_execution_and_output_puts_that_off() {
    let sandbox = Sandbox::plain().await;
    let limits = ExecutionLimits { inactivity_ms: Some(1_000), ..ExecutionLimits::default() };

    let chatty = "for i in 1 2 3 4 5 6; do sleep 0.3; echo $i; done";
    let silent = sandbox.exec(&sh("echo hello; sleep 1000"), limits).await;
    let chatty = sandbox.exec(&sh(chatty), limits).await;

    assert_eq!(sandbox.how(silent).await, (Cause::Inactivity, Some(137)));
    assert_eq!(sandbox.how(chatty).await, (Cause::Completed, Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_ends_with_its_limit_and_no_more_is_kept() {
    let sandbox = Sandbox::with(Limits { output_mb: Some(1), ..Limits::default() }).await;

    let flood = sandbox.script("yes").await;

    assert_eq!(sandbox.how(flood).await, (Cause::OutputLimit, Some(137)));
    assert_eq!(sandbox.stdout(flood).len(), 1 << 20);
    sandbox.still_works().await;
}

fn so_many(operations: u64) -> Limits {
    Limits { operations: Some(operations), ..Limits::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_pieces_of_output_than_allowed_end_all_that_runs() {
    let sandbox = Sandbox::with(so_many(5)).await;

    let silent = sandbox.script("sleep 1000").await;
    let chatty = sandbox.script("while :; do echo on; sleep 0.1; done").await;

    assert_eq!(sandbox.how(chatty).await, (Cause::OperationLimit, Some(137)));
    assert_eq!(sandbox.how(silent).await, (Cause::OperationLimit, Some(137)));
    assert!(sandbox.stdout(chatty).starts_with("on\non\non\n"), "what it was allowed to write is kept");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_operations_as_allowed_end_nothing() {
    let sandbox = Sandbox::with(so_many(3)).await;

    let ended = sandbox.end_of("echo one; sleep 0.1; echo two; sleep 0.3").await;

    assert_eq!(ended, (Cause::Completed, Some(0)));
    assert_eq!(sandbox.provider.usage(sandbox.body).await.unwrap().operations, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_executions_than_allowed_are_not_started_and_end_those_that_run() {
    let sandbox = Sandbox::with(so_many(2)).await;
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
async fn what_is_written_with_the_last_breath_counts_too() {
    let sandbox = Sandbox::with(so_many(1)).await;

    assert_eq!(sandbox.end_of("echo on").await.0, Cause::OperationLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_much_output_the_last_is_kept_and_the_rest_is_a_gap() {
    const MUCH: u64 = 20_000_000;
    let sandbox = Sandbox::plain().await;

    let execution = sandbox.script(&format!("head -c {MUCH} /dev/zero; echo end")).await;
    assert_eq!(sandbox.how(execution).await, (Cause::Completed, Some(0)));

    let entries = sandbox.entries(execution);
    let Entry::Gap(Gap { from_seq: 1, bytes, .. }) = entries[0] else { panic!("{:?}", entries[0]) };
    let kept = sandbox.stdout(execution);
    assert!(kept.ends_with("\0end\n"));
    assert_eq!(bytes + kept.len() as u64, MUCH + 4);
    assert!(kept.len() > 6 << 20 && kept.len() < 9 << 20, "{}", kept.len());
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "measures how long an answer takes")]
async fn a_flood_holds_nobody_else_up() {
    let sandbox = Sandbox::with(Limits { output_mb: Some(1_000_000), ..Limits::default() }).await;
    let flood = sandbox.script("yes").await;
    sandbox.until_said(flood, "y\n").await;

    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(sandbox.provider.ping(sandbox.body).await, Probed::Passed);
    }
    assert_eq!(sandbox.end_of("exit 0").await.1, Some(0));

    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    sandbox.provider.kill(sandbox.body, flood).await;
    assert_eq!(sandbox.how(flood).await.0, Cause::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_opened_fail_inside_and_end_nothing() {
    let sandbox = Sandbox::with(Limits { open_files: Some(32), ..Limits::default() }).await;

    let open_many = r#"perl -e 'for (1..100) { open(my $f, "<", "/dev/null") or do { print "$_: $!"; exit };
        push @f, $f }'"#;
    let said = sandbox.says(open_many).await;

    assert!(said.ends_with("Too many open files"), "{said}");
    assert_eq!(sandbox.says("ulimit -n; ulimit -Hn").await, "32\n32\n");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_open_files_to_start_anything_is_no_sandbox() {
    let limits = Limits { open_files: Some(3), ..Limits::default() };

    let started = tokio::spawn(Sandbox::with(limits)).await;

    let why = started.err().unwrap().into_panic();
    let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(why.contains("3 open files"), "{why}");
}

/// Two forks, a session of its own, deaf to signals, and nothing to do with the pipes of the first process.
const STRAY: &str = r#"(setsid sh -c 'trap "" TERM HUP INT PIPE; echo astray;
    exec tail -f /dev/null > /dev/null 2>&1' &) ; "#;

async fn stray(sandbox: &Sandbox, then: &str, limits: ExecutionLimits) -> ExecutionId {
    let execution = sandbox.exec(&sh(&format!("{STRAY}{then}")), limits).await;
    sandbox.until_said(execution, "astray").await;
    execution
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strays_is_gone_after_a_kill() {
    let sandbox = Sandbox::plain().await;
    let killed = stray(&sandbox, "sleep 1000", ExecutionLimits::default()).await;
    let other = stray(&sandbox, "sleep 1000", ExecutionLimits::default()).await;
    until_left(&sandbox, 2, "tail").await;

    sandbox.provider.kill(sandbox.body, killed).await;

    assert_eq!(sandbox.how(killed).await, (Cause::Cancelled, Some(137)));
    until_left(&sandbox, 1, "tail").await;
    sandbox.provider.kill(sandbox.body, other).await;
    until_left(&sandbox, 0, "tail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strays_is_gone_after_a_timeout() {
    let sandbox = Sandbox::plain().await;
    let limits = ExecutionLimits { timeout_ms: Some(1_000), ..ExecutionLimits::default() };

    let execution = stray(&sandbox, "sleep 1000", limits).await;

    assert_eq!(sandbox.how(execution).await, (Cause::TimeLimit, Some(137)));
    until_left(&sandbox, 0, "tail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strays_is_gone_when_the_first_process_ends() {
    let sandbox = Sandbox::plain().await;

    let execution = stray(&sandbox, "sleep 0.3; exit 4", ExecutionLimits::default()).await;

    assert_eq!(sandbox.how(execution).await, (Cause::ExitNonzero, Some(4)));
    until_left(&sandbox, 0, "tail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_process_that_ends_at_once_leaves_nothing_behind() {
    let sandbox = Sandbox::plain().await;

    for _ in 0..10 {
        let execution = sandbox.script("setsid tail -f /dev/null > /dev/null 2>&1 & exit 0").await;
        assert_eq!(sandbox.how(execution).await, (Cause::Completed, Some(0)));
    }

    until_left(&sandbox, 0, "tail").await;
}

#[test]
fn limits_that_the_keeper_holds_hold_for_an_ordinary_user_too() {
    somebody::keeps(&[
        "cpu_time_that_is_used_up_ends_an_execution",
        "cpu_time_is_counted_over_all_processes_of_an_execution",
        "limits_hold_while_no_control_plane_is_there",
        "time_that_is_up_ends_an_execution",
        "silence_ends_an_execution_and_output_puts_that_off",
        "a_flood_of_output_ends_with_its_limit_and_no_more_is_kept",
        "more_pieces_of_output_than_allowed_end_all_that_runs",
        "more_executions_than_allowed_are_not_started_and_end_those_that_run",
        "of_much_output_the_last_is_kept_and_the_rest_is_a_gap",
        "a_flood_holds_nobody_else_up",
        "files_that_cannot_be_opened_fail_inside_and_end_nothing",
        "what_strays_is_gone_after_a_kill",
        "what_strays_is_gone_after_a_timeout",
        "what_strays_is_gone_when_the_first_process_ends",
        "a_first_process_that_ends_at_once_leaves_nothing_behind",
    ]);
}
