//! `pinfold alert`: list, acknowledge, silence and test.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use pinfold_test_support::{skip, until};
use serde_json::Value;

use crate::fixture::{Fixture, fixtures, text};
use crate::serve::Server;
use crate::tls::make_certificate;

fn configure(fixture: &Fixture, alerts: &str) {
    fs::write(fixture.data().join("pinfold.toml"), format!("[alerts]\n{alerts}")).unwrap();
}

/// The alert's list entry, if it fires.
fn firing(fixture: &Fixture, name: &str) -> Option<Value> {
    let listed = fixture.document(&["alert", "ls", "--state", "firing", "--json"]);
    listed["alerts"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned()
}

fn stdout_of(fixture: &Fixture, arguments: &[&str]) -> String {
    let output = fixture.pinfold(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn alert_can_be_acknowledged_and_silenced_with_and_without_a_server() {
    for fixture in fixtures() {
        configure(&fixture, "every = \"100ms\"\n[alerts.rules.sandbox_active_high]\nthreshold = 0\n");
        let server = Server::begin(&fixture, &[]);
        server.create();
        until("it fires", || firing(&fixture, "sandbox_active_high").is_some());

        let health = stdout_of(&fixture, &["health"]);
        let acknowledged = stdout_of(&fixture, &["alert", "ack", "sandbox_active_high"]);
        let request = ["alert", "silence", "sandbox_active_high", "--for", "2h", "--reason", "a load test"];
        stdout_of(&fixture, &request);

        let line_shown = health.lines().find(|line| line.contains("sandbox_active_high")).unwrap();
        assert!(
            line_shown.starts_with("warning") && line_shown.contains("#1-how-many-are-there"),
            "{health}"
        );
        assert!(
            health.contains("memory left") && health.contains("indicator: degraded, status: ok"),
            "{health}"
        );
        assert!(
            acknowledged.contains("firing") && acknowledged.contains("made at the first start"),
            "{acknowledged}"
        );
        let log = fs::read_to_string(fixture.data().join("serve.log")).unwrap();
        let line = log.lines().find(|line| line.contains("alert=\"sandbox_active_high\"")).unwrap();
        assert!(line.contains("WARN") && line.contains("Many Active Sandboxes: 1 (above 0)"), "{line}");
        server.end_with(rustix::process::Signal::TERM);

        let table = stdout_of(&fixture, &["alert", "ls"]);
        let row = table.lines().find(|line| line.starts_with("sandbox_active_high")).unwrap();
        assert!(row.contains("firing") && row.contains("warning"), "{table}");
        let listed = firing(&fixture, "sandbox_active_high").unwrap();
        assert_eq!(listed["silence"]["reason"], "a load test");
        stdout_of(&fixture, &["alert", "unsilence", "sandbox_active_high"]);
        let history = stdout_of(&fixture, &["alert", "history", "sandbox_active_high"]);
        let events: Vec<_> =
            history.lines().skip(1).map(|line| line.split_whitespace().nth(2).unwrap()).collect();
        assert_eq!(events, ["unsilenced", "silenced", "acknowledged", "fired"], "{history}");
    }
}

#[test]
fn unknown_or_inactive_alert_cannot_be_acknowledged() {
    for fixture in fixtures() {
        let unknown = fixture.pinfold(&["alert", "ack", "nonsense"]);
        let quiet = fixture.pinfold(&["alert", "ack", "sandbox_stuck"]);
        let endless = fixture.pinfold(&["alert", "silence", "sandbox_stuck", "--reason", "x"]);

        assert!(text(&unknown.stderr).contains("unknown alert `nonsense`"), "{unknown:?}");
        assert!(text(&quiet.stderr).contains("the alert does not fire"), "{quiet:?}");
        assert_eq!(endless.status.code(), Some(2), "{endless:?}");
    }
}

/// A mail server that requires TLS.
struct MailServer(Child);

impl MailServer {
    fn begin(fixture: &Fixture, port: u16) -> Option<Self> {
        let (certificate, key) = make_certificate(fixture);
        let mut command = Command::new("aiosmtpd");
        command.args(["-n", "-l", &format!("localhost:{port}"), "-c", "aiosmtpd.handlers.Mailbox"]);
        command.arg("--tlscert").arg(certificate).arg("--tlskey").arg(key);
        command.arg(fixture.directory("mail").join("box"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self(command.spawn().ok()?))
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn mail_is_sent_encrypted_only_to_a_trusted_server() {
    let Some(fixture) = fixtures().into_iter().next() else { return };
    let port = TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port();
    let Some(_post) = MailServer::begin(&fixture, port) else {
        return skip("mail_is_sent_encrypted_only_to_a_trusted_server", "aiosmtpd is not installed");
    };
    until("the mail server begins", || std::net::TcpStream::connect(("localhost", port)).is_ok());
    configure(
        &fixture,
        &format!(
            "smtp_host = \"localhost\"\nsmtp_port = {port}\nemail_from = \"a@example.org\"\n\
             email_to = [\"b@example.org\"]\n"
        ),
    );
    let test = |authority: Option<&str>| {
        let mut command = fixture.command(&["alert", "test", "--local", "--json"]);
        let authority = authority.map(|name| fixture.directory("tls").join(name));
        let output = command.envs(authority.map(|path| ("SSL_CERT_FILE", path))).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.success(), document["results"][1].clone())
    };

    let (trusted, sent) = test(Some("certificate.pem"));
    let (doubted, unsent) = test(None);

    assert!(trusted && sent["delivered"] == true, "{sent}");
    assert!(!doubted && unsent["delivered"] == false, "{unsent}");
    let mails: Vec<_> = fs::read_dir(fixture.directory("mail").join("box/new")).unwrap().collect();
    assert_eq!(mails.len(), 1);
    let mail = fs::read_to_string(mails[0].as_ref().unwrap().path()).unwrap();
    assert!(mail.contains("Subject: [INFO] Test Of Alerts"), "{mail}");
}
