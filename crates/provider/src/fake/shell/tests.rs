//! Scripts, and what they print and end with.

use pinfold_lifecycle::{Cause, Command, ExecutionLimits, Outcome, Timestamp};

use super::super::file_tree::FileTree;
use super::super::process::Process;
use super::{Stream, Written};
use crate::{StdinWrite, TerminalSize};

/// A process on its own, with a clock of its own.
struct Run {
    process: Process,
    files: FileTree,
    written: Vec<Written>,
}

impl Run {
    fn of(command: Command, limits: ExecutionLimits) -> Self {
        let (files, now) = (FileTree::new(Timestamp(0)), Timestamp(0));
        Self {
            process: Process::start(&command, b"/workspace".to_vec(), limits, Some(1_500), now),
            files,
            written: Vec::new(),
        }
    }

    fn sh(script: &str) -> Self {
        Self::of(command(script), ExecutionLimits::default())
    }

    fn until(&mut self, ms: i64) -> &mut Self {
        while self.process.next_event().is_some_and(|at| at <= Timestamp(ms)) {
            let written = self.process.step(&mut self.files);
            self.written.extend(written);
        }
        self
    }

    fn type_in(&mut self, at: u64, text: &str, close: bool, now: i64) {
        let write = StdinWrite { at, bytes: text.as_bytes(), close };
        let (_, echoed) = self.process.write(write, Timestamp(now)).unwrap();
        self.written.extend(echoed);
    }

    fn text(&self, stream: Stream) -> String {
        let of_stream = self.written.iter().filter(|written| written.stream == stream);
        of_stream.map(|written| String::from_utf8_lossy(&written.bytes)).collect()
    }

    fn stdout(&self) -> String {
        self.text(Stream::Stdout)
    }

    fn exit_code(&self) -> Option<i32> {
        self.process.outcome().and_then(|outcome| outcome.exit_code)
    }
}

fn command(script: &str) -> Command {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Command { argv, ..Command::default() }
}

#[track_caller]
fn prints(script: &str, stdout: &str, code: i32) {
    let mut run = Run::sh(script);
    run.until(60_000);
    let stderr = run.text(Stream::Stderr);
    assert_eq!((run.stdout().as_str(), run.exit_code()), (stdout, Some(code)), "{script}: {stderr}");
}

#[test]
fn lists_and_conditions_run_in_order() {
    prints("echo one; echo two\necho three", "one\ntwo\nthree\n", 0);
    prints("true && echo yes || echo no; false && echo yes || echo no", "yes\nno\n", 0);
    prints("echo out; echo err >&2; exit 3", "out\n", 3);
    prints("# a comment\necho -n 'a  b'; echo \" $UNSET;\"; exit", "a  b ;\n", 0);
}

#[test]
fn loops_and_arithmetic_count() {
    prints("i=1; while [ $i -le 3 ]; do echo $i; i=$((i+1)); sleep 0.01; done", "1\n2\n3\n", 0);
    prints("for i in 1 2 3; do echo line $i; sleep 0.1; done", "line 1\nline 2\nline 3\n", 0);
    prints("i=0; while [ $i -lt 100 ]; do i=$((i + 1)); done; echo $i", "100\n", 0);
}

#[test]
fn files_are_read_and_written_by_redirections_and_pipes() {
    prints("echo half > half; cat half; echo more >> half; wc -c < half", "half\n10\n", 0);
    prints("mkdir out; printf 'x' | cat - half > out/data; cat out/data", "x", 0);
    prints("echo done | tee result; cat result", "done\ndone\n", 0);
    prints("rm none && echo works; mkdir -p d/e; stat -c %a d; ls /workspace", "755\nd\n", 0);
    prints("echo a sleep | grep -c sleep; cat /proc/1/comm", "1\nkeeper\n", 0);
}

#[test]
fn output_of_commands_and_variables_become_words() {
    prints("x=$(echo a b); echo $x \"$x\" '$x'; LAST='echo c d'; $LAST", "a b a b $x\nc d\n", 0);
    prints("[ \"$(echo one)\" = one ] && echo same", "same\n", 0);
}

#[test]
fn printf_prints_bytes_by_octal_number() {
    let mut run = Run::sh(r"printf '\377\000\n'");
    run.until(0);
    assert_eq!(run.written[0].bytes, [0xff, 0, b'\n']);
}

#[test]
fn unknown_command_ends_with_127_and_a_message_on_stderr() {
    let mut run = Run::sh("nonsense --flag");
    run.until(0);
    assert_eq!(
        (run.exit_code(), run.text(Stream::Stderr).as_str()),
        (Some(127), "sh: nonsense: not found\n")
    );
    prints("while true; echo", "", 2);
}

#[test]
fn executable_file_runs_as_a_script_with_the_variables_of_its_caller() {
    let mut run = Run::sh("./tool; echo after; exit 3");
    let content = b"#!/bin/sh\necho $WORD\nexit 9\n".to_vec();
    run.files.write(b"/workspace/tool".to_vec(), Some(0o755), content, Timestamp(0)).unwrap();

    run.until(0);

    assert_eq!((run.stdout().as_str(), run.exit_code()), ("\nafter\n", Some(3)));
}

