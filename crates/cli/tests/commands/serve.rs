//! `pinfold serve`: where it listens, how it ends, and what becomes of its sandboxes.

use std::fs;
use std::process::{Child, Stdio};

use pinfold_api::{ExecRequest, OutputEvent};
use pinfold_client::{Client, ServerFile};
use serde_json::json;

use crate::ground::{Ground, all_absent, grounds, text, until};

/// A server that is killed with the test, if it has not ended by then.
pub(crate) struct Server {
    child: Child,
    address: String,
    token: String,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn begin(ground: &Ground, arguments: &[&str]) -> Self {
        Self::begin_as("pinfold", ground, arguments)
    }

    /// The same program under another name.
    pub(crate) fn begin_as(program: &str, ground: &Ground, arguments: &[&str]) -> Self {
        let before = ServerFile::read(&ground.data()).unwrap();
        let log = fs::File::create(ground.data().join("serve.log")).unwrap();
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = ground.command_of(program, &arguments);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let is_new = || ServerFile::read(&ground.data()).is_ok_and(|said| said.is_some() && said != before);
        until("the server says where it is", is_new);
        let said = ServerFile::read(&ground.data()).unwrap().unwrap();
        assert_eq!(said.pid, child.id());
        let token = fs::read_to_string(ground.data().join("admin.token")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::new(&said.address, &token).unwrap();
        Self { child, address: said.address, token, client, runtime }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    pub(crate) fn token(&self) -> &str {
        self.token.trim()
    }

    /// For another runtime: connections live in the one that they were made in.
    pub(crate) fn fresh_client(&self) -> Client {
        Client::new(&self.address, &self.token).unwrap()
    }

    pub(crate) fn ask<T>(&self, question: impl AsyncFnOnce(&Client) -> T) -> T {
        self.runtime.block_on(question(&self.client))
    }

    pub(crate) fn create(&self) -> String {
        self.ask(async |client| client.create(&Default::default()).await.unwrap().id)
    }

    fn says(&self, sandbox: &str, script: &str) -> String {
        self.ask(async |client| {
            let mut events = client.exec_streamed(sandbox, &request(script)).await.unwrap();
            let mut said = String::new();
            while let Some(event) = events.next().await.unwrap() {
                said.push_str(text_of(&event));
            }
            said
        })
    }

    /// Its exit code after this signal.
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
fn an_address_that_others_can_reach_is_refused_unless_it_is_asked_for() {
    for ground in grounds() {
        let refused = ground.pinfold(&["serve", "--listen", "0.0.0.0:0"]);

        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("--without-tls"), "{}", text(&refused.stderr));
        assert!(ServerFile::read(&ground.data()).unwrap().is_none());
    }
}

#[test]
fn a_server_ends_in_order_and_the_next_one_takes_over() {
    for ground in grounds() {
        let server = Server::begin(&ground, &[]);
        let id = server.create();
        assert_eq!(server.says(&id, "echo kept > /workspace/note; echo one"), "one\n");

        let code = server.end_with(rustix::process::Signal::TERM);

        assert_eq!(code, Some(0), "{}", fs::read_to_string(ground.data().join("serve.log")).unwrap());
        assert!(ServerFile::read(&ground.data()).unwrap().is_none());
        let next = Server::begin(&ground, &["--log-format", "json"]);
        assert_eq!(next.says(&id, "cat /workspace/note"), "kept\n");
        let first = fs::read_to_string(ground.data().join("serve.log")).unwrap();
        let first: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
        assert!(first["level"].is_string(), "{first}");
    }
}

#[test]
fn a_server_that_is_told_to_ends_its_sandboxes_first() {
    for ground in grounds() {
        let server = Server::begin(&ground, &["--on-exit", "stop"]);
        let id = server.create();

        let code = server.end_with(rustix::process::Signal::INT);

        assert_eq!(code, Some(0));
        assert!(ground.is_clean());
        let listed = ground.document(&["ps", "--all", "--json"]);
        assert_eq!((&listed[0]["id"], &listed[0]["cause"]), (&json!(id), &json!("shutdown")));
    }
}

#[test]
fn a_killed_server_loses_no_line_of_what_runs() {
    for ground in grounds() {
        let server = Server::begin(&ground, &[]);
        let id = server.create();
        let script = "i=1; while [ $i -le 100 ]; do echo $i; i=$((i+1)); sleep 0.02; done";
        let (execution, mut said, last) = server.ask(async |client| {
            let mut events = client.exec_streamed(&id, &request(script)).await.unwrap();
            let execution = events.execution().unwrap().to_owned();
            let (mut said, mut last) = (String::new(), 0);
            while last < 10 {
                let event = events.next().await.unwrap().unwrap();
                said.push_str(text_of(&event));
                last = event.seq();
            }
            (execution, said, last)
        });
        server.end_with(rustix::process::Signal::KILL);

        let next = Server::begin(&ground, &[]);
        let exit = next.ask(async |client| {
            let mut events = client.follow(&execution, last).await.unwrap();
            let mut exit = None;
            while let Some(event) = events.next().await.unwrap() {
                said.push_str(text_of(&event));
                exit = Some(event);
            }
            exit
        });

        let expected: String = (1..=100).map(|number| format!("{number}\n")).collect();
        assert_eq!(said, expected);
        assert!(matches!(exit, Some(OutputEvent::Exit { exit_code: Some(0), .. })), "{exit:?}");
    }
}

#[test]
fn a_command_beside_the_server_ends_a_sandbox_of_the_server() {
    for ground in grounds() {
        let server = Server::begin(&ground, &[]);
        let id = server.create();

        let stopped = ground.document(&["stop", "--local", "--json", "--force", &id]);

        assert!(all_absent(&stopped[0]), "{stopped}");
        let shown = server.ask(async |client| client.sandbox(&id).await.unwrap());
        assert_eq!(shown.cause, Some(pinfold_api::Cause::StoppedByUser));
        assert!(shown.receipt.is_some());
    }
}
