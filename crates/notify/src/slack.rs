//! Notifications for Slack and compatible receivers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use pinfold_api::{AlertEvent, AlertNotice, AlertSeverity};
use serde_json::{Value, json};

use super::Redacted;
use super::http_client::HttpSendError;
use super::notice::impact_text;

pub(super) fn request(to: &Redacted, notice: &AlertNotice) -> Result<Request<Full<Bytes>>, HttpSendError> {
    let body = body(notice).to_string();
    let request = Request::post(&to.0).header(CONTENT_TYPE, "application/json");
    request.body(Full::new(Bytes::from(body))).map_err(HttpSendError::BadAddress)
}

/// `text` is the preview, `blocks` the message in the channel.
fn body(notice: &AlertNotice) -> Value {
    let headline = format!("{} {}", emoji(notice), notice.title);
    let affects = notice.affects.join(", ");
    let details = format!(
        "{} · level {} · affects {} · <{}|runbook>",
        severity_name(notice.severity),
        notice.level,
        escaped(&affects),
        escaped(&notice.runbook)
    );
    json!({
        "text": format!("{} {}", emoji(notice), escaped(&notice.message)),
        "blocks": [
            { "type": "header", "text": { "type": "plain_text", "text": headline, "emoji": true } },
            { "type": "section", "text": { "type": "mrkdwn", "text": escaped(&notice.message) } },
            { "type": "context", "elements": [
                { "type": "mrkdwn", "text": details },
                { "type": "plain_text", "text": impact_text(&notice.impact) },
            ] },
        ],
    })
}

fn emoji(notice: &AlertNotice) -> &'static str {
    match (notice.event, notice.severity) {
        (AlertEvent::Resolved, _) => ":white_check_mark:",
        (_, AlertSeverity::Critical) => ":rotating_light:",
        (_, AlertSeverity::Warning) => ":warning:",
        (_, AlertSeverity::Info) => ":information_source:",
    }
}

pub(super) fn severity_name(severity: AlertSeverity) -> &'static str {
    match severity {
        AlertSeverity::Info => "info",
        AlertSeverity::Warning => "warning",
        AlertSeverity::Critical => "critical",
    }
}

/// Escapes Slack markup, so that text creates no links or mentions.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_markup_is_escaped() {
        assert_eq!(escaped("<!channel> & <http://a|b>"), "&lt;!channel&gt; &amp; &lt;http://a|b&gt;");
    }
}
