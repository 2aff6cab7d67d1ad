//! The output of executions: numbered, followed while it is written, and kept until it is removed.

use pinfold_lifecycle::{ExecutionId, SandboxId};

use super::TestCommand;
use super::harness::{Harness, within};
use crate::{InstanceId, LockOutcome, OutputChunk, OutputEntry, OutputStream, ReadPosition, StdinWrite};

/// Two chunks at least, since the streams are apart.
const BOTH_STREAMS: &str = "echo out; echo err >&2";
/// File systems round times of files.
const ROUNDING_MS: i64 = 1_000;

fn read(
    harness: &Harness,
    sandbox: SandboxId,
    execution: ExecutionId,
    after: ReadPosition,
) -> Vec<OutputChunk> {
    let mut reader = harness.provider.output().reader(sandbox, execution, after);
    let mut chunks = Vec::new();
    while let Some(entry) =
        reader.next().unwrap_or_else(|error| panic!("the output is not readable: {error}"))
    {
        match entry {
            OutputEntry::Chunk(chunk) => chunks.push(chunk),
            OutputEntry::Gap(gap) => panic!("little output, and some of it is lost: {gap:?}"),
        }
    }
    chunks
}

fn read_all(harness: &Harness, sandbox: SandboxId, execution: ExecutionId) -> Vec<OutputChunk> {
    read(harness, sandbox, execution, ReadPosition::default())
}

fn text(chunks: &[OutputChunk], stream: OutputStream) -> String {
    let of_stream = chunks.iter().filter(|chunk| chunk.stream == stream);
    of_stream.map(|chunk| String::from_utf8_lossy(&chunk.bytes)).collect()
}

/// A stopped instance of a sandbox with output.
async fn stopped_with_output(harness: &Harness) -> (InstanceId, ExecutionId) {
    let instance = harness.started().await;
    let execution = harness.sh(instance, BOTH_STREAMS).await;
    harness.stopped(instance).await;
    (instance, execution)
}

pub(super) async fn stdout_and_stderr_are_told_apart(harness: Harness) {
    let instance = harness.started().await;

    let execution = harness.sh(instance, BOTH_STREAMS).await;

    let chunks = read_all(&harness, instance.sandbox, execution);
    let written = [OutputStream::Stdout, OutputStream::Stderr].map(|stream| text(&chunks, stream));
    assert_eq!(written, ["out\n", "err\n"]);
}

pub(super) async fn chunks_are_numbered_from_one_without_holes(harness: Harness) {
    let instance = harness.started().await;

    let execution = harness.sh(instance, BOTH_STREAMS).await;
    let other = harness.sh(instance, "echo alone").await;

    for (execution, least) in [(execution, 2), (other, 1)] {
        let chunks = read_all(&harness, instance.sandbox, execution);
        let numbers: Vec<_> = chunks.iter().map(|chunk| chunk.seq).collect();
        assert!(numbers.len() >= least, "output is missing: {chunks:?}");
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    }
}

pub(super) async fn reading_continues_after_a_position(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.sh(instance, BOTH_STREAMS).await;
    let all = read_all(&harness, instance.sandbox, execution);

    for (index, chunk) in all.iter().enumerate() {
        let bytes = all[..=index].iter().map(|chunk| chunk.bytes.len() as u64).sum();
        let rest = read(&harness, instance.sandbox, execution, ReadPosition { seq: chunk.seq, bytes });
        assert_eq!(rest, all[index + 1..], "after chunk {}", chunk.seq);
    }
}

pub(super) async fn a_watch_reports_output_of_a_running_execution(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.run(instance, TestCommand::ReadUntilClosed).await;
    let output = harness.another_process().provider.output();
    let mut reader = output.reader(instance.sandbox, execution, ReadPosition::default());
    let mut watch = output.watch(instance.sandbox);

    let (mut typed, mut seen) = (0, String::new());
    for line in ["one\n", "two\n"] {
        watch.mark_seen();
        let write = StdinWrite { at: typed, bytes: line.as_bytes(), close: false };
        let written = harness.provider.write_stdin(instance, execution, write).await;
        typed = written.unwrap_or_else(|error| panic!("input was not accepted: {error}")).accepted;
        within("output of a running execution", async {
            while !seen.ends_with(line) {
                watch.changed().await;
                watch.mark_seen();
                while let Ok(Some(OutputEntry::Chunk(chunk))) = reader.next() {
                    seen.push_str(&String::from_utf8_lossy(&chunk.bytes));
                }
            }
        })
        .await;
    }

    assert_eq!(seen, "one\ntwo\n");
    harness.runs(instance, execution).await;
}

