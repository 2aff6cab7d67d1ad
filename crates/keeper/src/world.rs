//! The world inside a sandbox: its root, its devices, its view of the kernel. Built by the keeper itself, in its
//! own namespaces, so that all of it goes with them.
//!
//! What comes from outside is taken as detached mounts before the root changes, and put in place afterwards: no
//! path of an image is ever followed outside.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount, mount_change, mount_remount,
    move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};
use rustix::system::sethostname;
use serde::{Deserialize, Serialize};

use crate::kernel;
use crate::wire::IdMap;

mod root;

use root::PLACE;
pub use root::{Layer, Root, Storage};

/// What the world is made of. Paths are of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    pub hostname: String,
    pub root: Root,
    /// Directories of the host that are seen inside, read-only, under the same name.
    pub shared: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[error("could not {doing} `{}`: {source}", path.display())]
pub struct WorldError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

trait Doing<T> {
    fn doing(self, doing: &'static str, path: impl AsRef<Path>) -> Result<T, WorldError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str, path: impl AsRef<Path>) -> Result<T, WorldError> {
        self.map_err(|error| WorldError { doing, path: path.as_ref().to_owned(), source: error.into() })
    }
}

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const NO_EXTRAS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);
/// What tells of, or reaches into, the host's kernel.
pub(crate) const HIDDEN: [&str; 8] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/acpi",
    "/proc/scsi",
    "/sys/firmware",
];
/// What hidden directories are hidden under.
const EMPTY: &str = "/dev/empty";
const FIXED: [&str; 4] = ["/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq"];

impl World {
    /// Takes hold of everything outside that the world is made of. As root this is done outside, with root's rights:
    /// the ids inside need not be able to find the way there. An ordinary user can do it only inside, in
    /// namespaces of its own.
    pub(crate) fn gather(&self, ids: IdMap) -> Result<Gathered, WorldError> {
        let take = |path: &PathBuf| {
            let tree = take_tree(path)?;
            kernel::make_read_only(&tree).doing("make read-only", path)?;
            Ok((path.clone(), tree))
        };
        Ok(Gathered {
            root: self.root.gather(ids)?,
            shared: self.shared.iter().map(take).collect::<Result<_, _>>()?,
            devices: take_devices()?,
        })
    }

    /// Lets what was gathered outside be seen with the ids of the process that it is for.
    pub(crate) fn map_ids(&self, gathered: &Gathered, pid: i32, ids: IdMap) -> Result<(), WorldError> {
        self.root.map_layers(&gathered.root, pid, ids)
    }

    /// Puts the world together, inside. Afterwards nothing of the host is in sight but what is shared.
    pub(crate) fn build(&self, gathered: Gathered, views: Views) -> Result<(), WorldError> {
        change_root(&self.root.assemble(gathered.root)?)?;
        for (path, tree) in gathered.shared {
            put(&tree, &path)?;
        }
        put(&views.proc, Path::new("/proc"))?;
        put(&views.sys, Path::new("/sys"))?;
        mount_devices(gathered.devices)?;
        hide()?;
        fix_devices()?;
        sethostname(self.hostname.as_bytes()).doing("name", &self.hostname)?;
        #[cfg(feature = "weakened")]
        if crate::weakness::has(&crate::weakness::Weakness::NetworkOfTheHost) {
            return Ok(());
        }
        kernel::raise_loopback().doing("raise", "lo")
    }
}

/// Mounts that are not in place yet.
pub(crate) struct Gathered {
    root: root::Parts,
    shared: Vec<(PathBuf, OwnedFd)>,
    devices: Vec<(&'static str, OwnedFd)>,
}

/// Views of the kernel from inside, not in place yet.
pub(crate) struct Views {
    proc: OwnedFd,
    sys: OwnedFd,
}

pub(crate) fn keep_mounts_to_ourselves() -> Result<(), WorldError> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .doing("keep to ourselves the mounts below", "/")
}

impl Views {
    /// The kernel lets nobody see more of itself than before: these are made while the host's are in sight.
    pub(crate) fn make() -> Result<Self, WorldError> {
        keep_mounts_to_ourselves()?;
        Ok(Self {
            proc: make_view("proc", MountAttrFlags::empty())?,
            sys: make_view(kind_of_sys(), MountAttrFlags::MOUNT_ATTR_RDONLY)?,
        })
    }
}

pub(crate) fn take_tree(path: &Path) -> Result<OwnedFd, WorldError> {
    open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
        .doing("take a view of", path)
}

fn take_devices() -> Result<Vec<(&'static str, OwnedFd)>, WorldError> {
    DEVICES.iter().map(|name| Ok((*name, take_tree(&Path::new("/dev").join(name))?))).collect()
}

