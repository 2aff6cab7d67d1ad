//! `--queue`: a command that waits for room, and no longer than it was told to.

use std::fs;
use std::process::Stdio;

use crate::ground::{grounds, text, until};
use crate::serve::Server;

#[test]
fn a_command_waits_for_room_with_and_without_a_server() {
    for ground in grounds() {
        fs::write(ground.data().join("pinfold.toml"), "[admission]\nsandboxes = 1\n").unwrap();
        let there = ground.create(&["--memory", "64"]);
        let refused = ground.pinfold(&["create", "--queue", "300ms"]);
        assert!(!refused.status.success());
        assert!(
            text(&refused.stderr).contains("maximum sandbox limit reached: 1 of 1"),
            "{:?}",
            refused.stderr
        );

        let server = Server::begin(&ground, &["--on-exit", "stop"]);
        let mut run = ground.command(&["run", "--queue", "60s", "--", "echo", "in"]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it waits", || server.ask(async |client| client.queue().await.unwrap().len()) == 1);
        assert!(ground.pinfold(&["stop", &there]).status.success());

        let ran = run.wait_with_output().unwrap();
        assert_eq!(
            (text(&ran.stdout).as_str(), ran.status.code()),
            ("in\n", Some(0)),
            "{}",
            text(&ran.stderr)
        );
        let made = ground.pinfold(&["create", "--queue", "60s", "--no-wait", "--memory", "64"]);
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
}
