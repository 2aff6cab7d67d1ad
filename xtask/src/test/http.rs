//! One HTTP request on one connection, enough to check running servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

const WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content: String,
}

pub(super) fn request(
    method: &str,
    url: &str,
    path: &str,
    token: Option<&str>,
    content: &str,
) -> Result<Answer> {
    let address = url.trim_start_matches("http://");
    let mut connection =
        TcpStream::connect(address).with_context(|| format!("could not connect to {url}"))?;
    connection.set_read_timeout(Some(WITHIN)).context("could not bound the wait for an answer")?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{token}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{content}",
        content.len()
    );
    connection.write_all(request.as_bytes()).context("could not ask")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).with_context(|| format!("{url}{path} did not answer"))?;
    let (head, content) = answer.split_once("\r\n\r\n").context("that is no answer")?;
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    Ok(Answer { status: status.context("the answer has no status")?, content: content.to_owned() })
}

/// The body of a successful response.
pub(super) fn body(answer: &Answer) -> Result<Value> {
    ensure!(answer.status < 400, "refused with {}: {}", answer.status, answer.content);
    serde_json::from_str(&answer.content).context("the answer is no JSON")
}
