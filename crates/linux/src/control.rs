//! Talking to a keeper: one connection for each question, found by the body's place alone.

use std::io;
use std::time::Duration;

use pinfold_keeper::wire::{self, LONGEST, Request, Response};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::places::Places;

/// How long a keeper may take for what it can answer at once.
const AT_ONCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// Nobody listens there: the keeper is gone, or never was.
    #[error("no keeper listens: {0}")]
    NobodyThere(#[source] io::Error),
    #[error("the keeper did not answer: {0}")]
    NoAnswer(#[source] io::Error),
}

impl ControlError {
    /// Somebody is there who may still answer.
    pub(crate) fn is_slowness(&self) -> bool {
        matches!(self, Self::NoAnswer(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

/// Asks and waits for the answer as long as the caller does.
pub(crate) async fn ask_patiently(places: &Places, request: &Request) -> Result<Response, ControlError> {
    let question = wire::frame(request).map_err(ControlError::NoAnswer)?;
    let (stream, sent) = call(places, &question).map_err(unheard)?;
    let answered = async {
        let mut stream = UnixStream::from_std(stream)?;
        stream.write_all(&question[sent..]).await?;
        receive(&mut stream).await
    };
    answered.await.map_err(ControlError::NoAnswer)
}

/// Connects and says as much as the socket takes, which is mostly all of it. Whoever waits to hear that it may write has
/// waited for longer than that takes.
fn call(places: &Places, question: &[u8]) -> io::Result<(std::os::unix::net::UnixStream, usize)> {
    let address = SocketAddrUnix::new(places.socket())?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    let sent = match rustix::net::send(&socket, question, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN) => 0,
        sent => sent?,
    };
    Ok((socket.into(), sent))
}

pub(crate) async fn ask(places: &Places, request: &Request) -> Result<Response, ControlError> {
    match tokio::time::timeout(AT_ONCE, ask_patiently(places, request)).await {
        Ok(answer) => answer,
        Err(_) => Err(ControlError::NoAnswer(io::ErrorKind::TimedOut.into())),
    }
}

pub(crate) async fn connect(places: &Places) -> Result<UnixStream, ControlError> {
    UnixStream::connect(places.socket()).await.map_err(unheard)
}

fn unheard(error: io::Error) -> ControlError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ControlError::NobodyThere(error),
        _ => ControlError::NoAnswer(error),
    }
}

pub(crate) async fn send(stream: &mut UnixStream, request: &Request) -> io::Result<()> {
    stream.write_all(&wire::frame(request)?).await
}

pub(crate) async fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let length = usize::try_from(stream.read_u32_le().await?).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}
