//! The checks themselves are tested: a server with one guard left out must be caught.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use pinfold_test_support::skip;

/// Runs one round with a killed server and without this guard. Returns whether it passed, and its output.
fn round_without(guard: &str) -> Option<(bool, String)> {
    if !rustix::process::getuid().is_root() {
        skip("chaos guards", "makes real sandboxes with groups and mounts, for which it has to be root");
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold-chaos"));
    command.args(["faults", "--rounds", "1", "--seed", "7", "--fault", "server-killed", "--without", guard]);
    let output = command.output().unwrap();
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[test]
fn a_server_that_frees_leases_without_an_observation_is_caught_leaking() {
    let Some((held, said)) = round_without("observation") else { return };

    assert!(!held && said.contains("leak: "), "{said}");
}

#[test]
fn a_server_that_lets_deadlines_pass_is_caught_with_stuck_rows() {
    let Some((held, said)) = round_without("deadlines") else { return };

    assert!(!held && said.contains("stuck: "), "{said}");
}