#[test]
fn output_has_the_time_of_its_command() {
    let mut run = Run::sh("echo one; sleep 0.05; echo two; exec sleep 1000");

    run.until(10_000);

    let times: Vec<_> = run.written.iter().map(|written| written.at.0).collect();
    assert_eq!((times, run.exit_code()), (vec![0, 50], None));
    assert_eq!(run.process.processes().map(|it| it.name).collect::<Vec<_>>(), ["sleep"]);
}

#[test]
fn trapped_signal_runs_its_commands_and_others_end_the_process() {
    let script = "trap 'echo caught; exit 7' USR1; trap '' TERM; echo ready; while :; do sleep 1; done";
    let mut run = Run::sh(script);
    run.until(500).process.signal(15, Timestamp(500)).unwrap();
    run.until(2_000).process.signal(10, Timestamp(2_000)).unwrap();
    run.until(2_000);
    assert_eq!((run.stdout().as_str(), run.exit_code()), ("ready\ncaught\n", Some(7)));

    let mut run = Run::sh("trap '' TERM; sleep 60");
    run.until(0).process.signal(9, Timestamp(0)).unwrap();
    assert_eq!(run.exit_code(), Some(137));
    prints("kill -SEGV $$; echo after", "", 139);
}

#[test]
fn busy_loop_takes_cpu_time_and_sees_files_of_others() {
    let mut run = Run::sh("while [ ! -e /workspace/go ]; do :; done; echo seen");
    run.until(1_000);
    assert!(run.process.is_runnable());
    assert_eq!(run.process.cpu_ms(Timestamp(1_000)), 1_000);

    run.files.write(b"/workspace/go".to_vec(), None, Vec::new(), Timestamp(1_000)).unwrap();
    run.until(1_100);

    assert_eq!((run.stdout().as_str(), run.exit_code()), ("seen\n", Some(0)));
}

#[test]
fn background_commands_run_beside_the_script_and_end_with_it() {
    prints("sleep 1000 & echo first", "first\n", 0);
    let mut run = Run::sh("sleep 5 & wait; echo after");
    run.until(4_999);
    assert_eq!(run.process.processes().count(), 2);
    assert_eq!(run.until(5_000).stdout(), "after\n");
}

#[test]
fn time_and_inactivity_limits_end_the_process() {
    let limits = ExecutionLimits { timeout_ms: Some(1_000), inactivity_ms: Some(300) };
    for (script, cause) in [
        ("sleep 30", Cause::Inactivity),
        ("while echo on; do sleep 0.2; done", Cause::TimeLimit),
        ("work 5000 0", Cause::TimeLimit),
    ] {
        let mut run = Run::of(command(script), limits);
        run.until(5_000);
        let expected = Outcome { exit_code: Some(137), ..Outcome::ended_for(cause) };
        assert_eq!(run.process.outcome(), Some(&expected), "{script}");
    }
}

#[test]
fn cpu_limit_ends_only_a_process_that_computes() {
    for (script, ended) in [
        ("while :; do :; done", Some(137)),
        ("sleep 0.2; compute", Some(137)),
        ("starve", None),
        ("while :; do sleep 1; done", None),
    ] {
        let mut run = Run::sh(script);
        run.until(1_499);
        assert_eq!(run.exit_code(), None, "{script}");
        assert_eq!(run.until(1_800).exit_code(), ended, "{script}");
    }
}

#[test]
fn input_reaches_the_commands_that_read_it() {
    let with_input = |script| Run::of(Command { stdin: true, ..command(script) }, ExecutionLimits::default());
    let mut run = with_input("read line; echo got $line; cat");
    run.until(0).type_in(0, "one\ntw", false, 100);
    run.until(100).type_in(6, "o\n", true, 200);
    run.until(200);
    assert_eq!((run.stdout().as_str(), run.exit_code()), ("got one\ntwo\n", Some(0)));

    let mut run = with_input("wc -c");
    run.until(0).type_in(0, &"x".repeat(1_000), true, 0);
    assert_eq!(run.until(0).stdout(), "1000\n");
    prints("cat; mkfifo /tmp/never; echo no input", "no input\n", 0);
}

#[test]
fn shell_on_a_terminal_runs_the_lines_typed_into_it() {
    let command = Command { argv: vec!["sh".into()], tty: true, ..Command::default() };
    let mut run = Run::of(command, ExecutionLimits::default());
    run.process.resize(TerminalSize { columns: 91, rows: 37 }).unwrap();

    run.until(0).type_in(0, "stty size; test -t 0 && echo is-$((40+2))\n", false, 0);
    run.until(0);
    let shown = run.stdout();
    assert!(shown.contains("37 91\r\n") && shown.contains("is-42\r\n"), "{shown}");

    run.type_in(42, "exit 3\n", false, 0);
    assert_eq!(run.until(0).exit_code(), Some(3));
}
