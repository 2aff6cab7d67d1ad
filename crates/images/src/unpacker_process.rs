//! Starts the unpacker on a directory, writes the archive to it and reads its report, all before a deadline.
//! The archive is hashed here, in the trusted process.

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

use crate::unpack::{UnpackReport, UnpackRequest, Unpacked};
use crate::{Digest, Limits, Refusal, Unpacker};

#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("could not start the unpacker")]
    Start { source: io::Error },
    #[error("could not read")]
    Read { source: io::Error },
    #[error("{refusal}")]
    Refused { refusal: Refusal },
    #[error("unpacking took longer than {seconds} seconds")]
    TooSlow { seconds: u64 },
    #[error("the unpacker exited without a report ({status})")]
    NoReport { status: String },
}

/// Size limit of a report. A real one is far shorter.
const LONGEST_REPORT: u64 = 64 * 1024;

/// A running unpacker. Dropping it kills the process.
struct UnpackerProcess {
    child: Child,
    handle: OwnedFd,
}

impl Drop for UnpackerProcess {
    fn drop(&mut self) {
        // SIGKILL fails harmlessly if the process has exited. The jailed grandchild dies with it.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Writes the archive to the unpacker and hashes it.
pub(crate) struct ArchiveWriter {
    pipe: PipeWriter,
    hasher: Sha256,
    deadline: Deadline,
    /// The unpacker closed the pipe, or the deadline passed.
    stopped: bool,
}

/// Unpacks the archive that `write` produces into `directory`. Returns the report and the archive's digest.
///
/// The unpacker inherits `lock` (as its standard error), so the lock lasts as long as a process writes to the directory.
pub(crate) fn unpack_into(
    directory: &Path,
    lock: &File,
    unpacker: &Unpacker,
    limits: &Limits,
    write: impl FnOnce(&mut ArchiveWriter) -> io::Result<()>,
) -> Result<(Unpacked, Digest), UnpackError> {
    let deadline = Deadline::within(Duration::from_secs(limits.seconds));
    let (mut process, pipe, report) =
        start_unpacker(directory, lock, unpacker, limits).map_err(|source| UnpackError::Start { source })?;
    let mut archive = ArchiveWriter { pipe, hasher: Sha256::new(), deadline, stopped: false };
    let written = write(&mut archive);
    let ArchiveWriter { pipe, hasher, stopped, .. } = archive;
    drop(pipe);
    match written {
        Err(source) if !stopped => return Err(UnpackError::Read { source }),
        _ => {}
    }
    let too_slow = UnpackError::TooSlow { seconds: limits.seconds };
    let Some(report) = read_report(report, deadline).map_err(|source| UnpackError::Read { source })? else {
        return Err(too_slow);
    };
    let status = process.child.wait().map_err(|source| UnpackError::Read { source })?;
    match serde_json::from_slice(&report) {
        // The digest covers the archive only if the unpacker read all of it.
        Ok(UnpackReport::Unpacked(unpacked)) if !stopped => Ok((unpacked, Digest::finish(hasher))),
        Ok(UnpackReport::Refused(refusal)) => Err(UnpackError::Refused { refusal }),
        _ => Err(UnpackError::NoReport { status: status.to_string() }),
    }
}

fn start_unpacker(
    directory: &Path,
    lock: &File,
    unpacker: &Unpacker,
    limits: &Limits,
) -> io::Result<(UnpackerProcess, PipeWriter, PipeReader)> {
    let request = UnpackRequest { limits: limits.clone(), importer_pid: getpid().as_raw_nonzero().get() };
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
    // Open a pidfd. The child is not reaped yet, so the pid still belongs to it.
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    Ok((UnpackerProcess { child, handle }, archive_here, report_here))
}

/// Reads the whole report. `None`: the deadline passed first.
fn read_report(mut pipe: PipeReader, deadline: Deadline) -> io::Result<Option<Vec<u8>>> {
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

impl Write for ArchiveWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.pipe.write(bytes) {
                Ok(written) => {
                    self.hasher.update(&bytes[..written]);
                    return Ok(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.deadline.wait(&self.pipe, PollFlags::OUT)? {
                        self.stopped = true;
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => {
                    self.stopped = true;
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

    /// Waits until the descriptor is ready. False: the deadline passed first.
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