pub(super) async fn output_stays_readable_after_the_stop_of_its_instance(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.sh(instance, BOTH_STREAMS).await;
    let before = read_all(&harness, instance.sandbox, execution);

    harness.stopped(instance).await;

    assert!(!before.is_empty(), "nothing was written");
    assert_eq!(read_all(&harness, instance.sandbox, execution), before);
    assert_eq!(read_all(&harness.another_process(), instance.sandbox, execution), before);
}

pub(super) async fn a_later_instance_continues_the_output_of_an_execution(harness: Harness) {
    let (sandbox, execution) = (harness.fixture.fresh_sandbox(), harness.fixture.fresh_execution());

    for (generation, script) in [(1, "echo first"), (2, "echo second")] {
        let instance = harness.instance(sandbox, generation);
        harness.start(instance).await;
        harness.run_as(instance, execution, &["sh", "-c", script]).await;
        harness.outcome(instance, execution).await;
        harness.stopped(instance).await;
    }

    let chunks = read_all(&harness, sandbox, execution);
    assert_eq!(text(&chunks, OutputStream::Stdout), "first\nsecond\n");
    assert_eq!(chunks.iter().map(|chunk| chunk.seq).collect::<Vec<_>>(), [1, 2]);
}

pub(super) async fn last_written_is_known_of_executions_with_output(harness: Harness) {
    let instance = harness.started().await;
    let before = harness.fixture.in_ms(0);

    let execution = harness.sh(instance, BOTH_STREAMS).await;

    let output = harness.provider.output();
    let last_written = |execution| {
        let answer = output.last_written(instance.sandbox, &[execution]);
        answer.unwrap_or_else(|error| panic!("the time of the last output is unknown: {error}"))
    };
    let written = last_written(execution).expect("it has written");
    assert!(written.0 >= before.0 - ROUNDING_MS && written <= harness.fixture.in_ms(0), "{written:?}");
    assert_eq!(last_written(harness.fixture.fresh_execution()), None);
}

pub(super) async fn a_lock_excludes_other_processes_until_it_is_dropped(harness: Harness) {
    let (instance, _) = stopped_with_output(&harness).await;
    let lock = |harness: &Harness, sandbox| {
        let locked = harness.provider.output().lock(sandbox);
        locked.unwrap_or_else(|error| panic!("the output could not be locked: {error}"))
    };

    let first = lock(&harness, instance.sandbox);
    let second = lock(&harness.another_process(), instance.sandbox);
    assert!(matches!(first, LockOutcome::Locked(_)), "output without a lock was not locked");
    assert!(matches!(second, LockOutcome::Busy), "locked output was locked again");

    drop(first);
    assert!(matches!(lock(&harness, instance.sandbox), LockOutcome::Locked(_)), "the lock was not released");
    let never_was = harness.fixture.fresh_sandbox();
    assert!(matches!(lock(&harness, never_was), LockOutcome::Nothing), "output that never was is locked");
}

pub(super) async fn removed_output_is_gone(harness: Harness) {
    let (instance, execution) = stopped_with_output(&harness).await;
    let output = harness.provider.output();
    let is_stored = || {
        let stored = output.stored(instance.sandbox);
        let stored = stored.unwrap_or_else(|error| panic!("the size of the output is unknown: {error}"));
        let listed = output.sandboxes().unwrap_or_else(|error| panic!("outputs cannot be listed: {error}"));
        (stored.is_some_and(|stored| stored.bytes > 0), listed.contains(&instance.sandbox))
    };
    assert_eq!(is_stored(), (true, true), "output is neither measured nor listed");

    match output.lock(instance.sandbox) {
        Ok(LockOutcome::Locked(mut locked)) => {
            let removed = locked.remove();
            assert!(removed.is_ok(), "the output could not be removed: {removed:?}");
        }
        _ => panic!("the output could not be locked"),
    }

    assert_eq!(is_stored(), (false, false), "removed output is still there");
    assert_eq!(read_all(&harness.another_process(), instance.sandbox, execution), []);
    assert!(matches!(output.lock(instance.sandbox), Ok(LockOutcome::Nothing)), "removed output is locked");
}
