//! The examples of `docs/api.md`, run in their order against a real server, so that they cannot rot.

use std::fs;
use std::process::{Command, Stdio};

use pinfold_client::ServerFile;

use crate::ground::{Ground, commands_in, grounds, text, until};

#[test]
fn every_example_of_the_api_guide_works() {
    let ground: Ground = grounds().remove(0);
    let log = fs::File::create(ground.data().join("serve.log")).unwrap();
    let mut serve = ground.command(&["serve", "--listen", "127.0.0.1:0", "--on-exit", "stop"]);
    let mut server = serve.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    until("the server says where it is", || {
        ServerFile::read(&ground.data()).is_ok_and(|said| said.is_some())
    });
    let said = ServerFile::read(&ground.data()).unwrap().unwrap();
    let token = fs::read_to_string(ground.data().join("admin.token")).unwrap();

    let ran = Command::new("timeout")
        .args(["120", "sh", "-eux", "-c", &commands_in("api.md")])
        .env("PINFOLD_URL", &said.address)
        .env("PINFOLD_TOKEN", token.trim())
        .stdin(Stdio::null())
        .output();

    let asked = Command::new("kill").arg(server.id().to_string()).status();
    if asked.is_err() {
        server.kill().unwrap();
    }
    assert!(server.wait().unwrap().success(), "the server did not end well");
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
}
