//! `-i` and `-t`: standard input and terminals.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use pinfold_test_support::until;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::fixture::{Fixture, fixtures, text};

/// A pseudo-terminal with the text shown on it.
struct Terminal {
    keys: File,
    /// Kept open to read the terminal's settings.
    there: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    screen: JoinHandle<()>,
}

impl Terminal {
    fn open(columns: u16, rows: u16) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        unlockpt(&keys).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let there = ioctl_tiocgptpeer(&keys, flags).unwrap();
        let keys = File::from(keys);
        let (mut seen, shown) = (keys.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let shows = shown.clone();
        let screen = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = seen.read(&mut piece) {
                shows.lock().unwrap().extend(&piece[..read]);
            }
        });
        let terminal = Self { keys, there, shown, screen };
        terminal.resize(columns, rows);
        terminal
    }

    fn resize(&self, ws_col: u16, ws_row: u16) {
        tcsetwinsize(&self.keys, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    fn run(&self, fixture: &Fixture, arguments: &[&str]) -> Child {
        let end = || Stdio::from(self.there.try_clone().unwrap());
        fixture.command_in_session(arguments).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
    }

    fn type_in(&self, keys: &str) {
        (&self.keys).write_all(keys.as_bytes()).unwrap();
    }

    fn shows(&self, what: &str) -> bool {
        text(&self.shown.lock().unwrap()).contains(what)
    }

    fn settings(&self) -> Termios {
        tcgetattr(&self.there).unwrap()
    }

    fn is_raw(&self) -> bool {
        !self.settings().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn close(self) {
        drop((self.there, self.keys));
        self.screen.join().unwrap();
    }
}

fn same(one: &Termios, other: &Termios) -> bool {
    one.local_modes == other.local_modes
        && one.input_modes == other.input_modes
        && one.output_modes == other.output_modes
}

#[test]
fn shell_gets_the_terminals_size_and_restores_its_settings() {
    for fixture in fixtures() {
        let terminal = Terminal::open(101, 33);
        let before = terminal.settings();
        let mut caller = terminal.run(&fixture, &["run", "-it", "--", "sh"]);
        until("the shell has the terminal", || terminal.is_raw());

        terminal.type_in("stty size; echo $((40 + 2))\n");
        until("it has printed its size", || terminal.shows("33 101") && terminal.shows("42"));
        terminal.resize(77, 44);
        until("it is resized", || {
            terminal.type_in("stty size\n");
            terminal.shows("44 77")
        });
        // In raw mode Ctrl-C goes to the sandbox and is not a signal to this program.
        terminal.type_in("echo now $((6 + 1)); sleep 100\n");
        until("it sleeps", || terminal.shows("now 7"));
        terminal.type_in("\u{3}");
        until("Ctrl-C interrupts the command inside", || {
            terminal.type_in("echo still $((2 + 3)) here\n");
            terminal.shows("still 5 here")
        });
        terminal.type_in("exit 3\n");

        assert_eq!(caller.wait().unwrap().code(), Some(3));
        assert!(same(&terminal.settings(), &before));
        assert!(fixture.is_clean());
        terminal.close();
    }
}

#[test]
fn signal_ends_exec_and_restores_the_terminal() {
    use rustix::process::{Pid, Signal, kill_process};

    for (fixture, signal) in fixtures().into_iter().zip([Signal::TERM, Signal::QUIT]) {
        let terminal = Terminal::open(80, 24);
        let before = terminal.settings();
        let id = fixture.create(&[]);
        let mut caller = terminal.run(&fixture, &["exec", "-i", "-t", &id, "--", "sleep", "100"]);
        until("it has the terminal", || terminal.is_raw());

        kill_process(Pid::from_child(&caller), signal).unwrap();

        assert_eq!(caller.wait().unwrap().code(), Some(130));
        assert!(same(&terminal.settings(), &before));
        assert_eq!(fixture.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
        terminal.close();
    }
}

#[test]
fn command_with_a_terminal_gets_the_callers_kind_of_terminal() {
    for fixture in fixtures() {
        let terminal = Terminal::open(80, 24);
        let end = || Stdio::from(terminal.there.try_clone().unwrap());
        let mut command = fixture.command_in_session(&["run", "-it", "sh", "-c", "echo kind=$TERM."]);
        command.env("TERM", "vt220").stdin(end()).stdout(end()).stderr(end());

        let mut child = command.spawn().unwrap();

        assert!(child.wait().unwrap().success());
        until("the kind of the terminal is shown", || terminal.shows("kind=vt220."));
    }
}

#[test]
fn tty_without_a_terminal_is_refused() {
    for fixture in fixtures() {
        let output = fixture.pinfold(&["run", "-t", "--", "true"]);
        let document = fixture.document(&["run", "--json", "-t", "--", "true"]);

        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains("standard input is not a terminal"),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(document["error"]["code"], "bad_input");
        assert!(!fixture.data().join("linux").exists(), "a refused command created something");
    }
}

fn with_input(fixture: &Fixture, arguments: &[&str], input: &[u8]) -> std::process::Output {
    let mut command = fixture.command(arguments);
    let mut caller =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = caller.stdin.take().unwrap();
    let input = input.to_vec();
    // A program that does not read everything breaks the pipe.
    let writer = std::thread::spawn(move || pipe.write_all(&input).is_ok());
    let output = caller.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[test]
fn piped_input_arrives_complete_and_ends() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let much: Vec<u8> = (0u32..250_000).flat_map(u32::to_le_bytes).collect();

        let run = with_input(&fixture, &["run", "-i", "--", "cat"], &much);
        let exec = with_input(&fixture, &["exec", "-i", &id, "--", "wc", "-c"], &much);
        let none = with_input(&fixture, &["exec", &id, "--", "wc", "-c"], b"not asked for");

        assert!(run.status.success() && run.stdout == much, "{} bytes", run.stdout.len());
        assert_eq!(text(&exec.stdout).trim(), "1000000", "{}", text(&exec.stderr));
        assert_eq!(text(&none.stdout).trim(), "0");
    }
}

#[test]
fn command_that_reads_no_input_still_ends() {
    for fixture in fixtures() {
        let much = vec![b'x'; 1 << 20];

        let output = with_input(&fixture, &["run", "-i", "--", "sh", "-c", "head -c 3; exit 5"], &much);

        assert_eq!((output.status.code(), text(&output.stdout)), (Some(5), "xxx".into()));
    }
}
