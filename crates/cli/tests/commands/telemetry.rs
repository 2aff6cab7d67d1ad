//! `[telemetry]`: what is sent, and that nothing is sent without it.

use std::cell::RefCell;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use pinfold_client::ServerFile;
use pinfold_test_support::until;

use crate::fixture::{Fixture, fixtures, text};
use crate::serve::Server;

/// A listener that accepts telemetry requests.
struct FakeCollector(TcpListener);

impl FakeCollector {
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

/// Reads the head of a request and answers with success.
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

fn write(fixture: &Fixture, settings: &str) {
    fs::write(fixture.data().join("pinfold.toml"), settings).unwrap();
}

/// Waits for a request to this path; requests to other paths are answered too.
fn wait_for_request(collector: &FakeCollector, path: &str) -> String {
    let taken = RefCell::new(String::new());
    until(path, || {
        let Some(head) = collector.next().map(head_of) else { return false };
        let is_it = head.starts_with(&format!("post {path} "));
        taken.replace(head);
        is_it
    });
    taken.into_inner()
}

/// Connections of a process, except those to its own listening address.
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
fn telemetry_is_sent_with_the_configured_headers() {
    for fixture in fixtures() {
        let collector = FakeCollector::open();
        write(&fixture, &collector.settings("headers = { authorization = \"Bearer hunter2\" }\n"));
        let server = Server::begin(&fixture, &[]);

        let metrics = wait_for_request(&collector, "/v1/metrics");
        server.create();
        let traces = wait_for_request(&collector, "/v1/traces");

        for head in [metrics, traces] {
            assert!(head.contains("authorization: bearer hunter2\r\n"), "{head}");
            assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        }
        drop(collector);
        assert_eq!(server.end_with(rustix::process::Signal::TERM), Some(0));
        let log = fs::read_to_string(fixture.data().join("serve.log")).unwrap();
        assert!(!log.contains("hunter2"), "{log}");
    }
}

#[test]
fn server_without_a_collector_opens_no_connections() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let pid = ServerFile::read(&fixture.data()).unwrap().unwrap().pid;
        let id = server.create();

        for _ in 0..20 {
            server.ask(async |client| client.sandbox(&id).await.unwrap());
            assert_eq!(connections(pid, &server.address()), Vec::<String>::new());
        }
    }
}

#[test]
fn disabled_telemetry_and_local_commands_send_nothing() {
    for fixture in fixtures() {
        let collector = FakeCollector::open();
        write(&fixture, &collector.settings(""));
        assert!(fixture.pinfold(&["run", "--", "true"]).status.success());
        fixture.create(&[]);
        write(&fixture, &collector.settings("traces = false\nmetrics = false\n"));

        let server = Server::begin(&fixture, &[]);
        server.create();
        assert_eq!(server.end_with(rustix::process::Signal::TERM), Some(0));

        assert!(collector.next().is_none(), "the collector got a connection");
    }
}

#[test]
fn telemetry_headers_are_never_shown() {
    for fixture in fixtures() {
        write(&fixture, "[telemetry]\nendpoint = \"http://127.0.0.1:1\"\n");
        let with = |headers: &str| {
            fixture.command(&["config", "show"]).env("PINFOLD_TELEMETRY_HEADERS", headers).output().unwrap()
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
            (&wrong, "NAME=VALUE pairs"),
            (&refused, "telemetry.headers.host: this header is set by Pinfold itself"),
        ] {
            let stderr = text(&output.stderr);
            assert!(!output.status.success() && stderr.contains(expected), "{stderr}");
            assert!(stderr.contains("PINFOLD_TELEMETRY_HEADERS"), "{stderr}");
        }
        for output in [right, wrong, refused] {
            assert!(!text(&output.stdout).contains("hunter2") && !text(&output.stderr).contains("hunter2"));
        }
    }
}
