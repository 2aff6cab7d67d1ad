//! A server with TLS: whoever knows its authority is answered, and nothing is said in the clear.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::ground::{Ground, grounds, text};
use crate::serve::Server;

/// A certificate that vouches for itself, and its key.
pub(crate) fn make_certificate(ground: &Ground) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let place = ground.place("tls");
    let (certificate, key) = (place.join("certificate.pem"), place.join("key.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// As the log of the server says it.
fn port(ground: &Ground) -> String {
    let log = fs::read_to_string(ground.data().join("serve.log")).unwrap();
    let line = log.lines().find(|line| line.contains("serving with TLS")).unwrap_or_else(|| panic!("{log}"));
    line.rsplit(':').next().unwrap().trim().to_owned()
}

fn ask_elsewhere(ground: &Ground, port: &str, authority: Option<&Path>) -> Output {
    let mut command = ground.command(&["stats", "--json"]);
    let token = fs::read_to_string(ground.data().join("admin.token")).unwrap();
    command.env("PINFOLD_URL", format!("https://localhost:{port}")).env("PINFOLD_TOKEN", token.trim());
    command.envs(authority.map(|path| ("PINFOLD_CA", path))).output().unwrap()
}

#[test]
fn a_server_with_tls_answers_those_who_trust_its_authority_and_commands_of_its_own_host() {
    for ground in grounds() {
        let (certificate, key) = make_certificate(&ground);
        let (shown, secret) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let _server = Server::begin(&ground, &["--tls-certificate", shown, "--tls-key", secret]);
        let port = port(&ground);

        let trusted = ask_elsewhere(&ground, &port, Some(&certificate));
        let doubted = ask_elsewhere(&ground, &port, None);
        let here = ground.document(&["stats", "--json"]);

        assert!(text(&trusted.stdout).contains("total_created"), "{}", text(&trusted.stderr));
        assert!(!doubted.status.success(), "{}", text(&doubted.stdout));
        assert_eq!(here["total_created"], 0);
    }
}

#[test]
fn what_is_said_in_the_clear_to_a_server_with_tls_is_not_answered() {
    for ground in grounds() {
        let (certificate, key) = make_certificate(&ground);
        let (shown, secret) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let _server = Server::begin(&ground, &["--tls-certificate", shown, "--tls-key", secret]);

        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", port(&ground))).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // It may also be cut off.
        let _ = stream.read_to_end(&mut answer);

        assert!(!text(&answer).contains("HTTP/1.1 200"), "{}", text(&answer));
    }
}

#[test]
fn half_of_what_tls_needs_is_refused_and_so_is_what_is_no_certificate() {
    for ground in grounds() {
        let (certificate, key) = make_certificate(&ground);
        let (shown, secret) = (certificate.to_str().unwrap(), key.to_str().unwrap());

        let half = ground.pinfold(&["serve", "--listen", "127.0.0.1:0", "--tls-certificate", shown]);
        let swapped = ["serve", "--listen", "127.0.0.1:0", "--tls-certificate", secret, "--tls-key", shown];
        let swapped = ground.pinfold(&swapped);

        assert_eq!(half.status.code(), Some(2), "{}", text(&half.stderr));
        assert!(text(&half.stderr).contains("--tls-key"), "{}", text(&half.stderr));
        assert!(text(&swapped.stderr).contains("there is no certificate in"), "{}", text(&swapped.stderr));
    }
}
