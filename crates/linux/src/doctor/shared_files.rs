//! Whether files that all sandboxes of the image `host` can open have inodes of their own inside.

use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, makedev, mknodat, statfs};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use rustix::process::getuid;

use super::Diagnosis;

const SHARES: &str = "own inodes of shared directories";
const DEVICES: &str = "own device files";
/// What others notice without them.
const NOTICED: &str = "watches and locks inside are seen by the host and by other sandboxes";
const OVERLAYFS_MAGIC: u64 = 0x794c_7630;

pub(super) fn diagnose() -> Vec<Diagnosis> {
    vec![shares(), devices()]
}

fn shares() -> Diagnosis {
    let refused = if getuid().is_root() { try_overlay().err() } else { stacked() };
    match refused {
        None => Diagnosis::enforced(SHARES, "overlayfs over `/usr`"),
        Some(error) => {
            let why = format!("no overlay over `/usr` ({error}), so it is a bind mount: {NOTICED}");
            Diagnosis::missing(SHARES, why, "use imported images, or put `/usr` on a disk filesystem")
        }
    }
}

/// Creates an overlay that is mounted nowhere, as a sandbox does. Only root can do this without new namespaces.
fn try_overlay() -> Result<(), Errno> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "lowerdir", "/etc:/usr")?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_create(context.as_fd())
}

/// An overlay over an overlay is the most that the kernel allows. An ordinary user cannot try it, so this errs on the
/// side of a warning.
fn stacked() -> Option<Errno> {
    let is_overlay = statfs("/usr").is_ok_and(|found| found.f_type.cast_unsigned() == OVERLAYFS_MAGIC);
    is_overlay.then_some(Errno::INVAL)
}

fn devices() -> Diagnosis {
    if !getuid().is_root() {
        let why = format!("only root can create device files, so they are the host's: {NOTICED}");
        return Diagnosis::watched(DEVICES, why, "run as root");
    }
    match try_device() {
        Ok(()) => Diagnosis::enforced(DEVICES, "a tmpfs for each sandbox"),
        Err(error) => {
            let why = format!("root may not create device files here ({error}): {NOTICED}");
            Diagnosis::missing(DEVICES, why, "run with CAP_MKNOD, outside of a user namespace")
        }
    }
}

/// Creates a null device in a tmpfs that is mounted nowhere.
fn try_device() -> Result<(), Errno> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let tree = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    mknodat(&tree, "null", FileType::CharacterDevice, Mode::RUSR, makedev(1, 3))
}
