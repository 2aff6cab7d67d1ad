//! A message as Slack and those who speak like it show it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use pinfold_api::{AlertEvent, AlertNotice, AlertSeverity};
use serde_json::{Value, json};

use super::Hidden;
use super::notice::impact_in_words;
use super::post::PostError;

pub(super) fn request(to: &Hidden, notice: &AlertNotice) -> Result<Request<Full<Bytes>>, PostError> {
    let body = body(notice).to_string();
    let request = Request::post(&to.0).header(CONTENT_TYPE, "application/json");
    request.body(Full::new(Bytes::from(body))).map_err(|_| PostError::BadAddress)
}

/// `text` is what a notification shows, `blocks` what is in the channel.
fn body(notice: &AlertNotice) -> Value {
    let headline = format!("{} {}", sign(notice), notice.title);
    let affects = notice.affects.join(", ");
    let details = format!(
        "{} · level {} · affects {} · <{}|runbook>",
        word(notice.severity),
        notice.level,
        harmless(&affects),
        harmless(&notice.runbook)
    );
    json!({
        "text": format!("{} {}", sign(notice), harmless(&notice.message)),
        "blocks": [
            { "type": "header", "text": { "type": "plain_text", "text": headline, "emoji": true } },
            { "type": "section", "text": { "type": "mrkdwn", "text": harmless(&notice.message) } },
            { "type": "context", "elements": [
                { "type": "mrkdwn", "text": details },
                { "type": "plain_text", "text": impact_in_words(&notice.impact) },
            ] },
        ],
    })
}

fn sign(notice: &AlertNotice) -> &'static str {
    match (notice.event, notice.severity) {
        (AlertEvent::Resolved, _) => ":white_check_mark:",
        (_, AlertSeverity::Critical) => ":rotating_light:",
        (_, AlertSeverity::Warning) => ":warning:",
        (_, AlertSeverity::Info) => ":information_source:",
    }
}

fn word(severity: AlertSeverity) -> &'static str {
    match severity {
        AlertSeverity::Info => "info",
        AlertSeverity::Warning => "warning",
        AlertSeverity::Critical => "critical",
    }
}

/// Nothing in it is a link or calls a whole channel.
fn harmless(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_wrote_calls_nobody() {
        assert_eq!(harmless("<!channel> & <http://a|b>"), "&lt;!channel&gt; &amp; &lt;http://a|b&gt;");
    }
}
