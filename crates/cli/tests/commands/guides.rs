//! Runs the commands of `docs/api.md` and `docs/operating.md` in order against a real server, and checks the systemd
//! unit.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use pinfold_client::ServerFile;
use pinfold_test_support::until;

use crate::fixture::{Fixture, commands_in, fixtures, text};

/// Runs all commands of a document with a server, whose address and token are in the environment.
fn run_all_of(document: &str, fixture: &Fixture) -> Output {
    let log = fs::File::create(fixture.data().join("serve.log")).unwrap();
    let mut serve = fixture.command(&["serve", "--listen", "127.0.0.1:0", "--on-exit", "stop"]);
    let mut server = serve.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    until("the server has written server.json", || {
        ServerFile::read(&fixture.data()).is_ok_and(|server_file| server_file.is_some())
    });
    let server_file = ServerFile::read(&fixture.data()).unwrap().unwrap();
    let token = fs::read_to_string(fixture.data().join("admin.token")).unwrap();

    let ran = fixture
        .program("timeout", &["120", "sh", "-eux", "-c", &commands_in(document)])
        .env("PINFOLD_URL", &server_file.address)
        .env("PINFOLD_TOKEN", token.trim())
        .output();

    let signalled = Command::new("kill").arg(server.id().to_string()).status();
    if signalled.is_err() {
        server.kill().unwrap();
    }
    assert!(server.wait().unwrap().success(), "the server did not end well");
    ran.unwrap()
}

#[test]
fn every_example_of_the_api_guide_works() {
    let ran = run_all_of("api.md", &fixtures().remove(0));

    assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
}

#[test]
fn every_command_of_the_operating_guide_works() {
    let fixture = fixtures().remove(0);

    let ran = run_all_of("operating.md", &fixture);

    let output = text(&ran.stdout);
    assert!(ran.status.success(), "{output}\n{}", text(&ran.stderr));
    for expected in ["busy", "is gone: stopped_by_user", "absent", "scheduled", "pinfold_sandboxes"] {
        assert!(output.contains(expected), "no `{expected}` in {output}");
    }
    assert!(fixture.is_clean());
}

/// Checked by `systemd-analyze`, with an existing program.
#[test]
fn systemd_unit_is_valid() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/pinfold.service");
    let here = tempfile::tempdir().unwrap();
    let copy = here.path().join("pinfold.service");
    let program = env!("CARGO_BIN_EXE_pinfold");
    fs::write(&copy, fs::read_to_string(unit).unwrap().replace("/usr/local/bin/pinfold", program)).unwrap();

    let verified = Command::new("systemd-analyze").arg("verify").arg(&copy).output().unwrap();

    let output = text(&verified.stderr);
    assert!(verified.status.success() && !output.contains("pinfold.service"), "{output}");
}
