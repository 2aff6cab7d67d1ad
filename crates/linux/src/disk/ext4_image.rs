//! Disk images: an ext4 file system in a file, copied from an empty template of the same size.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{SeekFrom, copy_file_range, ftruncate, ioctl_ficlone, seek};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::paths::make_directory;

/// No journal: the content does not outlive a crash. Inode tables are written on first use.
const FEATURES: &str = "^has_journal,^resize_inode,^metadata_csum,uninit_bg";
const EXTENDED: &str = "lazy_itable_init=1,nodiscard,packed_meta_blocks=1";
const PROGRAM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin"];

/// Why images are unavailable on this host; `None` if they are available.
pub(super) fn unavailable_reason() -> Option<&'static str> {
    if !geteuid().is_root() {
        Some("only root may mount an image")
    } else if !Path::new("/dev/loop-control").exists() {
        Some("the kernel has no loop devices")
    } else if mke2fs().is_none() {
        Some("there is no mke2fs (package e2fsprogs)")
    } else {
        None
    }
}

fn mke2fs() -> Option<PathBuf> {
    PROGRAM_DIRECTORIES.iter().map(|directory| Path::new(directory).join("mke2fs")).find(|path| path.exists())
}

/// Keeps inode tables to at most half of an image.
const BYTES_PER_INODE: u64 = 512;

/// The empty image of this size, created on first use. A small image gets fewer inodes.
pub(super) fn template(directory: &Path, mb: u64, inodes: u64) -> io::Result<PathBuf> {
    let inodes = inodes.min(mb.saturating_mul((1 << 20) / BYTES_PER_INODE));
    let ready = directory.join(format!("ext4-{mb}-{inodes}"));
    if ready.exists() {
        return Ok(ready);
    }
    make_directory(directory, 0o700)?;
    // Created under a temporary name and renamed when complete: another process may create the same one.
    let unfinished = tempfile_name(directory)?;
    let made = make_filesystem(&unfinished, mb, inodes).and_then(|()| fs::rename(&unfinished, &ready));
    if made.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    made.map(|()| ready)
}

fn tempfile_name(directory: &Path) -> io::Result<PathBuf> {
    let thread = std::thread::current().id();
    Ok(directory.join(format!("{}-{thread:?}", pinfold_private_files::temporary_name(".ext4")?)))
}

fn make_filesystem(path: &Path, mb: u64, inodes: u64) -> io::Result<()> {
    let program = mke2fs().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no mke2fs"))?;
    let file = create(path)?;
    file.set_len(mb.saturating_mul(1 << 20))?;
    let output = Command::new(program)
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-O", FEATURES, "-E", EXTENDED])
        .args(["-N", &inodes.to_string()])
        .arg(path)
        .env_clear()
        .output()?;
    if output.status.success() {
        Ok(())
    } else {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(format!("mke2fs: {message}")))
    }
}

/// Copies by reflink where the host file system can, else by copying the data between holes.
pub(super) fn copy(template: &Path, to: &Path) -> io::Result<()> {
    let from = File::open(template)?;
    let into = create(to)?;
    match ioctl_ficlone(&into, &from) {
        Ok(()) => return Ok(()),
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    let size = from.metadata()?.len();
    ftruncate(&into, size)?;
    let mut at = 0;
    loop {
        at = match seek(&from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let hole = seek(&from, SeekFrom::Hole(at))?;
        while at < hole {
            let (mut source, mut target) = (at, at);
            let length = usize::try_from(hole - at).unwrap_or(usize::MAX);
            let copied = copy_file_range(&from, Some(&mut source), &into, Some(&mut target), length)?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at = source;
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_copy_has_the_same_bytes_and_the_same_holes() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        let file = create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 10 << 20).unwrap();

        copy(&from, &to).unwrap();

        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
        assert!(fs::metadata(&to).unwrap().blocks() * 512 < 1 << 20);
    }

    #[test]
    fn a_template_is_made_once_for_each_size() {
        let directory = tempfile::tempdir().unwrap();

        let first = template(directory.path(), 16, 1_000).unwrap();
        let made = fs::metadata(&first).unwrap();
        let again = template(directory.path(), 16, 1_000).unwrap();
        let other = template(directory.path(), 32, 1_000).unwrap();

        assert_eq!((first.clone(), made.ino()), (again.clone(), fs::metadata(&again).unwrap().ino()));
        assert_ne!(first, other);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
