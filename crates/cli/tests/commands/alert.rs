//! `pinfold alert`: what fires, who sees to it, and whether messages arrive.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::ground::{Ground, grounds, text, until};
use crate::serve::Server;
use crate::tls::make_certificate;

fn configure(ground: &Ground, alerts: &str) {
    fs::write(ground.data().join("pinfold.toml"), format!("[alerts]\n{alerts}")).unwrap();
}

/// As it is listed, if it fires.
fn firing(ground: &Ground, name: &str) -> Option<Value> {
    let listed = ground.document(&["alert", "ls", "--state", "firing", "--json"]);
    listed["alerts"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned()
}

fn said(ground: &Ground, arguments: &[&str]) -> String {
    let output = ground.pinfold(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn an_alert_is_seen_to_silenced_and_told_of_with_a_server_and_without() {
    for ground in grounds() {
        configure(&ground, "every = \"100ms\"\n[alerts.rules.sandbox_active_high]\nthreshold = 0\n");
        let server = Server::begin(&ground, &[]);
        server.create();
        until("it fires", || firing(&ground, "sandbox_active_high").is_some());

        let health = said(&ground, &["health"]);
        let seen_to = said(&ground, &["alert", "ack", "sandbox_active_high"]);
        let wish = ["alert", "silence", "sandbox_active_high", "--for", "2h", "--reason", "a load test"];
        said(&ground, &wish);

        let told = health.lines().find(|line| line.contains("sandbox_active_high")).unwrap();
        assert!(told.starts_with("warning") && told.contains("#1-how-many-are-there"), "{health}");
        assert!(
            health.contains("memory left") && health.contains("indicator: degraded, status: ok"),
            "{health}"
        );
        assert!(seen_to.contains("firing") && seen_to.contains("made at the first start"), "{seen_to}");
        let log = fs::read_to_string(ground.data().join("serve.log")).unwrap();
        let line = log.lines().find(|line| line.contains("alert=\"sandbox_active_high\"")).unwrap();
        assert!(line.contains("WARN") && line.contains("Many Active Sandboxes: 1 (above 0)"), "{line}");
        server.end_with(rustix::process::Signal::TERM);

        let table = said(&ground, &["alert", "ls"]);
        let row = table.lines().find(|line| line.starts_with("sandbox_active_high")).unwrap();
        assert!(row.contains("firing") && row.contains("warning"), "{table}");
        let listed = firing(&ground, "sandbox_active_high").unwrap();
        assert_eq!(listed["silence"]["reason"], "a load test");
        said(&ground, &["alert", "unsilence", "sandbox_active_high"]);
        let history = said(&ground, &["alert", "history", "sandbox_active_high"]);
        let events: Vec<_> =
            history.lines().skip(1).map(|line| line.split_whitespace().nth(2).unwrap()).collect();
        assert_eq!(events, ["unsilenced", "silenced", "acknowledged", "fired"], "{history}");
    }
}

#[test]
fn what_is_no_alert_or_does_not_fire_is_refused() {
    for ground in grounds() {
        let unknown = ground.pinfold(&["alert", "ack", "nonsense"]);
        let quiet = ground.pinfold(&["alert", "ack", "sandbox_stuck"]);
        let endless = ground.pinfold(&["alert", "silence", "sandbox_stuck", "--reason", "x"]);

        assert!(text(&unknown.stderr).contains("there is no alert `nonsense`"), "{unknown:?}");
        assert!(text(&quiet.stderr).contains("the alert does not fire"), "{quiet:?}");
        assert_eq!(endless.status.code(), Some(2), "{endless:?}");
    }
}

/// A mail server that speaks to nobody who does not encrypt.
struct Post(Child);

impl Post {
    fn begin(ground: &Ground, port: u16) -> Option<Self> {
        let (certificate, key) = make_certificate(ground);
        let mut command = Command::new("aiosmtpd");
        command.args(["-n", "-l", &format!("localhost:{port}"), "-c", "aiosmtpd.handlers.Mailbox"]);
        command.arg("--tlscert").arg(certificate).arg("--tlskey").arg(key);
        command.arg(ground.place("mail").join("box"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self(command.spawn().ok()?))
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn skip(test: &str, why: &str) {
    use std::io::Write;
    let Some(path) = std::env::var_os("PINFOLD_SKIPPED_TESTS") else { return };
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{test}: {why}").unwrap();
}

#[test]
fn mail_goes_out_encrypted_to_a_server_whose_authority_is_known() {
    let Some(ground) = grounds().into_iter().next() else { return };
    let port = TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port();
    let Some(_post) = Post::begin(&ground, port) else {
        return skip(
            "mail_goes_out_encrypted_to_a_server_whose_authority_is_known",
            "aiosmtpd is not installed",
        );
    };
    until("the mail server begins", || std::net::TcpStream::connect(("localhost", port)).is_ok());
    configure(
        &ground,
        &format!(
            "smtp_host = \"localhost\"\nsmtp_port = {port}\nemail_from = \"a@example.org\"\n\
             email_to = [\"b@example.org\"]\n"
        ),
    );
    let test = |authority: Option<&str>| {
        let mut command = ground.command(&["alert", "test", "--local", "--json"]);
        let authority = authority.map(|name| ground.place("tls").join(name));
        let output = command.envs(authority.map(|path| ("SSL_CERT_FILE", path))).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.success(), document["results"][1].clone())
    };

    let (trusted, sent) = test(Some("certificate.pem"));
    let (doubted, unsent) = test(None);

    assert!(trusted && sent["delivered"] == true, "{sent}");
    assert!(!doubted && unsent["delivered"] == false, "{unsent}");
    let mails: Vec<_> = fs::read_dir(ground.place("mail").join("box/new")).unwrap().collect();
    assert_eq!(mails.len(), 1);
    let mail = fs::read_to_string(mails[0].as_ref().unwrap().path()).unwrap();
    assert!(mail.contains("Subject: [INFO] Test Of Alerts"), "{mail}");
}
