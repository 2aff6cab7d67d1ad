//! A minimal HTTP client: one connection per request. A truncated response counts as no response.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::Deadline;

#[derive(Debug, Clone)]
pub struct Api {
    pub address: SocketAddr,
    pub token: String,
}

#[derive(Debug, Clone)]
pub enum Payload {
    Nothing,
    Json(Value),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    /// Null when the body is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    #[must_use]
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The string at this JSON pointer.
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<String> {
        Some(self.json().pointer(pointer)?.as_str()?.to_owned())
    }
}

impl Api {
    pub fn get(&self, path: &str, within: Duration) -> io::Result<Answer> {
        self.request("GET", path, None, &Payload::Nothing, within)
    }

    pub fn post(&self, path: &str, key: Option<&str>, what: Value, within: Duration) -> io::Result<Answer> {
        self.request("POST", path, key, &Payload::Json(what), within)
    }

    pub fn delete(&self, path: &str, within: Duration) -> io::Result<Answer> {
        self.request("DELETE", path, None, &Payload::Nothing, within)
    }

    pub fn request(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        payload: &Payload,
        within: Duration,
    ) -> io::Result<Answer> {
        let deadline = Deadline::after(within);
        let mut stream = TcpStream::connect_timeout(&self.address, within)?;
        stream.set_write_timeout(Some(within))?;
        let (kind, bytes) = match payload {
            Payload::Nothing => (None, Vec::new()),
            Payload::Json(value) => (Some("application/json"), serde_json::to_vec(value)?),
            Payload::Bytes(bytes) => (Some("application/octet-stream"), bytes.clone()),
        };
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n",
            self.address, self.token
        );
        if let Some(key) = key {
            head.push_str(&format!("Idempotency-Key: {key}\r\n"));
        }
        if let Some(kind) = kind {
            head.push_str(&format!("Content-Type: {kind}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", bytes.len()));
        let mut request = head.into_bytes();
        request.extend(bytes);
        stream.write_all(&request)?;
        answer(&read_all(&mut stream, deadline)?)
    }
}

fn read_all(stream: &mut TcpStream, deadline: Deadline) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut piece = [0; 16 * 1_024];
    loop {
        let left = deadline.remaining();
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(length) => all.extend(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Parses a complete response; a truncated one is an error.
fn answer(all: &[u8]) -> io::Result<Answer> {
    let cut_short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let end = find(all, b"\r\n\r\n").ok_or_else(cut_short)?;
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let rest = &all[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(cut_short)?;
    let header = |name: &str| {
        let mut pairs = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        pairs.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let body = if header("transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case("chunked")) {
        unchunked(rest).ok_or_else(cut_short)?
    } else {
        let length = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        rest.get(..length).ok_or_else(cut_short)?.to_vec()
    };
    Ok(Answer { status, body })
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = find(rest, b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

fn find(all: &[u8], what: &[u8]) -> Option<usize> {
    all.windows(what.len()).position(|piece| piece == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_response_is_an_error() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{ } ";

        assert_eq!(answer(whole).unwrap().status, 200);
        for length in 0..whole.len() {
            assert!(answer(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn chunked_response_is_joined_and_needs_its_last_chunk() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";

        assert_eq!(answer(whole).unwrap().body, b"abc");
        assert!(answer(&whole[..whole.len() - 5]).is_err());
    }
}
