//! Those who have connected to the control socket, and what they wait for.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::wire::{self, Request, Response};

/// Room for what is read at a time, at the least.
const AT_ONCE: usize = 16 * 1024;

pub(crate) struct Peer {
    pub(crate) stream: UnixStream,
    arrived: Vec<u8>,
    /// What its socket has not taken yet.
    unsent: Vec<u8>,
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
        Ok(Self { stream, arrived: Vec::new(), unsent: Vec::new(), waits_for: None })
    }

    /// The requests that have arrived whole. An error ends the connection, never the keeper.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Request>> {
        self.arrived.reserve(AT_ONCE);
        match rustix::io::read(&self.stream, spare_capacity(&mut self.arrived)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        let mut requests = Vec::new();
        while let Some(request) = wire::take(&mut self.arrived)? {
            requests.push(request);
        }
        Ok(requests)
    }

    /// The connection, for somebody else to go on with.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// What its socket does not take now is sent on later. A peer that does not read its answers is let go: no sane one
    /// leaves more unread than the longest of them.
    pub(crate) fn answer(&mut self, response: &Response) -> io::Result<()> {
        self.unsent.extend(wire::frame(response)?);
        self.send_on()?;
        if self.unsent.len() > wire::LONGEST { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// As much as its socket takes now.
    pub(crate) fn send_on(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        match self.stream.write(&self.unsent) {
            Ok(sent) => {
                self.unsent.drain(..sent);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Ended, EndedBy, Execution, Survived};

    fn executions(count: usize) -> Response {
        let ended = Ended { by: EndedBy::Itself, code: Some(0), signal: None, survived: Survived::NOTHING };
        let one = |number| Execution { execution: format!("exe_{number}"), quiet_ms: 0, ended: Some(ended) };
        Response::Executions((0..count).map(one).collect())
    }

    #[test]
    fn a_long_answer_arrives_whole_at_a_reader_that_begins_later() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(here).unwrap();
        let answer = executions(10_000);

        peer.answer(&answer).unwrap();
        assert!(peer.has_unsent(), "its socket holds all of it");
        let reader = std::thread::spawn(move || wire::receive::<Response>(&mut there).unwrap());
        while peer.has_unsent() {
            peer.send_on().unwrap();
        }

        assert_eq!(reader.join().unwrap(), answer);
    }

    #[test]
    fn a_peer_that_never_reads_is_let_go() {
        let (here, _there) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(here).unwrap();
        let answer = executions(10_000);

        let answered = (0..100).take_while(|_| peer.answer(&answer).is_ok()).count();

        assert!((1..10).contains(&answered), "{answered}");
    }
}
