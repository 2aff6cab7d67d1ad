//! What is in a file: read up to where it ended when it was opened, written whole or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat};
use rustix::rand::{GetRandomFlags, getrandom};

use super::place::{Refusal, absolute, open, open_parent};
use super::tree::metadata;
use super::wire::{FileAnswer, FileReason, Name, receive_piece, send_piece};
use crate::wire::send;

const PIECE: usize = 256 * 1024;

/// A file that grows while it is read ends where it ended at first; one that shrinks ends early, and says so.
pub(super) fn read(
    path: &Name,
    from: u64,
    most: u64,
    connection: &mut UnixStream,
) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let descriptor = open(&path, OFlags::RDONLY)?;
    let facts = fstat(&descriptor).map_err(|error| Refusal::of(&path, error))?;
    refuse_what_is_no_file(&path, FileType::from_raw_mode(facts.st_mode))?;
    let told = metadata(&descriptor, &facts).map_err(|error| Refusal::of(&path, error))?;
    let mut left = told.size.saturating_sub(from).min(most);
    let more = told.size.saturating_sub(from) > most;
    let trouble = |error| Refusal::of(&path, error);
    send(connection, &FileAnswer::Metadata(told)).map_err(trouble)?;
    let mut file = File::from(descriptor);
    file.seek(SeekFrom::Start(from)).map_err(trouble)?;
    let mut piece = vec![0; PIECE];
    let mut count = 0;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        // Its content has begun: the end of the pieces must come before any refusal.
        let read = match file.read(&mut piece[..most]) {
            Ok(read) => read,
            Err(error) => {
                send_piece(connection, &[]).map_err(trouble)?;
                return Err(trouble(error));
            }
        };
        if read == 0 {
            break;
        }
        send_piece(connection, &piece[..read]).map_err(trouble)?;
        count += read as u64;
        left -= read as u64;
    }
    send_piece(connection, &[]).map_err(trouble)?;
    Ok(FileAnswer::Done { count, more })
}

fn refuse_what_is_no_file(path: &Path, kind: FileType) -> Result<(), Refusal> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Refusal::because(FileReason::IsADirectory, path, "it is a directory")),
        _ => Err(Refusal::because(FileReason::NotAFile, path, "it is not a plain file")),
    }
}

pub(super) fn write(
    path: &Name,
    mode: Option<u32>,
    connection: &mut UnixStream,
) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let (parent, name) = open_parent(&path)?;
    let trouble = |error: io::Error| Refusal::of(&path, error);
    let mode = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => {
            let kind = FileType::from_raw_mode(there.st_mode);
            if kind != FileType::Symlink {
                refuse_what_is_no_file(&path, kind)?;
            }
            let as_before = (kind == FileType::RegularFile).then_some(there.st_mode & 0o7777);
            mode.or(as_before)
        }
        Err(rustix::io::Errno::NOENT) => mode,
        Err(error) => return Err(trouble(error.into())),
    };
    let mut draft = Draft::new(&parent).map_err(trouble)?;
    send(connection, &FileAnswer::Ready).map_err(trouble)?;
    let mut count = 0;
    let mut failed = None;
    // After a failure the rest is still taken in, so that whoever sends it hears why.
    while let Some(piece) = receive_piece(connection).map_err(trouble)? {
        if failed.is_none() {
            failed = draft.file.write_all(&piece).err();
            count += piece.len() as u64;
        }
    }
    if let Some(error) = failed {
        return Err(trouble(error));
    }
    draft.put(name, mode).map_err(trouble)?;
    Ok(FileAnswer::Done { count, more: false })
}

/// A file that is not yet what it is to become. Dropping it removes it.
struct Draft<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: File,
    is_in_place: bool,
}

impl<'a> Draft<'a> {
    fn new(directory: &'a OwnedFd) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!(".pinfold-{:016x}", u64::from_le_bytes(random));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory.as_fd(), &name, flags, Mode::from_raw_mode(0o644))?.into();
        Ok(Self { directory, name, file, is_in_place: false })
    }

    fn put(mut self, name: &OsStr, mode: Option<u32>) -> io::Result<()> {
        if let Some(mode) = mode {
            fchmod(&self.file, Mode::from_raw_mode(mode & 0o7777))?;
        }
        renameat(self.directory, &self.name, self.directory, name)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}
