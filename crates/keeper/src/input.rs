//! Standard input of an execution: a bounded buffer, written when the pipe has room, so that a program that does not
//! read its input never blocks the keeper.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// Capacity of the buffer.
const CAPACITY: usize = 256 * 1024;
/// Control-D: end of input on a terminal.
const END_OF_INPUT: u8 = 4;

pub(crate) struct Input {
    /// None: closed.
    pipe: Option<OwnedFd>,
    is_terminal: bool,
    buffered: Vec<u8>,
    accepted: u64,
    /// The last byte was accepted.
    ended: bool,
}

impl Input {
    pub(crate) fn into_pipe(pipe: OwnedFd) -> Self {
        Self { pipe: Some(pipe), is_terminal: false, buffered: Vec::new(), accepted: 0, ended: false }
    }

    pub(crate) fn into_terminal(pipe: OwnedFd) -> Self {
        Self { is_terminal: true, ..Self::into_pipe(pipe) }
    }

    /// Accepts bytes at offset `at`, as many as are new and fit. Returns the total accepted. Bytes beyond a gap are not
    /// accepted.
    pub(crate) fn accept(&mut self, at: u64, bytes: &[u8], close: bool) -> u64 {
        let known = self.accepted.checked_sub(at).and_then(|known| usize::try_from(known).ok());
        let new = known.and_then(|known| bytes.get(known..));
        if let Some(new) = new.filter(|_| !self.is_closed()) {
            let taken = &new[..new.len().min(CAPACITY.saturating_sub(self.buffered.len()))];
            self.buffered.extend(taken);
            self.accepted += taken.len() as u64;
            if close && taken.len() == new.len() {
                self.ended = true;
                self.buffered.extend(self.is_terminal.then_some(END_OF_INPUT));
            }
            self.flush();
        }
        self.accepted
    }

    /// Nothing more is accepted: the input was closed, or its reader is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.ended || self.pipe.is_none()
    }

    /// The descriptor to poll for writing, if bytes are buffered.
    pub(crate) fn poll_for_write(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref().filter(|_| !self.buffered.is_empty())
    }

    pub(crate) fn flush(&mut self) {
        while let (Some(pipe), false) = (&self.pipe, self.buffered.is_empty()) {
            match rustix::io::write(pipe, &self.buffered) {
                Ok(written) => {
                    self.buffered.drain(..written);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // The reader is gone.
                Err(_) => {
                    self.buffered.clear();
                    self.pipe = None;
                }
            }
        }
        if self.ended {
            self.pipe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::*;

    fn input() -> (io::PipeReader, Input) {
        let (there, here) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&here, true).unwrap();
        (there, Input::into_pipe(here.into()))
    }

    #[test]
    fn repeated_bytes_are_skipped_and_bytes_after_a_gap_are_not_accepted() {
        let (mut there, mut input) = input();

        assert_eq!(input.accept(0, b"one", false), 3);
        assert_eq!(input.accept(0, b"one", false), 3);
        assert_eq!(input.accept(1, b"ne two", false), 7);
        assert_eq!(input.accept(9, b"four", false), 7);
        assert_eq!(input.accept(7, b"", true), 7);
        assert_eq!(input.accept(7, b"late", false), 7);

        let mut read = String::new();
        there.read_to_string(&mut read).unwrap();
        assert_eq!(read, "one two");
    }

    #[test]
    fn input_for_a_program_that_does_not_read_is_bounded() {
        let (mut there, mut input) = input();
        let much = vec![b'x'; 1 << 20];

        let accepted = input.accept(0, &much, true);

        assert!(accepted >= CAPACITY as u64 && accepted < much.len() as u64, "{accepted}");
        assert!(!input.is_closed() && input.poll_for_write().is_some());
        let mut read = vec![0; 64 * 1024];
        there.read_exact(&mut read).unwrap();
        input.flush();
        assert!(input.accept(0, &much, true) > accepted);
    }

    #[test]
    fn input_without_a_reader_is_closed() {
        let (there, mut input) = input();
        drop(there);

        input.accept(0, b"lost", false);

        assert!(input.is_closed());
    }
}
