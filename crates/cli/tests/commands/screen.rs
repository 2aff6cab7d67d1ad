//! `top`, `shell`, `logs -f`, colours and Ctrl-C in a real terminal.

mod tmux;

use std::process::Stdio;

use pinfold_test_support::until;
use rustix::process::{Pid, Signal, kill_process};

use self::tmux::Tmux;
use crate::fixture::{Fixture, fixtures, is_alive, keeper_of, text};
use crate::serve::Server;

/// A sandbox with a busy loop.
fn busy(fixture: &Fixture) -> (String, std::process::Child) {
    let id = fixture.create(&["--name", "busy"]);
    let script = "echo hello from inside; printf '\\033[2Jwiped\\n'; while :; do :; done";
    let mut command = fixture.command(&["exec", &id, "--", "sh", "-c", script]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (id, child)
}

/// The CPU percentage in the row of a sandbox.
fn cpu_percent(screen: &str, name: &str) -> Option<u64> {
    let row = screen.lines().find(|line| line.contains(name) && line.contains("running"))?;
    row.split_whitespace().find_map(|cell| cell.strip_suffix('%'))?.parse().ok()
}

/// Each fixture twice: local, and through a remote server.
fn local_and_remote() -> impl Iterator<Item = (Fixture, bool)> {
    [false, true].into_iter().flat_map(|is_remote| fixtures().into_iter().map(move |it| (it, is_remote)))
}

/// Gives the shell a server's address and token and no usable data directory.
fn use_remote_server(tmux: &Tmux<'_>, server: &Server) {
    let (url, token) = (server.address(), server.token());
    tmux.type_in(&format!(
        "export PINFOLD_URL={url} PINFOLD_TOKEN={token} PINFOLD_DATA_DIR=/proc/none; clear\n"
    ));
    until("the variables are set", || !tmux.shows("export"));
}

#[test]
fn top_shows_a_busy_sandbox_and_its_log_and_stops_it_by_key() {
    for (fixture, is_remote) in local_and_remote() {
        let Some(tmux) = Tmux::start(&fixture, 110, 20) else { return };
        let server = is_remote.then(|| Server::begin(&fixture, &[]));
        server.iter().for_each(|server| use_remote_server(&tmux, server));
        let (id, mut child) = busy(&fixture);
        let before = tmux.settings();

        tmux.type_in("pinfold top\n");
        until("it is seen to be busy", || {
            cpu_percent(&tmux.screen(), "busy").is_some_and(|percent| percent >= 5)
        });
        tmux.type_in("l");
        until("its log is shown", || tmux.shows("hello from inside"));
        assert!(tmux.shows("\\u{1b}[2Jwiped"), "{}", tmux.screen());
        tmux.type_in("q");
        until("the list is back", || tmux.shows("s stop"));
        tmux.type_in("s");
        until("it asks", || tmux.shows(&format!("Stop {id}?")));
        tmux.type_in("n");
        until("the confirmation is answered with no", || tmux.shows("s stop"));
        tmux.type_in("s");
        until("it asks again", || tmux.shows(&format!("Stop {id}?")));
        tmux.type_in("y");

        until("it is gone", || tmux.shows(&format!("{id} is gone: stopped_by_user")));
        until("nothing is listed", || tmux.shows("0 sandboxes"));
        tmux.type_in("q");
        // Keys typed before `top` has ended go to `top`, not to the shell.
        until("it has left", || tmux.running().is_none());
        tmux.type_in("echo code $?.\n");
        until("it has ended", || tmux.shows("code 0."));
        assert_eq!(tmux.settings(), before);
        child.wait().unwrap();
        assert!(fixture.is_clean());
    }
}

#[test]
fn signal_ends_top_and_restores_the_terminal() {
    for fixture in fixtures() {
        let Some(tmux) = Tmux::start(&fixture, 110, 20) else { return };
        let before = tmux.settings();
        tmux.type_in("pinfold top\n");
        until("it is shown", || tmux.shows("0 sandboxes"));
        assert!(tmux.is_on_other_screen());

        kill_process(Pid::from_raw(tmux.running().unwrap()).unwrap(), Signal::TERM).unwrap();

        until("the screen is left", || !tmux.is_on_other_screen() && tmux.running().is_none());
        assert_eq!(tmux.settings(), before);
    }
}

#[test]
fn one_frame_of_top_is_a_table() {
    for fixture in fixtures() {
        let id = fixture.create(&["--name", "calm"]);

        let output = fixture.pinfold(&["top", "--once"]);
        let document = fixture.document(&["top", "--json"]);
        let refused = fixture.pinfold(&["top"]);

        assert!(text(&output.stdout).starts_with("ID"), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).contains(&id));
        assert_eq!((&document[0]["name"], &document[0]["status"]), (&"calm".into(), &"ready".into()));
        // A very busy machine may not answer in time.
        until("it is measured", || fixture.document(&["top", "--json"])[0]["cpu_percent"].is_number());
        assert_eq!(refused.status.code(), Some(2), "there is no terminal");
    }
}

