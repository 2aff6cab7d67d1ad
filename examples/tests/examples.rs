//! The examples against a real server with real sandboxes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_api::{CreateSandbox, Receipt};
use pinfold_client::{Client, ServerFile};
use rustix::process::{Pid, Signal, kill_process};

const STARTS_WITHIN: Duration = Duration::from_secs(120);

/// A server with its own data directory. Dropping it stops its sandboxes and the server, and fails the test if the
/// server does not report that they are gone. Their data directory is then kept.
struct Server {
    process: Child,
    address: String,
    token: String,
    data: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let log = File::create(data.path().join("serve.log")).unwrap();
        let mut process = Command::new(pinfold())
            .args(["serve", "--listen", "127.0.0.1:0", "--on-exit", "stop"])
            .env("PINFOLD_DATA_DIR", data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let address = address(data.path(), &mut process);
        let token = fs::read_to_string(data.path().join("admin.token")).unwrap().trim().to_owned();
        Self { process, address, token, data }
    }

    fn example(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("PINFOLD_URL", &self.address).env("PINFOLD_TOKEN", &self.token);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        self.example(program, arguments).output().unwrap()
    }

    fn client(&self) -> Client {
        Client::new(&self.address, &self.token).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let status = self.process.wait().unwrap();
        if status.success() {
            return;
        }
        self.data.disable_cleanup(true);
        let log = fs::read_to_string(self.data.path().join("serve.log")).unwrap_or_default();
        let left =
            format!("the server ended with {status}; {} is kept; log:\n{log}", self.data.path().display());
        // A second panic would abort the test run.
        if std::thread::panicking() {
            eprintln!("{left}");
        } else {
            panic!("{left}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a server takes real time to start")]
fn address(data: &Path, process: &mut Child) -> String {
    let end = Instant::now() + STARTS_WITHIN;
    loop {
        if let Some(file) = ServerFile::read(data).unwrap() {
            return file.address;
        }
        let log = || fs::read_to_string(data.join("serve.log")).unwrap();
        assert!(process.try_wait().unwrap().is_none(), "the server ended: {}", log());
        assert!(Instant::now() < end, "the server did not start: {}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Cargo puts the programs of all packages into one directory, but builds only those of the packages it tests.
fn pinfold() -> PathBuf {
    let pinfold = Path::new(env!("CARGO_BIN_EXE_run_command")).with_file_name("pinfold");
    assert!(pinfold.exists(), "`{}` is missing: run `cargo build -p pinfold-cli` first", pinfold.display());
    pinfold
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn run_command_prints_the_receipt_and_the_output() {
    let server = Server::start();

    let output = server.run(env!("CARGO_BIN_EXE_run_command"), &["echo", "hello"]);

    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let receipt = printed.strip_suffix("hello\n").unwrap();
    let receipt: Receipt = serde_json::from_str(receipt).unwrap();
    assert!(!receipt.checks.is_empty());
}

#[tokio::test]
async fn run_command_leaves_no_sandbox_when_the_command_fails() {
    let server = Server::start();

    let output = server.run(env!("CARGO_BIN_EXE_run_command"), &["false"]);

    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("the command failed"), "{}", text(&output.stderr));
    assert_eq!(server.client().list("").await.unwrap(), []);
}

#[tokio::test]
async fn one_program_watches_what_another_one_stops() {
    let server = Server::start();
    let client = server.client();
    let labelled = |value: &str| CreateSandbox {
        labels: BTreeMap::from([("job".to_owned(), value.to_owned())]),
        ..CreateSandbox::default()
    };
    let sandbox = client.create(&labelled("7")).await.unwrap();
    let other = client.create(&labelled("8")).await.unwrap();
    let mut watch = server.example(env!("CARGO_BIN_EXE_watch_events"), &[&sandbox.id]);
    let watch = watch.stdout(Stdio::piped()).spawn().unwrap();

    let stopped = server.run(env!("CARGO_BIN_EXE_stop_from_anywhere"), &["job=7"]);
    let watched = watch.wait_with_output().unwrap();

    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert!(text(&stopped.stdout).starts_with(&sandbox.id));
    assert!(watched.status.success());
    let events = text(&watched.stdout);
    assert!(events.contains(" created\n") && events.contains(" became_ready\n"), "{events}");
    assert!(client.sandbox(&sandbox.id).await.unwrap().receipt.is_some());
    assert!(client.sandbox(&other.id).await.unwrap().receipt.is_none());
}
