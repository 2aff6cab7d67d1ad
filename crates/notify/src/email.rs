//! Notifications by e-mail.

use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use pinfold_api::{AlertEvent, AlertNotice};

use super::notice::impact_text;
use super::slack::severity_name;
use super::{Smtp, SmtpSecurity};

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
pub enum EmailError {
    #[error("`{given}` is not a mail address")]
    BadAddress { given: String, source: lettre::address::AddressError },
    #[error("could not compose the mail: {0}")]
    Write(#[from] lettre::error::Error),
    #[error("could not send the mail: {0}")]
    Send(String),
}

pub(super) async fn send(
    smtp: &Smtp,
    to: &[String],
    delivery: &str,
    notice: &AlertNotice,
    within: Duration,
) -> Result<String, EmailError> {
    let mail = mail(smtp, to, delivery, notice)?;
    let answer = transport(smtp, within)?.send(mail).await.map_err(|error| send_error(&error))?;
    Ok(format!("it answered {}", answer.code()))
}

fn transport(smtp: &Smtp, within: Duration) -> Result<AsyncSmtpTransport<Tokio1Executor>, EmailError> {
    let parameters = || TlsParameters::new(smtp.host.clone()).map_err(|error| send_error(&error));
    let tls = match smtp.security {
        SmtpSecurity::Tls => Tls::Wrapper(parameters()?),
        SmtpSecurity::StartTls => Tls::Required(parameters()?),
        SmtpSecurity::None => Tls::None,
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&smtp.host)
        .port(smtp.port)
        .tls(tls)
        .timeout(Some(within));
    if let Some((name, password)) = &smtp.login {
        builder = builder.credentials(Credentials::new(name.clone(), password.0.clone()));
    }
    Ok(builder.build())
}

/// The error with its chain of causes.
fn send_error(error: &dyn std::error::Error) -> EmailError {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    EmailError::Send(text)
}

/// The delivery id is the Message-ID, so that mail clients merge duplicates.
fn mail(smtp: &Smtp, to: &[String], delivery: &str, notice: &AlertNotice) -> Result<Message, EmailError> {
    let mut mail: MessageBuilder = Message::builder()
        .from(address(&smtp.from)?)
        .subject(subject(notice))
        .message_id(Some(format!("<{delivery}@pinfold>")));
    for one in to {
        mail = mail.to(address(one)?);
    }
    Ok(mail.header(ContentType::TEXT_PLAIN).body(text(notice))?)
}

fn address(given: &str) -> Result<Mailbox, EmailError> {
    given.parse().map_err(|source| EmailError::BadAddress { given: given.to_owned(), source })
}

fn subject(notice: &AlertNotice) -> String {
    let severity = severity_name(notice.severity).to_uppercase();
    match notice.event {
        AlertEvent::Resolved => format!("[RESOLVED] {}", notice.title),
        AlertEvent::Fired
        | AlertEvent::Repeated
        | AlertEvent::Escalated
        | AlertEvent::Acknowledged
        | AlertEvent::Silenced
        | AlertEvent::Unsilenced
        | AlertEvent::Test => format!("[{severity}] {}", notice.title),
    }
}

fn text(notice: &AlertNotice) -> String {
    let since = notice.since.as_deref().unwrap_or("-");
    format!(
        "{}\n\nAlert:    {}\nAt:       {}\nSince:    {since}\nLevel:    {}\nAffects:  {}\nRunbook:  {}\n\n{}\n",
        notice.message,
        notice.name,
        notice.at,
        notice.level,
        notice.affects.join(", "),
        notice.runbook,
        impact_text(&notice.impact),
    )
}
