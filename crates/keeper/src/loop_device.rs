//! A file as a block device. The device frees itself when nobody has it open or mounted any more, and until then
//! the kernel says which file is behind it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::kernel;

/// An open device with a file behind it. Once it is mounted, it may be dropped.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    _open: File,
}

/// Others look for a free device at the same time.
const ATTEMPTS: usize = 64;

pub(crate) fn attach(file: &Path) -> io::Result<LoopDevice> {
    let read_write = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    let backing = read_write(file)?;
    let control = read_write(Path::new("/dev/loop-control"))?;
    for _ in 0..ATTEMPTS {
        let path = PathBuf::from(format!("/dev/loop{}", kernel::free_loop_device(&control)?));
        let device = read_write(&path)?;
        match kernel::configure_loop_device(&device, &backing, file) {
            Ok(()) => return Ok(LoopDevice { path, _open: device }),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "no loop device is free"))
}
