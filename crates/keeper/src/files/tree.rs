//! Directory operations: stat, list, create, rename and remove.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat, fchmod, fstat, mkdirat, openat, readlinkat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::paths::{Refusal, absolute, open, open_parent};
use pinfold_keeper_wire::files::{DirectoryEntry, FileAnswer, FileKind, FileMetadata, FileReason, PathBytes};
use pinfold_keeper_wire::send;

/// Maximum number of entries in one message.
const AT_A_TIME: usize = 256;
/// Maximum depth for `make_directory` with parents.
const DEEPEST: usize = 256;

pub(super) fn stat(path: &PathBytes) -> Result<FileMetadata, Refusal> {
    let path = absolute(path)?;
    let descriptor = open(&path, OFlags::PATH | OFlags::NOFOLLOW)?;
    let file_metadata = fstat(&descriptor).and_then(|found| metadata(&descriptor, &found));
    file_metadata.map_err(|error| Refusal::of(&path, error))
}

/// Metadata of an open file, which may be a symbolic link opened with O_PATH.
pub(super) fn metadata(descriptor: &OwnedFd, found: &Stat) -> Result<FileMetadata, Errno> {
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    let target =
        if is_link { Some(PathBytes(readlinkat(descriptor, "", Vec::new())?.into_bytes())) } else { None };
    Ok(described(found, target))
}

fn described(found: &Stat, target: Option<PathBytes>) -> FileMetadata {
    FileMetadata {
        kind: match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            FileType::Fifo => FileKind::Pipe,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => FileKind::Device,
        },
        size: u64::try_from(found.st_size).unwrap_or(0),
        mode: found.st_mode & 0o7777,
        uid: found.st_uid,
        gid: found.st_gid,
        modified_ms: found
            .st_mtime
            .saturating_mul(1_000)
            .saturating_add_unsigned(found.st_mtime_nsec / 1_000_000),
        target,
    }
}

pub(super) fn list(
    path: &PathBytes,
    most: usize,
    connection: &mut UnixStream,
) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let refusal = |error: Errno| Refusal::of(&path, error);
    let directory = open(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut entries = Vec::new();
    let mut count = 0;
    for found in Dir::read_from(&directory).map_err(refusal)? {
        let found = found.map_err(refusal)?;
        let name = found.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if count == most {
            send_entries(connection, &path, &mut entries)?;
            return Ok(FileAnswer::Done { count: count as u64, more: true });
        }
        match described_entry(&directory, name) {
            Ok(entry) => entries.push(entry),
            // Removed while the directory was read.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(refusal(error)),
        }
        count += 1;
        if entries.len() == AT_A_TIME {
            send_entries(connection, &path, &mut entries)?;
        }
    }
    send_entries(connection, &path, &mut entries)?;
    Ok(FileAnswer::Done { count: count as u64, more: false })
}

fn described_entry(directory: &OwnedFd, name: &[u8]) -> Result<DirectoryEntry, Errno> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = match FileType::from_raw_mode(found.st_mode) {
        FileType::Symlink => Some(PathBytes(readlinkat(directory, name, Vec::new())?.into_bytes())),
        _ => None,
    };
    Ok(DirectoryEntry { name: PathBytes(name.to_vec()), metadata: described(&found, target) })
}

fn send_entries(
    connection: &mut UnixStream,
    path: &Path,
    entries: &mut Vec<DirectoryEntry>,
) -> Result<(), Refusal> {
    if entries.is_empty() {
        return Ok(());
    }
    let entries = std::mem::take(entries);
    send(connection, &FileAnswer::Entries { entries }).map_err(|error| Refusal::of(path, error))
}

