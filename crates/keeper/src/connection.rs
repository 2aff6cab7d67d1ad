//! Connections to the control socket: buffered requests and responses, and the event each one waits for.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::process::Pid;

use pinfold_keeper_wire::{self as wire, Request, Response};

/// Minimum buffer space per read.
const MIN_READ_BYTES: usize = 16 * 1024;

pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    received: Vec<u8>,
    /// Responses that the socket has not accepted yet.
    unsent: Vec<u8>,
    pub(crate) waits_for: Option<AwaitedEnd>,
}

/// The end that a connection waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AwaitedEnd {
    Execution(String),
    Probe(Pid),
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, received: Vec::new(), unsent: Vec::new(), waits_for: None })
    }

    /// Reads and returns the complete requests. An error ends the connection, never the keeper.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Request>> {
        self.received.reserve(MIN_READ_BYTES);
        match rustix::io::read(&self.stream, spare_capacity(&mut self.received)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        let mut requests = Vec::new();
        while let Some(request) = wire::take(&mut self.received)? {
            requests.push(request);
        }
        Ok(requests)
    }

    /// The socket, to be handed to a child process.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Sends a response; what the socket does not accept now is sent later. Fails if more than the longest message is
    /// unsent: the client does not read, and the connection is closed.
    pub(crate) fn respond(&mut self, response: &Response) -> io::Result<()> {
        self.unsent.extend(wire::frame(response)?);
        self.flush()?;
        if self.unsent.len() > wire::MAX_MESSAGE_BYTES {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(())
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends as much as the socket accepts now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
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
    use pinfold_keeper_wire::{Ended, EndedBy, ExecutionStatus, LimitHits};

    fn executions(count: usize) -> Response {
        let ended =
            Ended { by: EndedBy::Itself, code: Some(0), signal: None, limit_hits: LimitHits::NOTHING };
        let one =
            |number| ExecutionStatus { execution: format!("exe_{number}"), idle_ms: 0, ended: Some(ended) };
        Response::Executions((0..count).map(one).collect())
    }

    #[test]
    fn a_long_response_arrives_complete_at_a_client_that_reads_later() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(here).unwrap();
        let respond = executions(10_000);

        connection.respond(&respond).unwrap();
        assert!(connection.has_unsent(), "the socket accepted the whole response");
        let reader = std::thread::spawn(move || wire::receive::<Response>(&mut there).unwrap());
        while connection.has_unsent() {
            connection.flush().unwrap();
        }

        assert_eq!(reader.join().unwrap(), respond);
    }

    #[test]
    fn a_connection_whose_client_never_reads_is_closed() {
        let (here, _there) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(here).unwrap();
        let respond = executions(10_000);

        let answered = (0..100).take_while(|_| connection.respond(&respond).is_ok()).count();

        assert!((1..10).contains(&answered), "{answered}");
    }
}
