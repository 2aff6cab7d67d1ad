//! `pinfold serve`: listening, shutdown, and what happens to its sandboxes.

use std::fs;
use std::process::{Child, Stdio};

use pinfold_api::{ExecRequest, OutputEvent};
use pinfold_client::{Client, ServerFile};
use pinfold_test_support::until;
use serde_json::json;

use crate::fixture::{Fixture, all_absent, fixtures, text};

/// A server that is killed on drop.
pub(crate) struct Server {
    child: Child,
    address: String,
    token: String,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn begin(fixture: &Fixture, arguments: &[&str]) -> Self {
        Self::begin_as("pinfold", fixture, arguments)
    }

    /// Starts a copy of the program under another name.
    pub(crate) fn begin_as(program: &str, fixture: &Fixture, arguments: &[&str]) -> Self {
        let log = fs::File::create(fixture.data().join("serve.log")).unwrap();
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = fixture.command_of(program, &arguments);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let own_file = || ServerFile::all(&fixture.data()).into_iter().find(|file| file.pid == child.id());
        until("the server has announced itself", || own_file().is_some());
        let server_file = own_file().unwrap();
        let token = fs::read_to_string(fixture.data().join("admin.token")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::new(&server_file.address, &token).unwrap();
        Self { child, address: server_file.address, token, client, runtime }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    pub(crate) fn token(&self) -> &str {
        self.token.trim()
    }

    /// A client for another runtime: connections belong to the runtime that opened them.
    pub(crate) fn fresh_client(&self) -> Client {
        Client::new(&self.address, &self.token).unwrap()
    }

    pub(crate) fn ask<T>(&self, question: impl AsyncFnOnce(&Client) -> T) -> T {
        self.runtime.block_on(question(&self.client))
    }

    pub(crate) fn create(&self) -> String {
        self.ask(async |client| client.create(&Default::default()).await.unwrap().id)
    }

    fn output_of(&self, sandbox: &str, script: &str) -> String {
        self.ask(async |client| {
            let mut events = client.exec_streamed(sandbox, &request(script)).await.unwrap();
            let mut output = String::new();
            while let Some(event) = events.next().await.unwrap() {
                output.push_str(text_of(&event));
            }
            output
        })
    }

    /// Sends a signal and returns the exit code.
    pub(crate) fn end_with(mut self, signal: rustix::process::Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn request(script: &str) -> ExecRequest {
    serde_json::from_value(json!({ "command": ["sh", "-c", script] })).unwrap()
}

pub(crate) fn text_of(event: &OutputEvent) -> &str {
    match event {
        OutputEvent::Stdout { text: Some(text), .. } => text,
        _ => "",
    }
}

#[test]
fn public_address_without_tls_is_refused_unless_allowed() {
    for fixture in fixtures() {
        let refused = fixture.pinfold(&["serve", "--listen", "0.0.0.0:0"]);

        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("--without-tls"), "{}", text(&refused.stderr));
        assert!(ServerFile::read(&fixture.data()).unwrap().is_none());
    }
}

#[test]
fn server_shuts_down_cleanly_and_the_next_adopts_its_sandboxes() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let id = server.create();
        assert_eq!(server.output_of(&id, "echo kept > /workspace/note; echo one"), "one\n");

        let code = server.end_with(rustix::process::Signal::TERM);

        assert_eq!(code, Some(0), "{}", fs::read_to_string(fixture.data().join("serve.log")).unwrap());
        assert!(ServerFile::read(&fixture.data()).unwrap().is_none());
        let next = Server::begin(&fixture, &["--log-format", "json"]);
        assert_eq!(next.output_of(&id, "cat /workspace/note"), "kept\n");
        let first = fs::read_to_string(fixture.data().join("serve.log")).unwrap();
        let first: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
        assert!(first["level"].is_string(), "{first}");
    }
}

#[test]
fn server_with_on_exit_stop_stops_its_sandboxes_first() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &["--on-exit", "stop"]);
        let id = server.create();

        let code = server.end_with(rustix::process::Signal::INT);

        assert_eq!(code, Some(0));
        assert!(fixture.is_clean());
        let listed = fixture.document(&["ps", "--all", "--json"]);
        assert_eq!((&listed[0]["id"], &listed[0]["cause"]), (&json!(id), &json!("shutdown")));
    }
}

#[test]
fn killed_server_loses_no_output() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let id = server.create();
        let script = "i=1; while [ $i -le 100 ]; do echo $i; i=$((i+1)); sleep 0.02; done";
        let (execution, mut output, last) = server.ask(async |client| {
            let mut events = client.exec_streamed(&id, &request(script)).await.unwrap();
            let execution = events.execution().unwrap().to_owned();
            let (mut output, mut last) = (String::new(), 0);
            while last < 10 {
                let event = events.next().await.unwrap().unwrap();
                output.push_str(text_of(&event));
                last = event.seq();
            }
            (execution, output, last)
        });
        server.end_with(rustix::process::Signal::KILL);

        let next = Server::begin(&fixture, &[]);
        let exit = next.ask(async |client| {
            let mut events = client.follow(&execution, last).await.unwrap();
            let mut exit = None;
            while let Some(event) = events.next().await.unwrap() {
                output.push_str(text_of(&event));
                exit = Some(event);
            }
            exit
        });

        let expected: String = (1..=100).map(|number| format!("{number}\n")).collect();
        assert_eq!(output, expected);
        assert!(matches!(exit, Some(OutputEvent::Exit { exit_code: Some(0), .. })), "{exit:?}");
    }
}

#[test]
fn local_command_stops_a_sandbox_of_the_server() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let id = server.create();

        let stopped = fixture.document(&["stop", "--local", "--json", "--force", &id]);

        assert!(all_absent(&stopped[0]), "{stopped}");
        let shown = server.ask(async |client| client.sandbox(&id).await.unwrap());
        assert_eq!(shown.cause, Some(pinfold_api::Cause::StoppedByUser));
        assert!(shown.receipt.is_some());
    }
}
