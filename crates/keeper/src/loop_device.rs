//! Attaches a file to a loop device. The kernel frees the device when it is no longer open or mounted, and until then
//! shows which file is attached.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::syscalls;

/// An open loop device with its file. May be dropped once it is mounted.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    _open: File,
}

/// Attempts to get a free device, for which other processes compete.
const ATTEMPTS: usize = 64;

pub(crate) fn attach(file: &Path) -> io::Result<LoopDevice> {
    let read_write = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    let backing = read_write(file)?;
    let control = read_write(Path::new("/dev/loop-control"))?;
    for _ in 0..ATTEMPTS {
        let path = PathBuf::from(format!("/dev/loop{}", syscalls::free_loop_device(&control)?));
        let device = read_write(&path)?;
        match syscalls::configure_loop_device(&device, &backing, file) {
            Ok(()) => return Ok(LoopDevice { path, _open: device }),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "no loop device is free"))
}
