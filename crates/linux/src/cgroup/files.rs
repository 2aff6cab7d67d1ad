//! Reads and writes the small files of cgroups: open, transfer, close, nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Access, access};

/// Reads a whole file. (`std::fs` asks for size and position first, which is useless here and costs two calls.)
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a value in one call, as the kernel requires. Never creates a file.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    open_to_write(path)?.write_all(value.as_bytes())
}

pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Whether permissions and mount options allow this process to write there.
pub(super) fn may_write(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

/// Whether the error means that the cgroup does not exist, or was removed after we opened it.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || is(error, rustix::io::Errno::NODEV)
}

pub(super) fn is(error: &io::Error, errno: rustix::io::Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// The number after a key in a file of `key number` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::keyed;

    #[test]
    fn a_key_is_matched_whole() {
        let text = "oom 3\noom_kill 2\noom_group_kill 1\n";

        assert_eq!(keyed(text, "oom_kill"), Some(2));
        assert_eq!(keyed(text, "oom"), Some(3));
        assert_eq!(keyed(text, "kill"), None);
    }
}
