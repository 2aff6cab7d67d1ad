//! Starts the unpacker over a directory, feeds it, and hears its report, all before a deadline. What it is fed is
//! hashed on this side of the wall.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use sha2::{Digest as _, Sha256};

use crate::unpack::{Report, Request, Unpacked};
use crate::{Digest, Limits, Refusal, Unpacker};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    #[error("could not start the unpacker")]
    Start { source: io::Error },
    #[error("could not read")]
    Read { source: io::Error },
    #[error("{refusal}")]
    Refused { refusal: Refusal },
    #[error("it took longer than {seconds} seconds")]
    TooSlow { seconds: u64 },
    #[error("the unpacker ended without a word ({status})")]
    NoReport { status: String },
}

/// More than any report has.
const LONGEST_REPORT: u64 = 64 * 1024;

/// The unpacker at work. It is killed if it is dropped before its end.
struct Unpacking {
    child: Child,
    handle: OwnedFd,
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        // It may have ended by itself; what is inside ends with it.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Where the archive is written to.
pub(crate) struct Feed {
    pipe: PipeWriter,
    hasher: Sha256,
    deadline: Deadline,
    /// The unpacker has heard enough: it ended, or its time is up.
    over: bool,
}

/// Unpacks what `write` writes into `directory`. Gives the digest of what was written, too.
///
/// The unpacker keeps `lock` open, so that a lock on it lasts as long as anyone writes to the directory. It is its
/// standard error as well.
pub(crate) fn unpack_into(
    directory: &Path,
    lock: &File,
    unpacker: &Unpacker,
    limits: &Limits,
    write: impl FnOnce(&mut Feed) -> io::Result<()>,
) -> Result<(Unpacked, Digest), FeedError> {
    let deadline = Deadline::within(Duration::from_secs(limits.seconds));
    let (mut unpacking, pipe, report) =
        start(directory, lock, unpacker, limits).map_err(|source| FeedError::Start { source })?;
    let mut feed = Feed { pipe, hasher: Sha256::new(), deadline, over: false };
    let written = write(&mut feed);
    let Feed { pipe, hasher, over, .. } = feed;
    drop(pipe);
    match written {
        Err(source) if !over => return Err(FeedError::Read { source }),
        _ => {}
    }
    let too_slow = FeedError::TooSlow { seconds: limits.seconds };
    let Some(report) = hear(report, deadline).map_err(|source| FeedError::Read { source })? else {
        return Err(too_slow);
    };
    let status = unpacking.child.wait().map_err(|source| FeedError::Read { source })?;
    match serde_json::from_slice(&report) {
        // Only what was read to its end is what the digest says.
        Ok(Report::Unpacked(unpacked)) if !over => Ok((unpacked, Digest::finish(hasher))),
        Ok(Report::Refused(refusal)) => Err(FeedError::Refused { refusal }),
        _ => Err(FeedError::NoReport { status: status.to_string() }),
    }
}

fn start(
    directory: &Path,
    lock: &File,
    unpacker: &Unpacker,
    limits: &Limits,
) -> io::Result<(Unpacking, PipeWriter, PipeReader)> {
    let request = Request { limits: limits.clone(), starter: getpid().as_raw_nonzero().get() };
    let (archive_there, archive_here) = io::pipe()?;
    let (report_here, report_there) = io::pipe()?;
    fcntl_setfl(&archive_here, fcntl_getfl(&archive_here)? | OFlags::NONBLOCK)?;
    fcntl_setfl(&report_here, fcntl_getfl(&report_here)? | OFlags::NONBLOCK)?;
    let child = Command::new(&unpacker.program)
        .args(&unpacker.arguments)
        .arg(serde_json::to_string(&request)?)
        .current_dir(directory)
        .env_clear()
        .stdin(archive_there)
        .stdout(report_there)
        .stderr(Stdio::from(lock.try_clone()?))
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // It is our child and not waited for, so the number is still its own.
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    Ok((Unpacking { child, handle }, archive_here, report_here))
}

/// The whole report, or nothing if the deadline came first.
fn hear(mut pipe: PipeReader, deadline: Deadline) -> io::Result<Option<Vec<u8>>> {
    let mut report = Vec::new();
    loop {
        match pipe.by_ref().take(LONGEST_REPORT).read_to_end(&mut report) {
            Ok(_) => return Ok(Some(report)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if report.len() as u64 > LONGEST_REPORT || !deadline.wait(&pipe, PollFlags::IN)? {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

impl Write for Feed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.pipe.write(bytes) {
                Ok(written) => {
                    self.hasher.update(&bytes[..written]);
                    return Ok(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.deadline.wait(&self.pipe, PollFlags::OUT)? {
                        self.over = true;
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => {
                    self.over = true;
                    return Err(error);
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
struct Deadline {
    started: Instant,
    within: Duration,
}

impl Deadline {
    fn within(within: Duration) -> Self {
        Self { started: now(), within }
    }

    /// Whether it became ready before the deadline.
    fn wait(&self, descriptor: &impl AsFd, ready: PollFlags) -> io::Result<bool> {
        loop {
            let left = self.within.saturating_sub(now().duration_since(self.started));
            if left.is_zero() {
                return Ok(false);
            }
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(descriptor, ready)], Some(&left)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "bounds a wait for a child; nothing is decided or recorded by it"
)]
fn now() -> Instant {
    Instant::now()
}
