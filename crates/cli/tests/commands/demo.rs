//! `pinfold demo`: five agents, each of which ends as it should, and nothing of them is left.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::ground::{Ground, all_absent, grounds, text, until};

/// Without a data directory: it makes one of its own there.
fn demo(ground: &Ground, arguments: &[&str]) -> Command {
    let mut command = ground.command(&[&["demo"], arguments].concat());
    command.env_remove("PINFOLD_DATA_DIR").env("TMPDIR", ground.place("tmp"));
    command
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn each_agent_ends_as_it_should_and_nothing_is_left() {
    let begin = |ground: &Ground| -> Child {
        demo(ground, &["--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let begun: Vec<_> = grounds().into_iter().map(|ground| (begin(&ground), ground)).collect();
    for (child, ground) in begun {
        let output = child.wait_with_output().unwrap();

        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
        assert_eq!(output.status.code(), Some(0), "{document:#}");
        let agents = document["agents"].as_array().unwrap();
        let causes: Vec<_> = agents.iter().map(|agent| agent["cause"].as_str().unwrap()).collect();
        let leaked = if ground.has_groups() { "memory_limit" } else { "time_limit" };
        assert_eq!(causes, ["completed", "cpu_limit", "inactivity", leaked, "stopped_by_user"]);
        assert_eq!(document["no_memory_limit"].is_string(), !ground.has_groups());
        for agent in agents {
            assert!(all_absent(&agent["receipt"]), "{agent}");
            assert!(agent["cpu_ms"].is_u64() && agent["memory_peak_bytes"].is_u64(), "{agent}");
        }
        assert!(agents[1]["cpu_ms"].as_u64().unwrap() >= 1_900, "of the one that loops: {}", agents[1]);
        assert!(is_empty(&ground.place("tmp")), "its directory is left");
    }
}

#[test]
fn an_interrupt_ends_all_of_them_and_leaves_nothing() {
    for ground in grounds() {
        let child = demo(&ground, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let bodies = || {
            let demos = fs::read_dir(ground.place("tmp")).unwrap();
            let controls =
                demos.filter_map(|demo| fs::read_dir(demo.ok()?.path().join("linux/control")).ok());
            controls.map(Iterator::count).sum::<usize>()
        };
        until("all of them are there", || bodies() == 5);

        kill_process(Pid::from_child(&child), Signal::INT).unwrap();

        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).contains("nothing is left"), "{}", text(&output.stdout));
        assert!(is_empty(&ground.place("tmp")), "its directory is left");
    }
}
