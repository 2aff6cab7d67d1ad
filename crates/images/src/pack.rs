//! Writes a directory as an archive, so that it takes the same way into an image as any other.
//! Links are never followed, and other filesystems below it are left out: whoever can change the directory must not
//! be able to have other files read.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Writes all that is below `directory`, in the order of names, so that the same files make the same archive.
pub(crate) fn pack(directory: &OwnedFd, most_deep: usize, into: impl Write) -> io::Result<()> {
    let device = fstat(directory)?.st_dev;
    let mut packing = Packing { builder: Builder::new(into), device, most_deep, linked: HashMap::new() };
    packing.directory(directory, Path::new("."), 0)?;
    packing.builder.finish()
}

struct Packing<W: Write> {
    builder: Builder<W>,
    device: u64,
    most_deep: usize,
    /// Where a file with several names was first.
    linked: HashMap<u64, PathBuf>,
}

impl<W: Write> Packing<W> {
    fn directory(&mut self, directory: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        if depth > self.most_deep {
            return Err(about(path, "is too deep"));
        }
        let found = fstat(directory)?;
        let mut header = header_of(&found, EntryType::Directory);
        self.builder.append_data(&mut header, path, io::empty())?;
        if found.st_dev != self.device {
            return Ok(());
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.as_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort_unstable();
        for name in names {
            let path = path.join(OsStr::from_bytes(name.as_bytes()));
            self.entry(directory, &name, &path, depth).map_err(|error| named(&path, error))?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &std::ffi::CStr,
        path: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let found = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            // Removed in the meantime.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                let directory = openat(parent, name, FLAGS | OFlags::DIRECTORY, Mode::empty())?;
                self.directory(&directory, path, depth + 1)
            }
            FileType::RegularFile => self.file(parent, name, path),
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new())?;
                let mut header = header_of(&found, EntryType::Symlink);
                self.builder.append_link(&mut header, path, OsStr::from_bytes(target.as_bytes()))
            }
            // Named, so that it is counted among what is left out.
            FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Fifo
            | FileType::Socket
            | FileType::Unknown => {
                let mut header = header_of(&found, EntryType::Fifo);
                self.builder.append_data(&mut header, path, io::empty())
            }
        }
    }

    fn file(&mut self, parent: &OwnedFd, name: &std::ffi::CStr, path: &Path) -> io::Result<()> {
        // What was a file a moment ago may be a FIFO now, and must not hold us up.
        let file =
            File::from(openat(parent, name, FLAGS | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?);
        let found = fstat(file.as_fd())?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(about(path, "changed while it was read"));
        }
        if found.st_nlink > 1 {
            if let Some(first) = self.linked.get(&found.st_ino) {
                let mut header = header_of(&found, EntryType::Link);
                return self.builder.append_link(&mut header, path, first);
            }
            self.linked.insert(found.st_ino, path.to_owned());
        }
        let mut header = header_of(&found, EntryType::Regular);
        let size = found.st_size.unsigned_abs();
        header.set_size(size);
        self.builder.append_data(&mut header, path, Exactly { file, left: size })
    }
}

fn header_of(found: &Stat, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(found.st_mode & 0o7777);
    header.set_uid(found.st_uid.into());
    header.set_gid(found.st_gid.into());
    header.set_mtime(found.st_mtime.max(0).unsigned_abs());
    header.set_size(0);
    header
}

/// As many bytes as the header says, whatever happens to the file meanwhile.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&self.file).take(self.left).read(buffer)?;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::other("it became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn about(path: &Path, what: &str) -> io::Error {
    io::Error::other(format!("`{}` {what}", path.display()))
}

/// The innermost name is the one that matters.
fn named(path: &Path, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => io::Error::new(error.kind(), format!("`{}`: {error}", path.display())),
        None => error,
    }
}