#[test]
fn shell_terminal_follows_resizes() {
    for (fixture, is_remote) in local_and_remote() {
        let Some(tmux) = Tmux::start(&fixture, 100, 30) else { return };
        let server = is_remote.then(|| Server::begin(&fixture, &[]));
        server.iter().for_each(|server| use_remote_server(&tmux, server));
        let id = fixture.create(&[]);
        let before = tmux.settings();

        tmux.type_in(&format!("pinfold shell {id}\n"));
        until("it is inside", || {
            tmux.type_in("echo in $((40 + 2)) $0; cat /proc/sys/kernel/hostname\n");
            tmux.shows("in 42 bash")
        });
        tmux.type_in("clear; stty size\n");
        until("it has its size", || tmux.shows("30 100"));
        tmux.resize(90, 25);
        until("it is resized", || {
            tmux.type_in("stty size\n");
            tmux.shows("25 90")
        });
        tmux.type_in("exit 7\n");
        until("it has ended", || {
            tmux.type_in("echo code $?.\n");
            tmux.shows("code 7.") || tmux.shows("code 0.")
        });

        assert!(tmux.shows("code 7."), "{}", tmux.screen());
        assert_eq!(tmux.settings(), before);
    }
}

#[test]
fn ctrl_c_stops_a_run_and_shows_its_receipt() {
    for fixture in fixtures() {
        let Some(tmux) = Tmux::start(&fixture, 110, 30) else { return };
        tmux.type_in("pinfold run -- sleep 100\n");
        until("the sandbox runs", || keeper_of(&fixture.data()).is_some_and(is_alive));

        tmux.press("C-c");

        until("the receipt is shown", || tmux.shows("is gone: stopped_by_user"));
        until("its lines too", || ["processes", "mounts", "directories"].iter().all(|kind| tmux.shows(kind)));
        tmux.type_in("echo code $?.\n");
        until("it has ended", || tmux.shows("code 130."));
        assert!(!tmux.shows("present") && !tmux.shows("unknown"), "{}", tmux.screen());
        assert!(fixture.is_clean());
    }
}

#[test]
fn logs_follow_ends_with_the_sandbox_or_by_interrupt() {
    for (fixture, is_remote) in local_and_remote() {
        let Some(tmux) = Tmux::start(&fixture, 110, 30) else { return };
        let server = is_remote.then(|| Server::begin(&fixture, &[]));
        server.iter().for_each(|server| use_remote_server(&tmux, server));
        let id = fixture.create(&[]);
        let script = "echo first line; while [ ! -e go ]; do sleep 0.05; done; echo second line; sleep 100";
        let mut writer = fixture.command(&["exec", &id, "--", "sh", "-c", script]);
        let mut writer = writer.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();

        tmux.type_in(&format!("pinfold logs -f --output-only {id}\n"));
        until("earlier output is shown", || tmux.shows("first line"));
        assert!(!tmux.shows("second line"));
        fixture.pinfold(&["exec", &id, "--", "touch", "/workspace/go"]);
        until("new output is shown", || tmux.shows("second line"));
        tmux.press("C-c");
        until("it has ended", || tmux.running().is_none());
        tmux.type_in("echo code $?.\n");
        until("its code is shown", || tmux.shows("code 130."));
        let listed = fixture.document(&["ps", "--json"]);
        assert_eq!(listed[0]["status"], "running", "the sandbox still runs: {listed}");

        tmux.type_in("clear\n");
        until("the screen is cleared", || !tmux.shows("second line"));
        tmux.type_in(&format!("pinfold logs -f --output-only {id}\n"));
        until("all of it is shown again", || tmux.shows("second line"));
        assert!(tmux.running().is_some());
        fixture.pinfold(&["stop", "--force", &id]);
        until("it ends by itself", || tmux.running().is_none());
        tmux.type_in("echo code $?.\n");
        until("its code is shown", || tmux.shows("code 0."));
        writer.wait().unwrap();
    }
}

#[test]
fn states_are_coloured_on_a_terminal_and_nowhere_else() {
    let fixture = fixtures().remove(0);
    let Some(tmux) = Tmux::start(&fixture, 140, 30) else { return };
    let id = fixture.create(&[]);
    let green = |what: &str| tmux.coloured().contains(&format!("\u{1b}[32m{what}"));

    for command in ["ps", "top --once", "inspect", "ps --json"] {
        let command = if command == "inspect" { format!("inspect {id}") } else { command.to_owned() };
        tmux.type_in(&format!("clear; pinfold {command}; echo over$((1 + 1))\n"));
        until("it is shown", || tmux.shows("over2") && tmux.shows("ready"));
        assert_eq!(green("ready"), command != "ps --json", "{command}: {}", tmux.coloured());
        tmux.type_in(&format!("clear; NO_COLOR=1 pinfold {command}; echo over$((1 + 2))\n"));
        until("it is shown again", || tmux.shows("over3") && tmux.shows("ready"));
        assert!(!green("ready"), "{command}: {}", tmux.coloured());
        let words: Vec<_> = command.split(' ').collect();
        assert!(!text(&fixture.pinfold(&words).stdout).contains('\u{1b}'), "{command} in a pipe");
    }
    tmux.type_in(&format!("clear; pinfold stop --force {id}\n"));
    until("the receipt is shown", || tmux.shows("directories"));
    assert!(green("absent"), "{}", tmux.coloured());
    let again = text(&fixture.pinfold(&["stop", &id]).stdout);
    assert!(again.contains("absent") && !again.contains('\u{1b}'), "{again}");
}
