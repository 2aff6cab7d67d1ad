//! `pinfold demo`: all agents end as expected and nothing is left.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pinfold_test_support::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fixture::{Fixture, all_absent, fixtures, text};

/// Without a data directory, so that the demo creates a temporary one.
fn demo(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = fixture.command(&[&["demo"], arguments].concat());
    command.env_remove("PINFOLD_DATA_DIR").env("TMPDIR", fixture.directory("tmp"));
    command
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn every_demo_agent_ends_as_expected_and_nothing_is_left() {
    let begin = |fixture: &Fixture| -> Child {
        demo(fixture, &["--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let begun: Vec<_> = fixtures().into_iter().map(|fixture| (begin(&fixture), fixture)).collect();
    for (child, fixture) in begun {
        let output = child.wait_with_output().unwrap();

        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
        assert_eq!(output.status.code(), Some(0), "{document:#}");
        let agents = document["agents"].as_array().unwrap();
        let causes: Vec<_> = agents.iter().map(|agent| agent["cause"].as_str().unwrap()).collect();
        let leaked = if fixture.has_groups() { "memory_limit" } else { "time_limit" };
        assert_eq!(causes, ["completed", "cpu_limit", "inactivity", leaked, "stopped_by_user"]);
        assert_eq!(document["no_memory_limit"].is_string(), !fixture.has_groups());
        for agent in agents {
            assert!(all_absent(&agent["receipt"]), "{agent}");
            assert!(agent["cpu_ms"].is_u64() && agent["memory_peak_bytes"].is_u64(), "{agent}");
        }
        assert!(agents[1]["cpu_ms"].as_u64().unwrap() >= 1_900, "of the looping agent: {}", agents[1]);
        assert!(is_empty(&fixture.directory("tmp")), "its directory is left");
    }
}

#[test]
fn interrupted_demo_stops_all_agents_and_leaves_nothing() {
    for fixture in fixtures() {
        let child = demo(&fixture, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let instances = || {
            let demos = fs::read_dir(fixture.directory("tmp")).unwrap();
            let controls =
                demos.filter_map(|demo| fs::read_dir(demo.ok()?.path().join("linux/control")).ok());
            controls.map(Iterator::count).sum::<usize>()
        };
        until("all of them are there", || instances() == 5);

        kill_process(Pid::from_child(&child), Signal::INT).unwrap();

        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).contains("nothing is left"), "{}", text(&output.stdout));
        assert!(is_empty(&fixture.directory("tmp")), "its directory is left");
    }
}