/// The kernel shows devices only to those who own a network.
fn kind_of_sys() -> &'static str {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::NetworkOfTheHost) {
        return "tmpfs";
    }
    "sysfs"
}

/// A view of the kernel that is not in place yet.
fn make_view(kind: &str, more: MountAttrFlags) -> Result<OwnedFd, WorldError> {
    let view = || {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let plain = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, plain | more)
    };
    view().doing("make a view of", kind)
}

/// Puts a detached mount in place, on a directory that is made if it is missing.
fn put(tree: &OwnedFd, at: &Path) -> Result<(), WorldError> {
    make_real(at)?;
    put_on(tree, at)
}

/// An image may have a link where a directory must be, to have something else covered or left uncovered.
fn make_real(directory: &Path) -> Result<(), WorldError> {
    fs::create_dir_all(directory).doing("make", directory)?;
    match fs::symlink_metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::from(io::ErrorKind::NotADirectory)).doing("use", directory),
        Err(error) => Err(error).doing("look at", directory),
    }
}

fn put_on(tree: &OwnedFd, at: &Path) -> Result<(), WorldError> {
    move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing("put a view on", at)
}

/// The new root is put over its own storage, in a view that is ours alone; the old root is stacked under it for an
/// instant, and then let go.
pub(crate) fn change_root(root: &OwnedFd) -> Result<(), WorldError> {
    put_on(root, Path::new(PLACE))?;
    chdir(PLACE).doing("enter", PLACE)?;
    pivot_root(".", ".").doing("make the root", PLACE)?;
    unmount(".", UnmountFlags::DETACH).doing("let go of the old root below", PLACE)?;
    chdir("/").doing("enter", "/")
}

/// Neither devices nor set-user-id files count in a root that was a directory of the host.
pub(crate) fn tame_root() -> Result<(), WorldError> {
    mount_remount("/", MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV, c"").doing("tame", "/")
}

fn mount_devices(devices: Vec<(&'static str, OwnedFd)>) -> Result<(), WorldError> {
    let dev = Path::new("/dev");
    make_real(dev)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", dev, "tmpfs", flags, c"mode=755,size=64m,nr_inodes=4160").doing("mount", dev)?;
    for (name, tree) in devices {
        let path = dev.join(name);
        fs::File::create(&path).doing("make", &path)?;
        put_on(&tree, &path)?;
    }
    let (pts, shm) = (dev.join("pts"), dev.join("shm"));
    fs::create_dir(&pts).doing("make", &pts)?;
    mount("devpts", &pts, "devpts", flags, options_of_terminals()).doing("mount", &pts)?;
    // A mount and no filesystem of its own: each of those costs all memory groups of the host some bytes.
    fs::create_dir(&shm).doing("make", &shm)?;
    fs::set_permissions(&shm, fs::Permissions::from_mode(0o1777)).doing("open up", &shm)?;
    mount(&shm, &shm, "", MountFlags::BIND, c"").doing("mount", &shm)?;
    for (target, name) in [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ] {
        symlink(target, dev.join(name)).doing("link", dev.join(name))?;
    }
    for directory in ["/tmp", "/workspace"] {
        make_real(Path::new(directory))?;
    }
    fs::set_permissions("/tmp", fs::Permissions::from_mode(0o1777)).doing("open up", "/tmp")
}

/// All sandboxes of a host share so many terminals, so each has a number of its own.
fn options_of_terminals() -> &'static CStr {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::TerminalsWithoutEnd) {
        return c"newinstance,ptmxmode=0666,mode=0620";
    }
    c"newinstance,ptmxmode=0666,mode=0620,max=128"
}

fn hide() -> Result<(), WorldError> {
    for path in FIXED.iter().filter(|path| Path::new(path).exists()) {
        mount(*path, *path, "", MountFlags::BIND, c"").doing("fix", path)?;
        mount_remount(*path, MountFlags::BIND | MountFlags::RDONLY | NO_EXTRAS, c"").doing("fix", path)?;
    }
    // Empty for ever: in a directory that was removed nothing can be made.
    fs::create_dir(EMPTY).doing("make", EMPTY)?;
    for path in HIDDEN.iter().filter(|path| Path::new(path).exists()) {
        if Path::new(path).is_dir() {
            mount(EMPTY, *path, "", MountFlags::BIND, c"").doing("hide", path)?;
            mount_remount(*path, MountFlags::BIND | MountFlags::RDONLY | NO_EXTRAS, c"")
                .doing("hide", path)?;
        } else {
            mount("/dev/null", *path, "", MountFlags::BIND, c"").doing("hide", path)?;
        }
    }
    fs::remove_dir(EMPTY).doing("remove", EMPTY)
}

/// All that may be written to below it is a mount of its own.
fn fix_devices() -> Result<(), WorldError> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
    mount_remount("/dev", flags, c"").doing("fix", "/dev")
}
