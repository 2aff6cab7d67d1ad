//! `[telemetry]`: who is sent something, and who never is.

use std::cell::RefCell;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use pinfold_client::ServerFile;

use crate::ground::{Ground, grounds, text, until};
use crate::serve::Server;

/// Somebody who listens, and sees who comes.
struct Doorway(TcpListener);

impl Doorway {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn settings(&self, rest: &str) -> String {
        format!("[telemetry]\nendpoint = \"http://{}\"\n{rest}", self.0.local_addr().unwrap())
    }

    fn next(&self) -> Option<TcpStream> {
        match self.0.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The head of a request, which is then told that all is well.
fn head_of(mut stream: TcpStream) -> String {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    text(&head).to_lowercase()
}

fn write(ground: &Ground, settings: &str) {
    fs::write(ground.data().join("pinfold.toml"), settings).unwrap();
}

/// Waits for a message to this path. What comes to another is taken, too.
fn taken_at(doorway: &Doorway, path: &str) -> String {
    let taken = RefCell::new(String::new());
    until(path, || {
        let Some(head) = doorway.next().map(head_of) else { return false };
        let is_it = head.starts_with(&format!("post {path} "));
        taken.replace(head);
        is_it
    });
    taken.into_inner()
}

/// The connections of a process that do not lead to where it serves.
fn connections(pid: u32, served: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let sockets: Vec<_> = entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let port = format!(":{:04X}", served.rsplit(':').next().unwrap().parse::<u16>().unwrap());
    let all = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let own = all.lines().skip(1).filter(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let socket = format!("socket:[{}]", fields[9]);
        sockets.iter().any(|it| it.as_os_str() == socket.as_str()) && !fields[1].ends_with(&port)
    });
    own.map(str::to_owned).collect()
}

#[test]
fn a_server_sends_what_it_was_told_to_with_the_headers_it_was_given() {
    for ground in grounds() {
        let doorway = Doorway::open();
        write(&ground, &doorway.settings("headers = { authorization = \"Bearer hunter2\" }\n"));
        let server = Server::begin(&ground, &[]);

        let figures = taken_at(&doorway, "/v1/metrics");
        server.create();
        let traces = taken_at(&doorway, "/v1/traces");

        for head in [figures, traces] {
            assert!(head.contains("authorization: bearer hunter2\r\n"), "{head}");
            assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        }
        drop(doorway);
        assert_eq!(server.end_with(rustix::process::Signal::TERM), Some(0));
        let log = fs::read_to_string(ground.data().join("serve.log")).unwrap();
        assert!(!log.contains("hunter2"), "{log}");
    }
}

#[test]
fn a_server_that_was_told_of_no_collector_connects_to_nobody() {
    for ground in grounds() {
        let server = Server::begin(&ground, &[]);
        let pid = ServerFile::read(&ground.data()).unwrap().unwrap().pid;
        let id = server.create();

        for _ in 0..20 {
            server.ask(async |client| client.sandbox(&id).await.unwrap());
            assert_eq!(connections(pid, &server.address()), Vec::<String>::new());
        }
    }
}

#[test]
fn where_neither_is_wanted_and_by_commands_without_a_server_nothing_is_sent() {
    for ground in grounds() {
        let doorway = Doorway::open();
        write(&ground, &doorway.settings(""));
        assert!(ground.pinfold(&["run", "--", "true"]).status.success());
        ground.create(&[]);
        write(&ground, &doorway.settings("traces = false\nmetrics = false\n"));

        let server = Server::begin(&ground, &[]);
        server.create();
        assert_eq!(server.end_with(rustix::process::Signal::TERM), Some(0));

        assert!(doorway.next().is_none(), "somebody came");
    }
}

#[test]
fn headers_from_the_environment_are_shown_nowhere_right_or_wrong() {
    for ground in grounds() {
        write(&ground, "[telemetry]\nendpoint = \"http://127.0.0.1:1\"\n");
        let with = |headers: &str| {
            ground.command(&["config", "show"]).env("PINFOLD_TELEMETRY_HEADERS", headers).output().unwrap()
        };

        let right = with("authorization=Bearer hunter2, x-team=hunter2");
        let wrong = with("hunter2");
        let refused = with("host=hunter2");

        let shown = text(&right.stdout);
        assert!(
            shown.contains("telemetry.headers.x-team") && shown.contains("PINFOLD_TELEMETRY_HEADERS"),
            "{shown}"
        );
        for (output, expected) in [
            (&wrong, "NAME=VALUE with commas"),
            (&refused, "telemetry.headers.host: this header is set by the program itself"),
        ] {
            let told = text(&output.stderr);
            assert!(!output.status.success() && told.contains(expected), "{told}");
            assert!(told.contains("PINFOLD_TELEMETRY_HEADERS"), "{told}");
        }
        for output in [right, wrong, refused] {
            assert!(!text(&output.stdout).contains("hunter2") && !text(&output.stderr).contains("hunter2"));
        }
    }
}
