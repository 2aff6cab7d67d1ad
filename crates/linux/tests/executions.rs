//! Executions in a real sandbox as whoever started them sees them: fed, signalled, on a terminal, apart from each other.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "ground/config.rs"]
mod config;
#[path = "executions/endings.rs"]
mod endings;
#[path = "executions/probes.rs"]
mod probes;
#[path = "ground/sandbox.rs"]
mod sandbox;
#[path = "ground/somebody.rs"]
mod somebody;
#[path = "executions/traced.rs"]
mod traced;

use pinfold_lifecycle::{Cause, Command, ExecutionId, ExecutionLimits, Limits, ProbeFailure, Probed};
use pinfold_linux::cgroup::Cgroups;
use pinfold_provider::{ExecError, Fed, Feed, FeedError, Provider, ResizeError, SignalError, TerminalSize};
use sandbox::{Sandbox, sh, until};

const NO_LIMITS: ExecutionLimits = ExecutionLimits { timeout_ms: None, inactivity_ms: None };

/// Feeds until all of it is accepted.
async fn feed(sandbox: &Sandbox, execution: ExecutionId, at: u64, bytes: &[u8], close: bool) {
    let end = at + bytes.len() as u64;
    let accepted = || async {
        let fed = sandbox.provider.feed(sandbox.body, execution, Feed { at, bytes, close }).await;
        fed.unwrap().accepted >= end
    };
    until("all is accepted", accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_fed_is_read_once_and_in_order() {
    let sandbox = Sandbox::plain().await;
    let cat = sandbox.exec(&Command { stdin: true, ..sh("cat") }, NO_LIMITS).await;

    feed(&sandbox, cat, 0, b"one ", false).await;
    feed(&sandbox, cat, 0, b"one ", false).await;
    feed(&sandbox, cat, 2, b"e two", false).await;
    let beyond = Feed { at: 100, bytes: b"never", close: false };
    assert_eq!(sandbox.provider.feed(sandbox.body, cat, beyond).await.unwrap().accepted, 7);
    feed(&sandbox, cat, 7, b" end", true).await;

    assert_eq!(sandbox.how(cat).await, (Cause::Completed, Some(0)));
    assert_eq!(sandbox.stdout(cat), "one two end");
    let late = sandbox.provider.feed(sandbox.body, cat, beyond).await;
    assert_eq!(late, Err(FeedError::NotRunning));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_holds_nobody_up() {
    let sandbox = Sandbox::plain().await;
    let deaf = sandbox.exec(&Command { stdin: true, ..sh("sleep 1000") }, NO_LIMITS).await;
    let much = vec![b'x'; 3 << 20];

    let mut fed = Fed { accepted: 0, closed: false };
    for _ in 0..30 {
        let rest = &much[usize::try_from(fed.accepted).unwrap()..];
        let feed = Feed { at: fed.accepted, bytes: rest, close: true };
        fed = sandbox.provider.feed(sandbox.body, deaf, feed).await.unwrap();
    }

    assert!(fed.accepted > 0 && fed.accepted < 1 << 20 && !fed.closed, "{fed:?}");
    sandbox.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn much_is_fed_in_pieces_and_all_of_it_arrives() {
    let sandbox = Sandbox::plain().await;
    let count = sandbox.exec(&Command { stdin: true, ..sh("wc -c") }, NO_LIMITS).await;
    let much = vec![b'x'; 2_500_000];

    let mut at = 0;
    while at < much.len() {
        let feed = Feed { at: at as u64, bytes: &much[at..], close: true };
        let fed = sandbox.provider.feed(sandbox.body, count, feed).await.unwrap();
        at = usize::try_from(fed.accepted).unwrap();
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
async fn without_an_input_there_is_nothing_to_read() {
    let sandbox = Sandbox::plain().await;

    let sleeper = sandbox.script("cat; sleep 1000").await;

    let feed = Feed { at: 0, bytes: b"x", close: false };
    assert_eq!(sandbox.provider.feed(sandbox.body, sleeper, feed).await, Err(FeedError::NoInput));
    let size = TerminalSize { columns: 1, rows: 1 };
    let resized = sandbox.provider.resize(sandbox.body, sleeper, size).await;
    assert_eq!(resized, Err(ResizeError::NoTerminal));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_echoes_is_resized_and_ends_its_input() {
    let sandbox = Sandbox::plain().await;
    let script = "tty; stty size; read line; echo \"got $line\"; stty size; cat; echo over";
    let shell = sandbox.exec(&Command { tty: true, ..sh(script) }, NO_LIMITS).await;
    sandbox.until_said(shell, "24 80\r\n").await;

    let size = TerminalSize { columns: 100, rows: 40 };
    sandbox.provider.resize(sandbox.body, shell, size).await.unwrap();
    feed(&sandbox, shell, 0, b"hello\n", false).await;
    sandbox.until_said(shell, "40 100\r\n").await;
    feed(&sandbox, shell, 6, b"", true).await;

    assert_eq!(sandbox.how(shell).await, (Cause::Completed, Some(0)));
    let said = sandbox.stdout(shell);
    assert!(said.starts_with("/dev/pts/0\r\n24 80\r\nhello\r\ngot hello\r\n40 100\r\n"), "{said:?}");
    assert!(said.ends_with("over\r\n"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_its_programs_own() {
    let sandbox = Sandbox::plain().await;
    let script = "echo ready; exec sleep 1000";
    let shell = sandbox.exec(&Command { tty: true, ..sh(script) }, NO_LIMITS).await;
    sandbox.until_said(shell, "ready").await;

    // Ctrl-C, which the terminal turns into a signal to whom it belongs.
    feed(&sandbox, shell, 0, b"\x03", false).await;

    assert_eq!(sandbox.how(shell).await, (Cause::ExitNonzero, Some(130)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_the_first_process_and_those_with_it() {
    let sandbox = Sandbox::plain().await;
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done";
    let trapping = sandbox.script(script).await;
    sandbox.until_said(trapping, "ready").await;

    let signal = |number| sandbox.provider.signal(sandbox.body, trapping, number);
    assert_eq!(signal(0).await, Err(SignalError::NoSuchSignal { signal: 0 }));
    assert_eq!(signal(4_000).await, Err(SignalError::NoSuchSignal { signal: 4_000 }));
    assert_eq!(signal(10).await, Ok(()));

    assert_eq!(sandbox.how(trapping).await.1, Some(9));
    assert_eq!(signal(10).await, Err(SignalError::NotRunning));
    let unknown = sandbox.provider.signal(sandbox.body, sandbox.fresh_execution(), 10).await;
    assert_eq!(unknown, Err(SignalError::NoSuchExecution));
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_side_by_side_know_nothing_of_each_others_environment() {
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
async fn nothing_inside_sees_where_its_control_groups_are() {
    let sandbox = Sandbox::plain().await;

    let said = sandbox.says("cat /proc/self/cgroup").await;

    assert!(!said.is_empty() && said.lines().all(|line| line.ends_with(":/")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_has_a_group_of_its_own_and_leaves_none() {
    let sandbox = Sandbox::with(Limits { processes: Some(50), ..Limits::default() }).await;
    let config = config::config(sandbox.data.path());
    let cgroups = Cgroups::detect(&format!("pinfold.{:032x}", config.instance)).unwrap();
    let body = format!("v1.{}.{}", sandbox.body.sandbox, sandbox.body.generation.0);
    let body = cgroups.open(&body).unwrap();
    let execution = sandbox.script("sleep 1000 & sleep 1000").await;
    let group = body.execution(&execution.to_string()).unwrap();

    until("both are there", || async { group.processes().unwrap().len() >= 2 }).await;
    sandbox.provider.kill(sandbox.body, execution).await;
    sandbox.outcome(execution).await;

    assert!(group.directory().is_err(), "the group of what has ended is still there");
    assert_eq!(sandbox.end_of("no-such-program").await.1, Some(127));
    sandbox.still_works().await;
    // The keeper alone is left.
    assert_eq!(body.processes().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_names_what_is_missing() {
    let sandbox = Sandbox::plain().await;
    assert_eq!(sandbox.provider.probe(sandbox.body).await, Probed::Passed);

    sandbox.says("mv /workspace /elsewhere").await;
    let missing = sandbox.provider.probe(sandbox.body).await;

    let Probed::Failed(ProbeFailure::Files { why }) = missing else { panic!("{missing:?}") };
    assert!(why.contains("`/workspace`"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_counted() {
    let sandbox = Sandbox::plain().await;
    let before = sandbox.provider.usage(sandbox.body).await.unwrap();

    sandbox.says("echo one; sleep 0.1; echo two").await;

    let after = sandbox.provider.usage(sandbox.body).await.unwrap();
    assert_eq!(before.operations, 0);
    assert_eq!(after.operations, 3, "one execution and two pieces of output");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_is_known_also_of_orphans() {
    let sandbox = Sandbox::plain().await;
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

    sandbox.says(&format!("(setsid sh -c '{spin}; echo done > spun' &); head -c 20m /dev/zero | tail -c 20m | wc -c; while ! [ -e spun ]; do sleep 0.01; done")).await;

    let used = sandbox.provider.usage(sandbox.body).await.unwrap();
    assert!(used.cpu_ms >= Some(30), "{used:?}");
    assert!(used.memory_peak_bytes >= Some(20 << 20), "{used:?}");
    assert!(used.memory_bytes.is_some() && used.processes == Some(0), "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_computes_is_seen_to_run_at_any_moment_and_what_sleeps_is_not() {
    let sandbox = Sandbox::plain().await;
    let sleeping = sandbox.exec(&sh("exec sleep 1000"), NO_LIMITS).await;
    let runs = || async { sandbox.provider.usage(sandbox.body).await.unwrap().runs };
    until("it sleeps", || async { runs().await == Some(false) }).await;

    let computing = sandbox.exec(&sh("echo on; while :; do :; done"), NO_LIMITS).await;
    until("it computes", || async { sandbox.stdout(computing) == "on\n" }).await;

    for _ in 0..5 {
        assert_eq!(runs().await, Some(true));
    }
    sandbox.provider.kill(sandbox.body, computing).await;
    assert_eq!(runs().await, Some(false));
    sandbox.provider.kill(sandbox.body, sleeping).await;
}

#[test]
fn executions_are_the_same_for_an_ordinary_user() {
    somebody::keeps(&[
        "what_computes_is_seen_to_run_at_any_moment_and_what_sleeps_is_not",
        "what_is_fed_is_read_once_and_in_order",
        "much_is_fed_in_pieces_and_all_of_it_arrives",
        "a_terminal_echoes_is_resized_and_ends_its_input",
        "a_terminal_is_its_programs_own",
        "a_signal_reaches_the_first_process_and_those_with_it",
        "an_execution_that_was_refused_is_never_started",
        "nothing_inside_sees_where_its_control_groups_are",
        "a_probe_names_what_is_missing",
        "what_was_done_is_counted",
        "executions_that_follow_each_other_at_once_do_not_end_each_other",
        "what_was_used_is_known_also_of_orphans",
        "probes::what_the_program_of_a_probe_leaves_behind_is_ended",
        "probes::a_probe_that_is_given_up_is_ended_with_all_that_it_began",
        "traced::what_has_itself_traced_by_its_keeper_has_not_ended_when_it_stops",
        "traced::what_another_execution_traces_is_gone_when_it_was_killed",
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_again_for_what_was_refused_hears_why() {
    let sandbox = Sandbox::plain().await;
    let (execution, limits) = (sandbox.fresh_execution(), ExecutionLimits::default());
    let impossible = Command { argv: vec!["tr\0ue".into()], ..Command::default() };

    let refused = sandbox.try_exec(execution, &impossible, limits).await.unwrap_err();
    let again = sandbox.try_exec(execution, &impossible, limits).await.unwrap_err();

    assert!(matches!(refused, ExecError::Refused { cause: Cause::StartFailed, .. }), "{refused:?}");
    assert_eq!(again, refused);
}

/// How nice a process is, as the kernel tells everybody.
const NICE: &str = "for p in 1 self; do sed 's/.*) //' /proc/$p/stat | cut -d' ' -f17; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_goes_before_what_runs_in_its_sandbox() {
    let sandbox = Sandbox::plain().await;
    let own = rustix::process::getpriority_process(None).unwrap();
    let (keeper, inside) = match own {
        0 if rustix::process::geteuid().is_root() => (-10, 0),
        own => (own, own),
    };

    assert_eq!(sandbox.says(NICE).await, format!("{keeper}\n{inside}\n"));
}
