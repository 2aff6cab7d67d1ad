//! A terminal with a shell in it, typed into and looked at through tmux. It has a server and a socket of its own,
//! and is gone at the end, also when a test fails.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use crate::ground::{Ground, text, until};

pub(crate) struct Tmux<'a> {
    ground: &'a Ground,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    /// None where there is no tmux: that is counted as a test that was skipped.
    pub(crate) fn start(ground: &'a Ground, columns: u16, rows: u16) -> Option<Self> {
        if ground.program("tmux", &["-V"]).output().is_err() {
            if let Some(list) = std::env::var_os("PINFOLD_SKIPPED_TESTS") {
                let mut list = OpenOptions::new().create(true).append(true).open(list).unwrap();
                let test = std::thread::current().name().unwrap_or("screen").to_owned();
                writeln!(list, "{test}: no tmux").unwrap();
            }
            return None;
        }
        let tmux = Self { ground, socket: ground.place("terminal").join("socket") };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let shell = ["env", "PS1=here> ", "ENV=", "sh"];
        tmux.ask(&[&["new-session", "-d", "-x", &columns, "-y", &rows][..], &shell].concat());
        tmux.ask(&["set-option", "-g", "status", "off"]);
        until("the shell is there", || tmux.shows("here>"));
        Some(tmux)
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let socket = self.socket.to_str().unwrap();
        // In UTF-8, with the settings of nobody.
        let command = [&["-u", "-S", socket, "-f", "/dev/null"], arguments].concat();
        let output = self.ground.program("tmux", &command).env("TERM", "xterm").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn type_in(&self, keys: &str) {
        match keys.strip_suffix('\n') {
            Some(line) => {
                self.ask(&["send-keys", "-l", line]);
                self.press("Enter");
            }
            None => {
                self.ask(&["send-keys", "-l", keys]);
            }
        }
    }

    /// A key by its name.
    pub(crate) fn press(&self, key: &str) {
        self.ask(&["send-keys", key]);
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.ask(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    pub(crate) fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    /// With its colours.
    pub(crate) fn coloured(&self) -> String {
        self.ask(&["capture-pane", "-p", "-e"])
    }

    pub(crate) fn shows(&self, what: &str) -> bool {
        self.screen().contains(what)
    }

    fn told(&self, what: &str) -> String {
        self.ask(&["display-message", "-p", what]).trim().to_owned()
    }

    pub(crate) fn is_on_other_screen(&self) -> bool {
        self.told("#{alternate_on}") == "1"
    }

    /// All of the terminal's settings, as they are while the shell waits for a command.
    pub(crate) fn settings(&self) -> String {
        let file = self.ground.place("terminal").join("settings");
        // It may not be there yet.
        let _ = fs::remove_file(&file);
        self.type_in(&format!("stty -g > {0}.draft && mv {0}.draft {0}\n", file.display()));
        until("the settings are told", || file.exists());
        fs::read_to_string(file).unwrap()
    }

    /// What the shell runs now.
    pub(crate) fn running(&self) -> Option<i32> {
        let shell = self.told("#{pane_pid}");
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let socket = self.socket.to_str().unwrap_or_default();
        let _ = self.ground.program("tmux", &["-S", socket, "kill-server"]).output();
    }
}
