//! `--queue`: waiting for capacity with a timeout.

use std::fs;
use std::process::Stdio;

use pinfold_test_support::until;

use crate::fixture::{fixtures, text};
use crate::serve::Server;

#[test]
fn run_waits_in_the_queue_with_and_without_a_server() {
    for fixture in fixtures() {
        fs::write(fixture.data().join("pinfold.toml"), "[admission]\nsandboxes = 1\n").unwrap();
        let there = fixture.create(&["--memory", "64"]);
        let refused = fixture.pinfold(&["create", "--queue", "300ms"]);
        assert!(!refused.status.success());
        assert!(
            text(&refused.stderr).contains("Maximum sandbox limit reached: 1 of 1"),
            "{:?}",
            refused.stderr
        );

        let server = Server::begin(&fixture, &["--on-exit", "stop"]);
        let mut run = fixture.command(&["run", "--queue", "60s", "--", "echo", "in"]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it waits", || server.ask(async |client| client.queue().await.unwrap().len()) == 1);
        assert!(fixture.pinfold(&["stop", &there]).status.success());

        let ran = run.wait_with_output().unwrap();
        assert_eq!(
            (text(&ran.stdout).as_str(), ran.status.code()),
            ("in\n", Some(0)),
            "{}",
            text(&ran.stderr)
        );
        let made = fixture.pinfold(&["create", "--queue", "60s", "--no-wait", "--memory", "64"]);
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
}
