//! Mail notifications, with a real SMTP server (`aiosmtpd`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pinfold_alerts::{Alert, EscalationLevel};
use pinfold_notify::{AlertsConfig, Receivers, Smtp, SmtpSecurity};
use pinfold_test_support::skip;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::{ALWAYS, fast_alerts, with_alerts};
use crate::fixture::with_service_config;

/// An SMTP server that stores mail in a directory.
struct MailServer {
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl MailServer {
    /// None: `aiosmtpd` is not installed, and the test is reported as skipped.
    async fn start(test: &str) -> Option<Self> {
        // Another process may take the port; then the server exits at once and another port is tried.
        loop {
            let directory = tempfile::tempdir().unwrap();
            let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
            let mut command = Command::new("aiosmtpd");
            command.args(["-n", "-l", &format!("127.0.0.1:{port}"), "-c", "aiosmtpd.handlers.Mailbox"]);
            command.arg(directory.path().join("mail"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let Ok(process) = command.spawn() else {
                skip(test, "aiosmtpd is not installed");
                return None;
            };
            let mut server = Self { process, port, directory };
            if server.answers().await {
                return Some(server);
            }
        }
    }

    async fn answers(&mut self) -> bool {
        let tries = async {
            while self.process.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        };
        tokio::time::timeout(Duration::from_secs(20), tries).await.expect("the mail server did not start")
    }

    fn mails(&self) -> Vec<String> {
        let new = self.directory.path().join("mail/new");
        let Ok(found) = std::fs::read_dir(new) else { return Vec::new() };
        let paths: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
        paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn to_mail(mut config: AlertsConfig, port: u16, security: SmtpSecurity) -> AlertsConfig {
    let email = vec!["team@example.org".to_owned(), "Night Shift <night@example.org>".to_owned()];
    config.receivers =
        BTreeMap::from([(EscalationLevel::AgentTeam, Receivers { email, ..Receivers::default() })]);
    let from = "Pinfold <pinfold@example.org>".to_owned();
    config.smtp = Some(Smtp { host: "127.0.0.1".into(), port, security, from, login: None });
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn critical_alerts_are_mailed_and_warnings_are_not() {
    let Some(server) = MailServer::start("critical_alerts_are_mailed_and_warnings_are_not").await else {
        return;
    };
    let fires = fast_alerts(&[(Alert::SandboxStuck, ALWAYS), (Alert::SandboxActiveHigh, ALWAYS)]);

    with_service_config(with_alerts(to_mail(fires, server.port, SmtpSecurity::None)), |fixture| async move {
        let delivered = |answer: &serde_json::Value| {
            let delivery = answer["deliveries"][0].clone();
            (delivery["state"] == "delivered").then_some(delivery)
        };
        let delivery = fixture.until("it is delivered", "/api/alerts/deliveries", delivered).await;

        let mails = server.mails();
        let [mail] = mails.as_slice() else { panic!("{mails:?}") };
        let id = delivery["id"].as_str().unwrap();
        for expected in [
            "From: Pinfold <pinfold@example.org>",
            "To: team@example.org, \"Night Shift\" <night@example.org>",
            "Subject: [CRITICAL] Stuck Sandboxes",
            &format!("Message-ID: <{id}@pinfold>"),
            "Stuck Sandboxes: 0 (above -1)",
            "docs/runbook.md#2-which-ones-are-stuck-3-minutes",
        ] {
            assert!(mail.contains(expected), "no `{expected}` in {mail}");
        }
        assert_eq!((&delivery["target"], &delivery["attempts"]), (&json!("email/1"), &json!(1)));
        assert_eq!(
            fixture.get("/api/alerts/deliveries").await.json()["deliveries"].as_array().unwrap().len(),
            1
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_requires_tls_is_not_sent_unencrypted() {
    let Some(server) = MailServer::start("mail_that_requires_tls_is_not_sent_unencrypted").await else {
        return;
    };
    let config = to_mail(fast_alerts(&[]), server.port, SmtpSecurity::StartTls);

    with_service_config(with_alerts(config), |fixture| async move {
        let tested = fixture.post("/api/alerts/test", json!({})).await.json();

        assert_eq!(tested["results"][0]["target"], "log");
        assert_eq!(
            (&tested["results"][1]["target"], &tested["results"][1]["delivered"]),
            (&json!("email/1"), &json!(false))
        );
        assert_eq!(server.mails(), [""; 0]);
    })
    .await;
}