/// Creates a directory. With `parents`, missing parents are created too and an existing directory is not an error.
pub(super) fn make_directory(path: &PathBytes, parents: bool) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let missing: Vec<&Path> = if parents {
        let all: Vec<&Path> = path.ancestors().take(DEEPEST).collect();
        all.into_iter().rev().filter(|part| part.file_name().is_some()).collect()
    } else {
        vec![&path]
    };
    for part in missing {
        let (parent, name) = open_parent(part)?;
        match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) if parents => {
                open(part, OFlags::PATH | OFlags::DIRECTORY)?;
            }
            Err(error) => return Err(Refusal::of(part, error)),
        }
    }
    Ok(FileAnswer::Done { count: 1, more: false })
}

pub(super) fn set_mode(path: &PathBytes, mode: u32) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let descriptor = open(&path, OFlags::RDONLY | OFlags::NOFOLLOW)?;
    fchmod(&descriptor, Mode::from_raw_mode(mode & 0o7777)).map_err(|error| Refusal::of(&path, error))?;
    Ok(FileAnswer::Done { count: 1, more: false })
}

/// Creates a symbolic link. The target is not checked: it is only followed inside, with the follower's rights.
pub(super) fn make_link(path: &PathBytes, target: &PathBytes) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let (parent, name) = open_parent(&path)?;
    symlinkat(OsStr::from_bytes(&target.0), &parent, name).map_err(|error| Refusal::of(&path, error))?;
    Ok(FileAnswer::Done { count: 1, more: false })
}

pub(super) fn rename(from: &PathBytes, to: &PathBytes, replace: bool) -> Result<FileAnswer, Refusal> {
    let (from, to) = (absolute(from)?, absolute(to)?);
    let (old_parent, old) = open_parent(&from)?;
    let (new_parent, new) = open_parent(&to)?;
    statat(&old_parent, old, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| Refusal::of(&from, error))?;
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    renameat_with(&old_parent, old, &new_parent, new, flags).map_err(|error| Refusal::of(&to, error))?;
    Ok(FileAnswer::Done { count: 1, more: false })
}

pub(super) fn remove(path: &PathBytes, recursive: bool) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let (parent, name) = open_parent(&path)?;
    let refusal = |error: Errno| Refusal::of(&path, error);
    let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(refusal)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        unlinkat(&parent, name, AtFlags::empty()).map_err(refusal)?;
        return Ok(FileAnswer::Done { count: 1, more: false });
    }
    let count = if recursive { empty_directory(&parent, name).map_err(refusal)? } else { 0 };
    unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(|error| match error {
        Errno::NOTEMPTY if recursive => {
            Refusal::because(FileReason::InUse, &path, "new entries appear while it is removed")
        }
        error => refusal(error),
    })?;
    Ok(FileAnswer::Done { count: count + 1, more: false })
}

/// Empties a directory of any depth with two directories open at a time: non-empty subdirectories are moved to the top
/// and emptied there.
fn empty_directory(parent: &OwnedFd, name: &OsStr) -> Result<u64, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(parent, name, flags, Mode::empty())?;
    let (mut count, mut moved) = (0, 0u64);
    loop {
        let Some(inner) = first_nonempty_directory(&top, &mut count)? else { return Ok(count) };
        let directory = match openat(&top, &*inner, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error),
        };
        while let Some(deeper) = first_nonempty_directory(&directory, &mut count)? {
            let watched = loop {
                moved += 1;
                let watched = format!(".removed-{moved}");
                match renameat_with(&directory, &*deeper, &top, &watched, RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => {}
                    other => break other,
                }
            };
            match watched {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Removes files and empty directories. Returns the first non-empty directory, if there is one.
fn first_nonempty_directory(directory: &OwnedFd, count: &mut u64) -> Result<Option<Vec<u8>>, Errno> {
    for found in Dir::read_from(directory.as_fd())? {
        let found = found?;
        let name = OsStr::from_bytes(found.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let removed = match unlinkat(directory, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(directory, name, AtFlags::REMOVEDIR),
            other => other,
        };
        match removed {
            Ok(()) => *count += 1,
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY) => return Ok(Some(name.as_bytes().to_vec())),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
