//! Executions in a real sandbox: input, signals, terminals, separation from each other.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "fixture/config.rs"]
mod config;
#[path = "executions/endings.rs"]
mod endings;
#[path = "executions/ordinary_tools.rs"]
mod ordinary_tools;
#[path = "executions/probes.rs"]
mod probes;
#[path = "fixture/sandbox.rs"]
mod sandbox;
#[path = "executions/shared_programs.rs"]
mod shared_programs;
#[path = "executions/traced.rs"]
mod traced;
#[path = "fixture/unprivileged_user.rs"]
mod unprivileged_user;

use pinfold_lifecycle::{Cause, Command, ExecutionId, ExecutionLimits, Limits, ProbeFailure, ProbeResult};
use pinfold_linux::cgroup::Cgroups;
use pinfold_provider::{
    ExecError, Provider, ResizeError, SignalError, StdinError, StdinWrite, TerminalSize, WriteResult,
};
use pinfold_test_support::until_async;
use sandbox::{Sandbox, sh};

const NO_LIMITS: ExecutionLimits = ExecutionLimits { timeout_ms: None, inactivity_ms: None };

/// Writes input until all of it is accepted.
async fn write_input(sandbox: &Sandbox, execution: ExecutionId, at: u64, bytes: &[u8], close: bool) {
    let end = at + bytes.len() as u64;
    let accepted = || async {
        let written =
            sandbox.provider.write_stdin(sandbox.instance, execution, StdinWrite { at, bytes, close }).await;
        written.unwrap().accepted >= end
    };
    until_async("all is accepted", accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_is_read_once_and_in_order() {
    let sandbox = Sandbox::plain().await;
    let cat = sandbox.exec(&Command { stdin: true, ..sh("cat") }, NO_LIMITS).await;

    write_input(&sandbox, cat, 0, b"one ", false).await;
    write_input(&sandbox, cat, 0, b"one ", false).await;
    write_input(&sandbox, cat, 2, b"e two", false).await;
    let beyond = StdinWrite { at: 100, bytes: b"never", close: false };
    assert_eq!(sandbox.provider.write_stdin(sandbox.instance, cat, beyond).await.unwrap().accepted, 7);
    write_input(&sandbox, cat, 7, b" end", true).await;

    assert_eq!(sandbox.how(cat).await, (Cause::Completed, Some(0)));
    assert_eq!(sandbox.stdout(cat), "one two end");
    let late = sandbox.provider.write_stdin(sandbox.instance, cat, beyond).await;
    assert_eq!(late, Err(StdinError::NotRunning));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_its_input_does_not_block_the_keeper() {
    let sandbox = Sandbox::plain().await;
    let not_reading = sandbox.exec(&Command { stdin: true, ..sh("sleep 1000") }, NO_LIMITS).await;
    let much = vec![b'x'; 3 << 20];

    let mut written = WriteResult { accepted: 0, closed: false };
    for _ in 0..30 {
        let rest = &much[usize::try_from(written.accepted).unwrap()..];
        let write_input = StdinWrite { at: written.accepted, bytes: rest, close: true };
        written = sandbox.provider.write_stdin(sandbox.instance, not_reading, write_input).await.unwrap();
    }

    assert!(written.accepted > 0 && written.accepted < 1 << 20 && !written.closed, "{written:?}");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_input_is_written_in_pieces_and_arrives_completely() {
    let sandbox = Sandbox::plain().await;
    let count = sandbox.exec(&Command { stdin: true, ..sh("wc -c") }, NO_LIMITS).await;
    let much = vec![b'x'; 2_500_000];

    let mut at = 0;
    while at < much.len() {
        let write_input = StdinWrite { at: at as u64, bytes: &much[at..], close: true };
        let written = sandbox.provider.write_stdin(sandbox.instance, count, write_input).await.unwrap();
        at = usize::try_from(written.accepted).unwrap();
    }

    sandbox.outcome(count).await;
    assert_eq!(sandbox.stdout(count), "2500000\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_that_follow_each_other_at_once_do_not_end_each_other() {
    let sandbox = Sandbox::plain().await;

    for _ in 0..100 {
        let short = sandbox.exec(&sh("true"), NO_LIMITS).await;
        let next = sandbox.exec(&sh("exit 3"), NO_LIMITS).await;

        assert_eq!(sandbox.outcome(next).await.exit_code, Some(3));
        sandbox.outcome(short).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn execution_without_input_or_terminal_refuses_input_and_resize() {
    let sandbox = Sandbox::plain().await;

    let sleeper = sandbox.script("cat; sleep 1000").await;

    let write_input = StdinWrite { at: 0, bytes: b"x", close: false };
    assert_eq!(
        sandbox.provider.write_stdin(sandbox.instance, sleeper, write_input).await,
        Err(StdinError::NoInput)
    );
    let size = TerminalSize { columns: 1, rows: 1 };
    let resized = sandbox.provider.resize(sandbox.instance, sleeper, size).await;
    assert_eq!(resized, Err(ResizeError::NoTerminal));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_echoes_is_resized_and_closes_its_input() {
    let sandbox = Sandbox::plain().await;
    let script = "tty; stty size; read line; echo \"got $line\"; stty size; cat; echo over";
    let shell = sandbox.exec(&Command { tty: true, ..sh(script) }, NO_LIMITS).await;
    sandbox.until_said(shell, "24 80\r\n").await;

    let size = TerminalSize { columns: 100, rows: 40 };
    sandbox.provider.resize(sandbox.instance, shell, size).await.unwrap();
    write_input(&sandbox, shell, 0, b"hello\n", false).await;
    sandbox.until_said(shell, "40 100\r\n").await;
    write_input(&sandbox, shell, 6, b"", true).await;

    assert_eq!(sandbox.how(shell).await, (Cause::Completed, Some(0)));
    let said = sandbox.stdout(shell);
    assert!(said.starts_with("/dev/pts/0\r\n24 80\r\nhello\r\ngot hello\r\n40 100\r\n"), "{said:?}");
    assert!(said.ends_with("over\r\n"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_on_a_terminal_signals_its_program() {
    let sandbox = Sandbox::plain().await;
    let script = "echo ready; exec sleep 1000";
    let shell = sandbox.exec(&Command { tty: true, ..sh(script) }, NO_LIMITS).await;
    sandbox.until_said(shell, "ready").await;

    // Ctrl-C, which the terminal turns into a signal to its foreground process group.
    write_input(&sandbox, shell, 0, b"\x03", false).await;

    assert_eq!(sandbox.how(shell).await, (Cause::ExitNonzero, Some(130)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_the_process_group_of_the_execution() {
    let sandbox = Sandbox::plain().await;
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done";
    let trapping = sandbox.script(script).await;
    sandbox.until_said(trapping, "ready").await;

    let signal = |number| sandbox.provider.signal(sandbox.instance, trapping, number);
    assert_eq!(signal(0).await, Err(SignalError::NoSuchSignal { signal: 0 }));
    assert_eq!(signal(4_000).await, Err(SignalError::NoSuchSignal { signal: 4_000 }));
    assert_eq!(signal(10).await, Ok(()));

    assert_eq!(sandbox.how(trapping).await.1, Some(9));
    assert_eq!(signal(10).await, Err(SignalError::NotRunning));
    let unknown = sandbox.provider.signal(sandbox.instance, sandbox.fresh_execution(), 10).await;
    assert_eq!(unknown, Err(SignalError::NoSuchExecution));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_executions_do_not_see_each_others_environment() {
    let sandbox = Sandbox::plain().await;
    let env = [("CANARY".to_owned(), "sings".to_owned())].into();
    let one = sandbox.exec(&Command { env, ..sh("echo $CANARY; sleep 1000") }, NO_LIMITS).await;
    sandbox.until_said(one, "sings").await;

    let other = sandbox.says("env").await;

    assert!(!other.contains("CANARY"), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_was_refused_is_never_started() {
    let sandbox = Sandbox::plain().await;
    let execution = sandbox.fresh_execution();
    let nowhere = Command { workdir: Some("/no/such/place".into()), ..sh("echo first") };

    let first = sandbox.try_exec(execution, &nowhere, NO_LIMITS).await;
    let second = sandbox.try_exec(execution, &sh("echo second"), NO_LIMITS).await;

    let Err(ExecError::Refused { why, .. }) = first else { panic!("{first:?}") };
    assert!(why.contains("/no/such/place"), "{why}");
    assert!(matches!(second, Err(ExecError::Refused { .. })), "{second:?}");
    assert_eq!(sandbox.stdout(execution), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn cgroup_paths_of_the_host_are_hidden_inside() {
    let sandbox = Sandbox::plain().await;

    let said = sandbox.says("cat /proc/self/cgroup").await;

    assert!(!said.is_empty() && said.lines().all(|line| line.ends_with(":/")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_has_its_own_cgroup_and_it_is_removed_at_its_end() {
    let sandbox = Sandbox::with(Limits { processes: Some(50), ..Limits::default() }).await;
    let config = config::config(sandbox.data.path());
    let cgroups = Cgroups::detect(&format!("pinfold.{:032x}", config.store_id)).unwrap();
    let instance = format!("v1.{}.{}", sandbox.instance.sandbox, sandbox.instance.generation.0);
    let instance = cgroups.open(&instance).unwrap();
    let execution = sandbox.script("sleep 1000 & sleep 1000").await;
    let group = instance.execution(&execution.to_string()).unwrap();

    until_async("both processes run", || async { group.processes().unwrap().len() >= 2 }).await;
    sandbox.provider.kill(sandbox.instance, execution).await;
    sandbox.outcome(execution).await;

    assert!(group.directory().is_err(), "the cgroup of the ended execution still exists");
    assert_eq!(sandbox.end_of("no-such-program").await.1, Some(127));
    sandbox.still_works().await;
    // Only the keeper is left.
    assert_eq!(instance.processes().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_names_what_is_missing() {
    let sandbox = Sandbox::plain().await;
    assert_eq!(sandbox.provider.probe(sandbox.instance).await, ProbeResult::Passed);

    sandbox.says("mv /workspace /elsewhere").await;
    let missing = sandbox.provider.probe(sandbox.instance).await;

    let ProbeResult::Failed(ProbeFailure::Files { why }) = missing else { panic!("{missing:?}") };
    assert!(why.contains("`/workspace`"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_are_counted() {
    let sandbox = Sandbox::plain().await;
    let before = sandbox.provider.usage(sandbox.instance).await.unwrap();

    sandbox.says("echo one; sleep 0.1; echo two").await;

    let after = sandbox.provider.usage(sandbox.instance).await.unwrap();
    assert_eq!(before.operations, 0);
    assert_eq!(after.operations, 3, "one execution and two pieces of output");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_includes_orphaned_processes() {
    let sandbox = Sandbox::plain().await;
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

    sandbox.says(&format!("(setsid sh -c '{spin}; echo done > spun' &); head -c 20m /dev/zero | tail -c 20m | wc -c; while ! [ -e spun ]; do sleep 0.01; done")).await;

    let used = sandbox.provider.usage(sandbox.instance).await.unwrap();
    assert!(used.cpu_ms >= Some(30), "{used:?}");
    assert!(used.memory_peak_bytes >= Some(20 << 20), "{used:?}");
    assert!(used.memory_bytes.is_some() && used.processes == Some(0), "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn computing_execution_counts_as_running_and_sleeping_one_does_not() {
    let sandbox = Sandbox::plain().await;
    let sleeping = sandbox.exec(&sh("exec sleep 1000"), NO_LIMITS).await;
    let runs = || async { sandbox.provider.usage(sandbox.instance).await.unwrap().runs };
    until_async("it sleeps", || async { runs().await == Some(false) }).await;

    let computing = sandbox.exec(&sh("echo on; while :; do :; done"), NO_LIMITS).await;
    until_async("it is computing", || async { sandbox.stdout(computing) == "on\n" }).await;

    for _ in 0..5 {
        assert_eq!(runs().await, Some(true));
    }
    sandbox.provider.kill(sandbox.instance, computing).await;
    assert_eq!(runs().await, Some(false));
    sandbox.provider.kill(sandbox.instance, sleeping).await;
}

#[test]
fn executions_work_the_same_for_an_unprivileged_user() {
    unprivileged_user::run_tests(&[
        "computing_execution_counts_as_running_and_sleeping_one_does_not",
        "input_is_read_once_and_in_order",
        "large_input_is_written_in_pieces_and_arrives_completely",
        "a_terminal_echoes_is_resized_and_closes_its_input",
        "ctrl_c_on_a_terminal_signals_its_program",
        "a_signal_reaches_the_process_group_of_the_execution",
        "an_execution_that_was_refused_is_never_started",
        "cgroup_paths_of_the_host_are_hidden_inside",
        "a_probe_names_what_is_missing",
        "operations_are_counted",
        "executions_that_follow_each_other_at_once_do_not_end_each_other",
        "usage_includes_orphaned_processes",
        "probes::processes_left_behind_by_a_probe_are_killed",
        "probes::a_timed_out_probe_is_killed_with_all_its_processes",
        "traced::a_process_traced_by_its_keeper_has_not_ended_when_it_stops",
        "traced::a_process_traced_by_another_execution_is_gone_after_a_kill",
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_execution_is_refused_again_for_the_same_reason() {
    let sandbox = Sandbox::plain().await;
    let (execution, limits) = (sandbox.fresh_execution(), ExecutionLimits::default());
    let impossible = Command { argv: vec!["tr\0ue".into()], ..Command::default() };

    let refused = sandbox.try_exec(execution, &impossible, limits).await.unwrap_err();
    let again = sandbox.try_exec(execution, &impossible, limits).await.unwrap_err();

    assert!(matches!(refused, ExecError::Refused { cause: Cause::StartFailed, .. }), "{refused:?}");
    assert_eq!(again, refused);
}

/// Nice value of a process, from `/proc`.
const NICE: &str = "for p in 1 self; do sed 's/.*) //' /proc/$p/stat | cut -d' ' -f17; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_has_a_higher_priority_than_its_sandbox() {
    let sandbox = Sandbox::plain().await;
    let own = rustix::process::getpriority_process(None).unwrap();
    let (keeper, inside) = match own {
        0 if rustix::process::geteuid().is_root() => (-10, 0),
        own => (own, own),
    };

    assert_eq!(sandbox.says(NICE).await, format!("{keeper}\n{inside}\n"));
}
