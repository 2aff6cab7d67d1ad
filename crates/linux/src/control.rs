//! Client for the control socket of a keeper: one connection per request, addressed by the paths of the instance.

use std::io;
use std::time::Duration;

use pinfold_keeper_wire::{self as wire, MAX_MESSAGE_BYTES, Request, Response};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::paths::InstancePaths;

/// Time limit for requests that a keeper answers without waiting.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// Nothing listens on the socket: the keeper is gone, or never existed.
    #[error("no keeper listens: {0}")]
    NotListening(#[source] io::Error),
    #[error("the keeper did not answer: {0}")]
    NoAnswer(#[source] io::Error),
}

impl ControlError {
    /// The keeper exists and may still answer.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::NoAnswer(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

/// Sends a request and waits for the answer without a time limit.
pub(crate) async fn query_without_timeout(
    paths: &InstancePaths,
    request: &Request,
) -> Result<Response, ControlError> {
    let frame = wire::frame(request).map_err(ControlError::NoAnswer)?;
    let (stream, sent) = connect_and_send(paths, &frame).map_err(connect_error)?;
    let answered = async {
        let mut stream = UnixStream::from_std(stream)?;
        stream.write_all(&frame[sent..]).await?;
        receive(&mut stream).await
    };
    answered.await.map_err(ControlError::NoAnswer)
}

/// Connects and writes as much as the socket buffer takes, which is nearly always the whole request. Waiting for
/// writability first would take longer than the write.
fn connect_and_send(
    paths: &InstancePaths,
    frame: &[u8],
) -> io::Result<(std::os::unix::net::UnixStream, usize)> {
    let address = SocketAddrUnix::new(paths.socket())?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    let sent = match rustix::net::send(&socket, frame, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN) => 0,
        sent => sent?,
    };
    Ok((socket.into(), sent))
}

pub(crate) async fn query(paths: &InstancePaths, request: &Request) -> Result<Response, ControlError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, query_without_timeout(paths, request)).await {
        Ok(answer) => answer,
        Err(_) => Err(ControlError::NoAnswer(io::ErrorKind::TimedOut.into())),
    }
}

/// Error text for an answer that does not fit its request.
pub(crate) fn unexpected(response: &Response) -> String {
    format!("unexpected answer of the keeper: {}", describe(response))
}

/// An answer in words, without the secret that some answers carry.
pub(crate) fn describe(response: &Response) -> String {
    match response {
        Response::Done => "done".to_owned(),
        Response::Pong { confirmed, missing: None, .. } => format!("pong, {}", launch(*confirmed)),
        Response::Pong { confirmed, missing: Some(missing), .. } => {
            format!("pong, {}, `{missing}` is missing", launch(*confirmed))
        }
        Response::Probed { confirmed, failed, .. } => {
            let result = if failed.is_some() { "failed" } else { "passed" };
            format!("probe {result}, {}", launch(*confirmed))
        }
        Response::Executions(executions) => {
            let running = executions.iter().filter(|execution| execution.ended.is_none()).count();
            format!("{} executions, {running} running", executions.len())
        }
        Response::Usage { .. } => "usage".to_owned(),
        Response::Ended(_) => "execution ended".to_owned(),
        Response::InputAccepted { accepted, .. } => format!("{accepted} bytes of input accepted"),
        Response::Activity { operations, .. } => format!("{operations} operations"),
        Response::Refused { why, .. } => format!("refused: {why}"),
    }
}

fn launch(confirmed: bool) -> &'static str {
    if confirmed { "launch confirmed" } else { "launch not confirmed" }
}

pub(crate) async fn connect(paths: &InstancePaths) -> Result<UnixStream, ControlError> {
    UnixStream::connect(paths.socket()).await.map_err(connect_error)
}

fn connect_error(error: io::Error) -> ControlError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ControlError::NotListening(error),
        _ => ControlError::NoAnswer(error),
    }
}

pub(crate) async fn send(stream: &mut UnixStream, request: &Request) -> io::Result<()> {
    stream.write_all(&wire::frame(request)?).await
}

pub(crate) async fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let length = usize::try_from(stream.read_u32_le().await?).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}
