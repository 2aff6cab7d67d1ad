//! The sandbox's `/dev`: six device files, terminals and shared memory.
//!
//! The device files are the sandbox's own where possible: a lock or a watch on a file of the host would connect it with
//! the host and with other sandboxes. Only root on the host can create device files, so the others use the host's.

use std::ffi::CStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use pinfold_confine::IdMap;
use pinfold_confine::mounts::{Doing, MountError, attach, clone_mount};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid, chmodat, chownat, makedev, mkdirat, mknodat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount as mount_at};
use rustix::process::geteuid;

use super::scaffold::{self, DEV};
use super::{attach_to_directory, ensure_directory};
use crate::syscalls;

/// Name, major and minor number.
pub(crate) const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// A device file of the host, as a detached mount.
pub(super) type HostDevice = (&'static str, OwnedFd);

pub(super) enum Devices {
    /// A scaffold with the sandbox's own device files.
    Own(OwnedFd),
    OfHost(Vec<HostDevice>),
}

impl Devices {
    /// With the rights of the spawner where it runs as root.
    pub(super) fn open(ids: IdMap) -> Result<Self, MountError> {
        if geteuid().is_root() && ids.count > 1 {
            match create(ids) {
                Ok(tree) => return Ok(Self::Own(tree)),
                // Root in a container may lack the right to create device files.
                Err(Errno::PERM) => {}
                Err(error) => return Err(error).doing("create", "/dev"),
            }
        }
        let clone = |(name, _, _): &(&'static str, u32, u32)| {
            Ok((*name, clone_mount(&Path::new("/dev").join(name))?))
        };
        DEVICES.iter().map(clone).collect::<Result<_, _>>().map(Self::OfHost)
    }
}

/// On the host: a scaffold with device files. They belong to the host's root, so code inside cannot change them.
fn create(ids: IdMap) -> Result<OwnedFd, Errno> {
    let tree =
        scaffold::create(Some(ids)).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    mkdirat(&tree, DEV, Mode::from_raw_mode(0o755))?;
    for (name, major, minor) in DEVICES {
        let path = Path::new(DEV).join(name);
        let mode = Mode::from_raw_mode(0o666);
        // Create the device file (mknodat). The umask applies, so set the mode again (fchmodat).
        mknodat(&tree, &path, FileType::CharacterDevice, mode, makedev(major, minor))?;
        chmodat(&tree, &path, mode, AtFlags::empty())?;
    }
    let (uid, gid) = (Some(Uid::from_raw(ids.uid)), Some(Gid::from_raw(ids.gid)));
    // Give the directory to the sandbox's root (fchownat).
    chownat(&tree, DEV, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(tree)
}

/// Inside, after the root has changed: mounts `/dev` and what is below it.
pub(super) fn mount(tree: &OwnedFd, bound: Vec<HostDevice>) -> Result<(), MountError> {
    let dev = Path::new("/dev");
    attach_to_directory(tree, dev)?;
    for (name, device) in bound {
        let path = dev.join(name);
        fs::File::create(&path).doing("create", &path)?;
        attach(&device, &path)?;
    }
    let (pts, shm) = (dev.join("pts"), dev.join("shm"));
    fs::create_dir(&pts).doing("create", &pts)?;
    // Mount a separate devpts instance.
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount_at("devpts", &pts, "devpts", flags, devpts_options()).doing("mount", &pts)?;
    // A bind mount instead of another tmpfs: every superblock costs memory in each memory cgroup of the host.
    ensure_directory(&shm)?;
    fs::set_permissions(&shm, fs::Permissions::from_mode(0o1777)).doing("set the mode of", &shm)?;
    let shared_memory = clone_mount(&shm)?;
    syscalls::make_nodev(&shared_memory).doing("mount nodev", &shm)?;
    attach(&shared_memory, &shm)?;
    for (target, name) in [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ] {
        symlink(target, dev.join(name)).doing("link", dev.join(name))?;
    }
    Ok(())
}

/// Mount options of devpts. Terminals are limited per host, so each sandbox has its own limit.
fn devpts_options() -> &'static CStr {
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::UnlimitedTerminals) {
        return c"newinstance,ptmxmode=0666,mode=0620";
    }
    c"newinstance,ptmxmode=0666,mode=0620,max=128"
}
