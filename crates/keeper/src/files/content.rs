//! Reads and writes file contents. Reads stop at the size the file had when it was opened; writes are atomic.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat};
use rustix::rand::{GetRandomFlags, getrandom};

use super::paths::{Refusal, absolute, open, open_parent};
use super::tree::metadata;
use pinfold_keeper_wire::files::{FileAnswer, FileReason, PathBytes, receive_chunk, send_chunk};
use pinfold_keeper_wire::send;

const CHUNK: usize = 256 * 1024;

/// Reads a file up to its initial size. If it shrinks meanwhile, the count in the answer is smaller.
pub(super) fn read(
    path: &PathBytes,
    from: u64,
    most: u64,
    connection: &mut UnixStream,
) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let descriptor = open(&path, OFlags::RDONLY)?;
    let found = fstat(&descriptor).map_err(|error| Refusal::of(&path, error))?;
    require_regular_file(&path, FileType::from_raw_mode(found.st_mode))?;
    let file_metadata = metadata(&descriptor, &found).map_err(|error| Refusal::of(&path, error))?;
    let mut left = file_metadata.size.saturating_sub(from).min(most);
    let more = file_metadata.size.saturating_sub(from) > most;
    let refusal = |error| Refusal::of(&path, error);
    send(connection, &FileAnswer::Metadata(file_metadata)).map_err(refusal)?;
    let mut file = File::from(descriptor);
    file.seek(SeekFrom::Start(from)).map_err(refusal)?;
    let mut chunk = vec![0; CHUNK];
    let mut count = 0;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        // The content has started: end the chunks before sending a refusal.
        let read = match file.read(&mut chunk[..most]) {
            Ok(read) => read,
            Err(error) => {
                send_chunk(connection, &[]).map_err(refusal)?;
                return Err(refusal(error));
            }
        };
        if read == 0 {
            break;
        }
        send_chunk(connection, &chunk[..read]).map_err(refusal)?;
        count += read as u64;
        left -= read as u64;
    }
    send_chunk(connection, &[]).map_err(refusal)?;
    Ok(FileAnswer::Done { count, more })
}

fn require_regular_file(path: &Path, kind: FileType) -> Result<(), Refusal> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Refusal::because(FileReason::IsADirectory, path, "is a directory")),
        _ => Err(Refusal::because(FileReason::NotAFile, path, "is not a regular file")),
    }
}

pub(super) fn write(
    path: &PathBytes,
    mode: Option<u32>,
    connection: &mut UnixStream,
) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let (parent, name) = open_parent(&path)?;
    let refusal = |error: io::Error| Refusal::of(&path, error);
    let mode = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => {
            let kind = FileType::from_raw_mode(there.st_mode);
            if kind != FileType::Symlink {
                require_regular_file(&path, kind)?;
            }
            let as_before = (kind == FileType::RegularFile).then_some(there.st_mode & 0o7777);
            mode.or(as_before)
        }
        Err(rustix::io::Errno::NOENT) => mode,
        Err(error) => return Err(refusal(error.into())),
    };
    let mut temporary = TemporaryFile::new(&parent).map_err(refusal)?;
    send(connection, &FileAnswer::Ready).map_err(refusal)?;
    let mut count = 0;
    let mut failed = None;
    // After a failure, read the rest anyway, so that the client gets the error instead of a broken connection.
    while let Some(chunk) = receive_chunk(connection).map_err(refusal)? {
        if failed.is_none() {
            failed = temporary.file.write_all(&chunk).err();
            count += chunk.len() as u64;
        }
    }
    if let Some(error) = failed {
        return Err(refusal(error));
    }
    temporary.rename_to(name, mode).map_err(refusal)?;
    Ok(FileAnswer::Done { count, more: false })
}

/// A temporary file that replaces the target at the end. Dropping it before that deletes it.
struct TemporaryFile<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: File,
    is_renamed: bool,
}

impl<'a> TemporaryFile<'a> {
    fn new(directory: &'a OwnedFd) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!(".pinfold-{:016x}", u64::from_le_bytes(random));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory.as_fd(), &name, flags, Mode::from_raw_mode(0o644))?.into();
        Ok(Self { directory, name, file, is_renamed: false })
    }

    fn rename_to(mut self, name: &OsStr, mode: Option<u32>) -> io::Result<()> {
        if let Some(mode) = mode {
            fchmod(&self.file, Mode::from_raw_mode(mode & 0o7777))?;
        }
        renameat(self.directory, &self.name, self.directory, name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}
