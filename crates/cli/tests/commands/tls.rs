//! A server with TLS: trusted clients are answered, plain HTTP is not.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::fixture::{Fixture, fixtures, text};
use crate::serve::Server;

/// A self-signed certificate and its key.
pub(crate) fn make_certificate(fixture: &Fixture) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let directory = fixture.directory("tls");
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    // The server's user owns the directory, and only the owner may read the key.
    let user = fs::metadata(&directory).unwrap().uid();
    chown(&key, Some(user), None).unwrap();
    (certificate, key)
}

/// The TLS port from the server's log.
fn port(fixture: &Fixture) -> String {
    let log = fs::read_to_string(fixture.data().join("serve.log")).unwrap();
    let line = log.lines().find(|line| line.contains("serving with TLS")).unwrap_or_else(|| panic!("{log}"));
    line.rsplit(':').next().unwrap().trim().to_owned()
}

fn stats_over_tls(fixture: &Fixture, port: &str, authority: Option<&Path>) -> Output {
    let mut command = fixture.command(&["stats", "--json"]);
    let token = fs::read_to_string(fixture.data().join("admin.token")).unwrap();
    command.env("PINFOLD_URL", format!("https://localhost:{port}")).env("PINFOLD_TOKEN", token.trim());
    command.envs(authority.map(|path| ("PINFOLD_CA", path))).output().unwrap()
}

#[test]
fn tls_server_answers_trusting_clients_and_local_commands() {
    for fixture in fixtures() {
        let (certificate, key) = make_certificate(&fixture);
        let (shown, secret) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let _server = Server::begin(&fixture, &["--tls-certificate", shown, "--tls-key", secret]);
        let port = port(&fixture);

        let trusted = stats_over_tls(&fixture, &port, Some(&certificate));
        let doubted = stats_over_tls(&fixture, &port, None);
        let here = fixture.document(&["stats", "--json"]);

        assert!(text(&trusted.stdout).contains("total_created"), "{}", text(&trusted.stderr));
        assert!(!doubted.status.success(), "{}", text(&doubted.stdout));
        assert_eq!(here["total_created"], 0);
    }
}

#[test]
fn plain_http_to_a_tls_server_is_not_answered() {
    for fixture in fixtures() {
        let (certificate, key) = make_certificate(&fixture);
        let (shown, secret) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let _server = Server::begin(&fixture, &["--tls-certificate", shown, "--tls-key", secret]);

        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", port(&fixture))).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // The server may also close the connection.
        let _ = stream.read_to_end(&mut answer);

        assert!(!text(&answer).contains("HTTP/1.1 200"), "{}", text(&answer));
    }
}

#[test]
fn incomplete_or_invalid_tls_settings_are_refused() {
    for fixture in fixtures() {
        let (certificate, key) = make_certificate(&fixture);
        let (shown, secret) = (certificate.to_str().unwrap(), key.to_str().unwrap());

        let half = fixture.pinfold(&["serve", "--listen", "127.0.0.1:0", "--tls-certificate", shown]);
        let swapped = ["serve", "--listen", "127.0.0.1:0", "--tls-certificate", secret, "--tls-key", shown];
        let swapped = fixture.pinfold(&swapped);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let exposed = ["serve", "--listen", "127.0.0.1:0", "--tls-certificate", shown, "--tls-key", secret];
        let exposed = fixture.pinfold(&exposed);

        assert_eq!(half.status.code(), Some(2), "{}", text(&half.stderr));
        assert!(text(&half.stderr).contains("--tls-key"), "{}", text(&half.stderr));
        assert!(text(&swapped.stderr).contains("no certificate in"), "{}", text(&swapped.stderr));
        let fix = format!("has mode 644, so other users can read or replace it; run `chmod 600 {secret}`");
        assert!(text(&exposed.stderr).contains(&fix), "{}", text(&exposed.stderr));
    }
}
