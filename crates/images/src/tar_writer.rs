//! Writes a directory as a tar archive, so that it is imported the same way as any other archive.
//! Symbolic links are not followed and other filesystems below the directory are skipped: a user who can change the
//! directory must not be able to make the importer read files elsewhere.

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

/// Writes everything below `directory`, sorted by name, so that the same files give the same archive.
pub(crate) fn write_tar(directory: &OwnedFd, max_depth: usize, into: impl Write) -> io::Result<()> {
    let device = fstat(directory)?.st_dev;
    let mut writer = TarWriter { builder: Builder::new(into), device, max_depth, linked: HashMap::new() };
    writer.directory(directory, Path::new("."), 0)?;
    writer.builder.finish()
}

struct TarWriter<W: Write> {
    builder: Builder<W>,
    device: u64,
    max_depth: usize,
    /// Inode to first path, for hard links.
    linked: HashMap<u64, PathBuf>,
}

impl<W: Write> TarWriter<W> {
    fn directory(&mut self, directory: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        if depth > self.max_depth {
            return Err(path_error(path, "is too deep"));
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
            self.entry(directory, &name, &path, depth).map_err(|error| with_path(&path, error))?;
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
            // Removed since the directory was read.
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
            // Written as a FIFO: the unpacker skips and counts it.
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
        // Open without blocking: the file may have become a FIFO since it was listed.
        let file =
            File::from(openat(parent, name, FLAGS | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?);
        let found = fstat(file.as_fd())?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(path_error(path, "changed while it was read"));
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
        self.builder.append_data(&mut header, path, ExactReader { file, left: size })
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

/// Reads exactly the bytes that the header announces, even if the file changes size.
struct ExactReader {
    file: File,
    left: u64,
}

impl Read for ExactReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&self.file).take(self.left).read(buffer)?;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::other("the file shrank while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn path_error(path: &Path, what: &str) -> io::Error {
    io::Error::other(format!("`{}` {what}", path.display()))
}

/// Adds the path to an operating system error. Other errors already name the innermost path.
fn with_path(path: &Path, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => io::Error::new(error.kind(), format!("`{}`: {error}", path.display())),
        None => error,
    }
}
