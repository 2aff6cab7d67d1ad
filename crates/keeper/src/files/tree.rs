//! Names and directories: what is there, made, moved and removed.

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

use super::place::{Refusal, absolute, open, open_parent};
use super::wire::{Entry, FileAnswer, FileKind, FileReason, Metadata, Name};
use crate::wire::send;

/// Entries that are sent in one message.
const AT_A_TIME: usize = 256;
/// The deepest path that `make_directory` makes all parts of.
const DEEPEST: usize = 256;

pub(super) fn stat(path: &Name) -> Result<Metadata, Refusal> {
    let path = absolute(path)?;
    let descriptor = open(&path, OFlags::PATH | OFlags::NOFOLLOW)?;
    let told = fstat(&descriptor).and_then(|facts| metadata(&descriptor, &facts));
    told.map_err(|error| Refusal::of(&path, error))
}

/// Of what is open, and may be a link that is open itself.
pub(super) fn metadata(descriptor: &OwnedFd, facts: &Stat) -> Result<Metadata, Errno> {
    let is_link = FileType::from_raw_mode(facts.st_mode) == FileType::Symlink;
    let target =
        if is_link { Some(Name(readlinkat(descriptor, "", Vec::new())?.into_bytes())) } else { None };
    Ok(described(facts, target))
}

fn described(facts: &Stat, target: Option<Name>) -> Metadata {
    Metadata {
        kind: match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            FileType::Fifo => FileKind::Pipe,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => FileKind::Device,
        },
        size: u64::try_from(facts.st_size).unwrap_or(0),
        mode: facts.st_mode & 0o7777,
        uid: facts.st_uid,
        gid: facts.st_gid,
        modified_ms: facts
            .st_mtime
            .saturating_mul(1_000)
            .saturating_add_unsigned(facts.st_mtime_nsec / 1_000_000),
        target,
    }
}

pub(super) fn list(path: &Name, most: usize, connection: &mut UnixStream) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let trouble = |error: Errno| Refusal::of(&path, error);
    let directory = open(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut entries = Vec::new();
    let mut count = 0;
    for found in Dir::read_from(&directory).map_err(trouble)? {
        let found = found.map_err(trouble)?;
        let name = found.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if count == most {
            tell(connection, &path, &mut entries)?;
            return Ok(FileAnswer::Done { count: count as u64, more: true });
        }
        match described_entry(&directory, name) {
            Ok(entry) => entries.push(entry),
            // It went while the directory was read.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(trouble(error)),
        }
        count += 1;
        if entries.len() == AT_A_TIME {
            tell(connection, &path, &mut entries)?;
        }
    }
    tell(connection, &path, &mut entries)?;
    Ok(FileAnswer::Done { count: count as u64, more: false })
}

fn described_entry(directory: &OwnedFd, name: &[u8]) -> Result<Entry, Errno> {
    let facts = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = match FileType::from_raw_mode(facts.st_mode) {
        FileType::Symlink => Some(Name(readlinkat(directory, name, Vec::new())?.into_bytes())),
        _ => None,
    };
    Ok(Entry { name: Name(name.to_vec()), metadata: described(&facts, target) })
}

fn tell(connection: &mut UnixStream, path: &Path, entries: &mut Vec<Entry>) -> Result<(), Refusal> {
    if entries.is_empty() {
        return Ok(());
    }
    let entries = std::mem::take(entries);
    send(connection, &FileAnswer::Entries { entries }).map_err(|error| Refusal::of(path, error))
}

/// With its parents, one that is there already is as good as one that is made.
pub(super) fn make_directory(path: &Name, parents: bool) -> Result<FileAnswer, Refusal> {
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

pub(super) fn set_mode(path: &Name, mode: u32) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let descriptor = open(&path, OFlags::RDONLY | OFlags::NOFOLLOW)?;
    fchmod(&descriptor, Mode::from_raw_mode(mode & 0o7777)).map_err(|error| Refusal::of(&path, error))?;
    Ok(FileAnswer::Done { count: 1, more: false })
}

/// Where it leads is not looked at: it is followed inside, by whoever may go there.
pub(super) fn make_link(path: &Name, target: &Name) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let (parent, name) = open_parent(&path)?;
    symlinkat(OsStr::from_bytes(&target.0), &parent, name).map_err(|error| Refusal::of(&path, error))?;
    Ok(FileAnswer::Done { count: 1, more: false })
}

pub(super) fn rename(from: &Name, to: &Name, replace: bool) -> Result<FileAnswer, Refusal> {
    let (from, to) = (absolute(from)?, absolute(to)?);
    let (old_parent, old) = open_parent(&from)?;
    let (new_parent, new) = open_parent(&to)?;
    statat(&old_parent, old, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| Refusal::of(&from, error))?;
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    renameat_with(&old_parent, old, &new_parent, new, flags).map_err(|error| Refusal::of(&to, error))?;
    Ok(FileAnswer::Done { count: 1, more: false })
}

pub(super) fn remove(path: &Name, recursive: bool) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let (parent, name) = open_parent(&path)?;
    let trouble = |error: Errno| Refusal::of(&path, error);
    let facts = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(trouble)?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::Directory {
        unlinkat(&parent, name, AtFlags::empty()).map_err(trouble)?;
        return Ok(FileAnswer::Done { count: 1, more: false });
    }
    let count = if recursive { empty(&parent, name).map_err(trouble)? } else { 0 };
    unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(|error| match error {
        Errno::NOTEMPTY if recursive => {
            Refusal::because(FileReason::InUse, &path, "it is filled while it is removed")
        }
        error => trouble(error),
    })?;
    Ok(FileAnswer::Done { count: count + 1, more: false })
}

/// However deep the tree is, two directories are open at a time: one that is not empty is moved up to the top, and
/// has its turn there.
fn empty(parent: &OwnedFd, name: &OsStr) -> Result<u64, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(parent, name, flags, Mode::empty())?;
    let (mut count, mut moved) = (0, 0u64);
    loop {
        let Some(inner) = first_full_directory(&top, &mut count)? else { return Ok(count) };
        let directory = match openat(&top, &*inner, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error),
        };
        while let Some(deeper) = first_full_directory(&directory, &mut count)? {
            let place = loop {
                moved += 1;
                let place = format!(".removed-{moved}");
                match renameat_with(&directory, &*deeper, &top, &place, RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => {}
                    other => break other,
                }
            };
            match place {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Removes all that is no directory and every empty one. What is left is full, or there is none.
fn first_full_directory(directory: &OwnedFd, count: &mut u64) -> Result<Option<Vec<u8>>, Errno> {
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
