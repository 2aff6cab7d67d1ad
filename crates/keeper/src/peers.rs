//! Those who have connected to the control socket, and what they wait for.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use rustix::process::Pid;

use crate::wire::{self, Request, Response};

pub(crate) struct Peer {
    pub(crate) stream: UnixStream,
    arrived: Vec<u8>,
    pub(crate) waits_for: Option<Awaited>,
}

/// What a peer waits for the end of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    Execution(String),
    Probe(Pid),
}

impl Peer {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, arrived: Vec::new(), waits_for: None })
    }

    /// The requests that have arrived whole. An error ends the connection, never the keeper.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Request>> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.arrived.extend(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let mut requests = Vec::new();
        while let Some(request) = wire::take(&mut self.arrived)? {
            requests.push(request);
        }
        Ok(requests)
    }

    /// A peer that does not read its answers is let go: its socket holds more than any sane one leaves unread.
    pub(crate) fn answer(&mut self, response: &Response) -> io::Result<()> {
        wire::send(&mut self.stream, response)
    }
}
