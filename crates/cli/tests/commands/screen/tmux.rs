//! A terminal with a shell in tmux, which has its own server and socket and is removed on drop, also when a test
//! fails.

use std::fs;
use std::path::PathBuf;

use pinfold_test_support::skip;
use pinfold_test_support::until;

use crate::fixture::{Fixture, text};

pub(crate) struct Tmux<'a> {
    fixture: &'a Fixture,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    /// None: tmux is not installed, and the test is counted as skipped.
    pub(crate) fn start(fixture: &'a Fixture, columns: u16, rows: u16) -> Option<Self> {
        if fixture.program("tmux", &["-V"]).output().is_err() {
            skip(std::thread::current().name().unwrap_or("screen"), "tmux is not installed");
            return None;
        }
        let tmux = Self { fixture, socket: fixture.directory("terminal").join("socket") };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let shell = ["env", "PS1=here> ", "ENV=", "sh"];
        tmux.run_tmux(&[&["new-session", "-d", "-x", &columns, "-y", &rows][..], &shell].concat());
        tmux.run_tmux(&["set-option", "-g", "status", "off"]);
        until("the shell has started", || tmux.shows("here>"));
        Some(tmux)
    }

    fn run_tmux(&self, arguments: &[&str]) -> String {
        let socket = self.socket.to_str().unwrap();
        // UTF-8, without a user's tmux configuration.
        let command = [&["-u", "-S", socket, "-f", "/dev/null"], arguments].concat();
        let output = self.fixture.program("tmux", &command).env("TERM", "xterm").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn type_in(&self, keys: &str) {
        match keys.strip_suffix('\n') {
            Some(line) => {
                self.run_tmux(&["send-keys", "-l", line]);
                self.press("Enter");
            }
            None => {
                self.run_tmux(&["send-keys", "-l", keys]);
            }
        }
    }

    /// Presses a key by its tmux name.
    pub(crate) fn press(&self, key: &str) {
        self.run_tmux(&["send-keys", key]);
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.run_tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    pub(crate) fn screen(&self) -> String {
        self.run_tmux(&["capture-pane", "-p"])
    }

    /// The screen with colour sequences.
    pub(crate) fn coloured(&self) -> String {
        self.run_tmux(&["capture-pane", "-p", "-e"])
    }

    pub(crate) fn shows(&self, what: &str) -> bool {
        self.screen().contains(what)
    }

    fn query(&self, what: &str) -> String {
        self.run_tmux(&["display-message", "-p", what]).trim().to_owned()
    }

    pub(crate) fn is_on_other_screen(&self) -> bool {
        self.query("#{alternate_on}") == "1"
    }

    /// All terminal settings while the shell waits for a command.
    pub(crate) fn settings(&self) -> String {
        let file = self.fixture.directory("terminal").join("settings");
        // The file may not exist yet.
        let _ = fs::remove_file(&file);
        self.type_in(&format!("stty -g > {0}.draft && mv {0}.draft {0}\n", file.display()));
        until("the settings are written", || file.exists());
        fs::read_to_string(file).unwrap()
    }

    /// Pid of the command that the shell runs.
    pub(crate) fn running(&self) -> Option<i32> {
        let shell = self.query("#{pane_pid}");
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let socket = self.socket.to_str().unwrap_or_default();
        let _ = self.fixture.program("tmux", &["-S", socket, "kill-server"]).output();
    }
}
