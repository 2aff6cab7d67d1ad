//! Tests of the diagnosis: one observation per kind of problem.

use std::sync::Arc;
use std::time::Duration;

use pinfold_lifecycle::{Context, NodeId, Policy, SandboxId, Spec, Timestamp, create};
use pinfold_store::{Row, StoredSandbox, Version};

use super::*;
use crate::FlagThresholds;
use crate::view;

fn healthy() -> Sandbox {
    let policy = Policy::default();
    let ctx = Context { now: Timestamp(1_000), node: NodeId(1), policy: &policy };
    let sandbox = create(SandboxId(1), ctx).sandbox;
    let stored = StoredSandbox {
        sandbox,
        spec: Arc::new(Spec::default()),
        policy: Arc::new(policy),
        version: Version(1),
    };
    view::sandbox(&Row::Readable(Box::new(stored)), None, Timestamp(2_000), FlagThresholds::default())
}

const AT_WORK: Signs = Signs {
    executions: 1,
    cpu_percent: Some(20.0),
    is_runnable: false,
    cpu_limit_percent: None,
    memory_mb: Some(20.0),
    memory_growth_mb: 0.0,
    memory_limit_mb: Some(256.0),
    between_ms: 500.0,
    operations: 3,
    quiet_ms: Some(10),
};
const STILL: Signs = Signs { cpu_percent: Some(0.0), operations: 0, quiet_ms: Some(12_000), ..AT_WORK };

fn process(name: &str, state: ProcessState) -> ProcessInfo {
    ProcessInfo { name: name.to_owned(), state, wait_channel: None, waits_for_input: false, sockets: 0 }
}

fn asleep(name: &str, place: &str) -> ProcessInfo {
    ProcessInfo { wait_channel: Some(place.to_owned()), ..process(name, ProcessState::Sleeping) }
}

fn failed(probe: &'static str, fault: InstanceFault, answer: &str) -> ProbeReport {
    ProbeReport { probe, passed: false, answer: answer.to_owned(), took: Duration::ZERO, fault: Some(fault) }
}

fn kinds(troubles: &[Trouble]) -> Vec<TroubleKind> {
    troubles.iter().map(|trouble| trouble.kind).collect()
}

#[test]
fn a_working_sandbox_has_no_problem() {
    let seen = Observations {
        signs: Some(AT_WORK),
        processes: Some((99, 100)),
        inside: vec![asleep("node", "ep_poll"), process("cc1", ProcessState::Uninterruptible)],
        written: "all 12 tests passed\n".to_owned(),
    };

    assert_eq!(diagnose(&healthy(), &[], &seen), []);
    assert_eq!(diagnose(&healthy(), &[], &Observations::default()), []);
}

#[test]
fn each_problem_is_diagnosed_first_with_its_numbers() {
    let reader = ProcessInfo { waits_for_input: true, ..asleep("bash", "pipe_read") };
    let still = |inside| Observations { signs: Some(STILL), inside, ..Observations::default() };
    let table = [
        (
            TroubleKind::Stopped,
            still(vec![process("sh", ProcessState::Stopped), asleep("cat", "pipe_read")]),
            "1 of 2 processes: sh",
        ),
        (
            TroubleKind::Uninterruptible,
            still(vec![ProcessInfo {
                wait_channel: Some("io_schedule".to_owned()),
                ..process("dd", ProcessState::Uninterruptible)
            }]),
            "dd waits in io_schedule",
        ),
        (TroubleKind::ProcessesFull, Observations { processes: Some((20, 20)), ..still(vec![]) }, "20 of 20"),
        (
            TroubleKind::Leaking,
            Observations {
                signs: Some(Signs { memory_mb: Some(250.0), ..AT_WORK }),
                ..Observations::default()
            },
            "250 of 256 MiB",
        ),
        (
            TroubleKind::Busy,
            Observations {
                signs: Some(Signs { cpu_percent: Some(99.5), ..AT_WORK }),
                ..Observations::default()
            },
            "processor at 99.5 %",
        ),
        (TroubleKind::WaitsForInput, still(vec![reader]), "bash waits in pipe_read"),
        (
            TroubleKind::Hung,
            still(vec![ProcessInfo { sockets: 2, ..asleep("curl", "do_sys_poll") }]),
            "nothing written for 12 s; curl waits in do_sys_poll, 2 open sockets",
        ),
        (
            TroubleKind::NoNetwork,
            Observations {
                written: "fatal: Could not resolve host: example.com\n".into(),
                ..Observations::default()
            },
            "its log says: fatal: Could not resolve host",
        ),
    ];
    for (kind, seen, figure) in table {
        let found = diagnose(&healthy(), &[], &seen);

        assert_eq!(found.first().map(|it| it.kind), Some(kind), "{found:?}");
        assert!(found[0].saw.contains(figure), "{found:?}");
        assert!(!found[0].means.is_empty() && !found[0].resolve.is_empty(), "{found:?}");
    }
}

#[test]
fn a_missing_or_silent_keeper_hides_all_other_problems() {
    let seen =
        Observations { signs: Some(STILL), written: "out of memory".into(), ..Observations::default() };
    let gone = [
        failed("process 1", InstanceFault::KeeperGone, "it is gone"),
        failed("control ping", InstanceFault::KeeperSilent, "no keeper listens"),
        failed("files and a command", InstanceFault::Filesystem, "no keeper listens"),
    ];

    assert_eq!(kinds(&diagnose(&healthy(), &gone, &seen)), [TroubleKind::KeeperGone]);
    assert_eq!(kinds(&diagnose(&healthy(), &gone[1..], &seen)), [TroubleKind::KeeperSilent]);
}

#[test]
fn a_full_disk_comes_before_the_probe_that_failed_because_of_it() {
    let probes = [
        failed("files and a command", InstanceFault::Filesystem, "`/workspace`: No space left on device"),
        failed("disk", InstanceFault::DiskFull, "32 of 32 MiB, 7 of 100 files"),
    ];
    let full = Observations { written: "No space left on device".into(), ..Observations::default() };

    let found = diagnose(&healthy(), &probes, &full);

    assert_eq!(kinds(&found), [TroubleKind::DiskFull, TroubleKind::PlaceMissing]);
    assert!(found[0].saw.contains("32 of 32 MiB"), "{found:?}");
    assert!(found[1].saw.contains("`/workspace`"), "{found:?}");
}

#[test]
fn control_characters_in_logs_and_names_are_escaped() {
    let seen = Observations {
        signs: Some(STILL),
        inside: vec![asleep("\u{1b}[2J", "pipe_read")],
        written: "\u{1b}]0;x\u{7} out of memory".into(),
        ..Observations::default()
    };

    for trouble in diagnose(&healthy(), &[], &seen) {
        assert!(!trouble.saw.contains('\u{1b}'), "{trouble:?}");
    }
}

#[test]
fn a_quarantined_or_unreadable_sandbox_has_only_that_problem() {
    let seen = Observations { signs: Some(STILL), ..Observations::default() };
    let mut unreadable = healthy();
    unreadable.flags.push("unreadable".into());
    let mut quarantined = healthy();
    quarantined.status.state = State::Quarantined;
    let mut late = healthy();
    late.flags.push("repeated_timeouts".into());

    assert_eq!(kinds(&diagnose(&unreadable, &[], &seen)), [TroubleKind::Unreadable]);
    assert_eq!(kinds(&diagnose(&quarantined, &[], &seen)), [TroubleKind::Quarantined]);
    assert_eq!(kinds(&diagnose(&late, &[], &Observations::default())), [TroubleKind::RepeatedTimeouts]);
}
