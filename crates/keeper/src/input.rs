//! What is fed to an execution, on its way there: a bounded buffer, written when there is room, so that a program
//! that does not read holds nobody up.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// As much is accepted ahead of what was read.
const ROOM: usize = 256 * 1024;
/// What a terminal takes for the end of input.
const END_OF_INPUT: u8 = 4;

pub(crate) struct Input {
    /// None: closed.
    to: Option<OwnedFd>,
    is_terminal: bool,
    waiting: Vec<u8>,
    accepted: u64,
    /// No more will come.
    ends: bool,
}

impl Input {
    pub(crate) fn into_pipe(to: OwnedFd) -> Self {
        Self { to: Some(to), is_terminal: false, waiting: Vec::new(), accepted: 0, ends: false }
    }

    pub(crate) fn into_terminal(to: OwnedFd) -> Self {
        Self { is_terminal: true, ..Self::into_pipe(to) }
    }

    /// Takes what is new of it and fits; says how much was accepted in all. What lies beyond a gap is not taken.
    pub(crate) fn feed(&mut self, at: u64, bytes: &[u8], close: bool) -> u64 {
        let known = self.accepted.checked_sub(at).and_then(|known| usize::try_from(known).ok());
        let new = known.and_then(|known| bytes.get(known..));
        if let Some(new) = new.filter(|_| !self.is_closed()) {
            let taken = &new[..new.len().min(ROOM.saturating_sub(self.waiting.len()))];
            self.waiting.extend(taken);
            self.accepted += taken.len() as u64;
            if close && taken.len() == new.len() {
                self.ends = true;
                self.waiting.extend(self.is_terminal.then_some(END_OF_INPUT));
            }
            self.pass_on();
        }
        self.accepted
    }

    /// Nothing more is accepted: it was closed, or nobody reads it.
    pub(crate) fn is_closed(&self) -> bool {
        self.ends || self.to.is_none()
    }

    /// Where to write when there is room again, if something waits for that.
    pub(crate) fn waits_for(&self) -> Option<&OwnedFd> {
        self.to.as_ref().filter(|_| !self.waiting.is_empty())
    }

    pub(crate) fn pass_on(&mut self) {
        while let (Some(to), false) = (&self.to, self.waiting.is_empty()) {
            match rustix::io::write(to, &self.waiting) {
                Ok(written) => {
                    self.waiting.drain(..written);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // Nobody reads any more.
                Err(_) => {
                    self.waiting.clear();
                    self.to = None;
                }
            }
        }
        if self.ends {
            self.to = None;
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
    fn what_was_accepted_before_is_passed_over_and_a_gap_is_not_filled() {
        let (mut there, mut input) = input();

        assert_eq!(input.feed(0, b"one", false), 3);
        assert_eq!(input.feed(0, b"one", false), 3);
        assert_eq!(input.feed(1, b"ne two", false), 7);
        assert_eq!(input.feed(9, b"four", false), 7);
        assert_eq!(input.feed(7, b"", true), 7);
        assert_eq!(input.feed(7, b"late", false), 7);

        let mut read = String::new();
        there.read_to_string(&mut read).unwrap();
        assert_eq!(read, "one two");
    }

    #[test]
    fn a_program_that_does_not_read_is_fed_only_so_much() {
        let (mut there, mut input) = input();
        let much = vec![b'x'; 1 << 20];

        let accepted = input.feed(0, &much, true);

        assert!(accepted >= ROOM as u64 && accepted < much.len() as u64, "{accepted}");
        assert!(!input.is_closed() && input.waits_for().is_some());
        let mut read = vec![0; 64 * 1024];
        there.read_exact(&mut read).unwrap();
        input.pass_on();
        assert!(input.feed(0, &much, true) > accepted);
    }

    #[test]
    fn nobody_reading_closes_it() {
        let (there, mut input) = input();
        drop(there);

        input.feed(0, b"lost", false);

        assert!(input.is_closed());
    }
}
