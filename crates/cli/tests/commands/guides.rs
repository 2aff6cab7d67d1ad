//! The commands of `docs/api.md` and `docs/operating.md`, run in their order against a real server, so that they cannot
//! rot; and the unit that the latter speaks of.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use pinfold_client::ServerFile;

use crate::ground::{Ground, commands_in, grounds, text, until};

/// A server on the ground answers meanwhile, and its address and token are in the environment.
fn run_all_of(document: &str, ground: &Ground) -> Output {
    let log = fs::File::create(ground.data().join("serve.log")).unwrap();
    let mut serve = ground.command(&["serve", "--listen", "127.0.0.1:0", "--on-exit", "stop"]);
    let mut server = serve.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    until("the server says where it is", || {
        ServerFile::read(&ground.data()).is_ok_and(|said| said.is_some())
    });
    let said = ServerFile::read(&ground.data()).unwrap().unwrap();
    let token = fs::read_to_string(ground.data().join("admin.token")).unwrap();

    let ran = ground
        .program("timeout", &["120", "sh", "-eux", "-c", &commands_in(document)])
        .env("PINFOLD_URL", &said.address)
        .env("PINFOLD_TOKEN", token.trim())
        .output();

    let asked = Command::new("kill").arg(server.id().to_string()).status();
    if asked.is_err() {
        server.kill().unwrap();
    }
    assert!(server.wait().unwrap().success(), "the server did not end well");
    ran.unwrap()
}

#[test]
fn every_example_of_the_api_guide_works() {
    let ran = run_all_of("api.md", &grounds().remove(0));

    assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
}

#[test]
fn every_command_of_the_operating_guide_works() {
    let ground = grounds().remove(0);

    let ran = run_all_of("operating.md", &ground);

    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", text(&ran.stderr));
    for expected in ["busy", "is gone: stopped_by_user", "absent", "scheduled", "pinfold_sandboxes"] {
        assert!(said.contains(expected), "no `{expected}` in {said}");
    }
    assert!(ground.is_clean());
}

/// As the service manager itself reads it, with a program that is there.
#[test]
fn the_unit_of_the_service_is_understood() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/pinfold.service");
    let here = tempfile::tempdir().unwrap();
    let copy = here.path().join("pinfold.service");
    let program = env!("CARGO_BIN_EXE_pinfold");
    fs::write(&copy, fs::read_to_string(unit).unwrap().replace("/usr/local/bin/pinfold", program)).unwrap();

    let verified = Command::new("systemd-analyze").arg("verify").arg(&copy).output().unwrap();

    let said = text(&verified.stderr);
    assert!(verified.status.success() && !said.contains("pinfold.service"), "{said}");
}
