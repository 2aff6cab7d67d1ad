//! The root inside: read-only layers that sandboxes share, under a storage that is this sandbox's own and bounded.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chownat, mkdirat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, mount, open_tree,
};
use serde::{Deserialize, Serialize};

use super::{Doing, WorldError, put_on, take_tree};
use crate::kernel;
use crate::loop_device;
use crate::wire::IdMap;

/// What the root is made of. Paths are of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Read-only, the uppermost first; at least one, and none twice.
    pub layers: Vec<Layer>,
    pub storage: Storage,
}

/// A directory that any number of sandboxes may share. What it hides of the layers below it, it says as overlayfs
/// does without privilege: by devices 0/0 and by `user.overlay.` attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    pub path: PathBuf,
    /// The id on disk that is seen as root's inside, and the ids after it in their order. None: the layer is shown
    /// with the ids that it has, which is all that an ordinary user can do.
    pub first_id: Option<u32>,
}

/// Where what is written inside goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// In memory, counted as the sandbox's own; gone with it.
    Memory { bytes: u64, inodes: u64 },
    /// A filesystem in a file of its own.
    Image { file: PathBuf },
    /// A directory of the host, with no bound but the host's disk.
    Directory { path: PathBuf },
}

/// The parts of a root as detached mounts.
pub(super) struct Parts {
    layers: Vec<OwnedFd>,
    /// None: it is made inside.
    storage: Option<OwnedFd>,
}

const UPPER: &str = "upper";
const WORK: &str = "work";
/// Every host has it, and what is put over it is seen by us alone.
pub(super) const PLACE: &str = "/usr";

impl Root {
    /// With the rights of whoever made the sandbox, which may be more than those inside.
    pub(super) fn gather(&self, ids: IdMap) -> Result<Parts, WorldError> {
        let layers = self.layers.iter().map(|layer| take_tree(&layer.path)).collect::<Result<_, _>>()?;
        let storage = match &self.storage {
            Storage::Memory { .. } => None,
            Storage::Image { file } => {
                let mounted = mount_image(file).doing("mount", file)?;
                make_own(&mounted, ids).doing("prepare", file)?;
                Some(mounted)
            }
            Storage::Directory { path } => {
                let tree = take_tree(path)?;
                make_own(&tree, ids).doing("prepare", path)?;
                Some(tree)
            }
        };
        Ok(Parts { layers, storage })
    }

    /// Lets the ids of each layer stand for the sandbox's, which needs a process that already has them.
    pub(super) fn map_layers(&self, parts: &Parts, pid: i32, ids: IdMap) -> Result<(), WorldError> {
        // One for all layers alike: the host has only so many, and each takes a process to make.
        let mut namespaces = BTreeMap::new();
        let mut map = |first: u32, tree: &OwnedFd| {
            let namespace = match namespaces.entry(first) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(missing) if first == 0 => missing.insert(namespace_of(pid)?),
                Entry::Vacant(missing) => missing.insert(kernel::namespace_that_maps(first, ids)?),
            };
            kernel::show_with_ids_of(tree, namespace)
        };
        for (layer, tree) in self.layers.iter().zip(&parts.layers) {
            if let Some(first) = layer.first_id {
                map(first, tree).map_err(said_of_mapping).doing("map the ids of", &layer.path)?;
            }
        }
        Ok(())
    }

    /// Inside: one root of all parts, not yet in its place.
    pub(super) fn assemble(&self, parts: Parts) -> Result<OwnedFd, WorldError> {
        let place = Path::new(PLACE);
        let storage = match (&self.storage, parts.storage) {
            (_, Some(mounted)) => mounted,
            (Storage::Memory { bytes, inodes }, None) => {
                let mounted = mount_memory(*bytes, *inodes).doing("make the storage of", "/")?;
                make_directories(&mounted).doing("prepare", "/")?;
                mounted
            }
            (Storage::Image { file: path } | Storage::Directory { path }, None) => {
                return Err(io::Error::from(io::ErrorKind::InvalidInput)).doing("find the storage", path);
            }
        };
        put_on(&storage, place)?;
        let mut lower = Vec::new();
        for (number, layer) in parts.layers.iter().enumerate() {
            // Kernels before 6.15 take only what is in place for a layer. Short names, so that many fit in one text.
            let path = place.join(number.to_string());
            make_if_missing(&path).doing("make", &path)?;
            put_on(layer, &path)?;
            lower.push(path.display().to_string());
        }
        mount_overlay(&lower.join(":"), place).doing("lay the layers of", "/")
    }
}

/// The kernel has one number for all that it does not do.
fn said_of_mapping(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EINVAL) {
        return error;
    }
    let why = "its filesystem cannot show files with other ids (ext4, xfs and btrfs can, tmpfs from Linux 6.3 on, \
               overlayfs never): choose another data directory";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

fn namespace_of(pid: i32) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
}

/// What the overlay writes to, in storage that the sandbox's own root may use.
fn make_own(storage: &OwnedFd, ids: IdMap) -> io::Result<()> {
    make_directories(storage)?;
    if ids.count == 1 {
        // An ordinary user's own already.
        return Ok(());
    }
    for name in [".", UPPER, WORK] {
        let (uid, gid) = (Some(Uid::from_raw(ids.uid)), Some(Gid::from_raw(ids.gid)));
        chownat(storage, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn make_directories(storage: &OwnedFd) -> io::Result<()> {
    for name in [UPPER, WORK] {
        match mkdirat(storage, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn make_if_missing(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn mount_memory(bytes: u64, inodes: u64) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "size", bytes.to_string())?;
    fsconfig_set_string(&context, "nr_inodes", inodes.to_string())?;
    fsconfig_set_string(&context, "mode", "755")?;
    finish(&context)
}

/// The device goes when nothing of it is mounted any more, or at once if it never comes to that.
fn mount_image(file: &Path) -> io::Result<OwnedFd> {
    let device = loop_device::attach(file)?;
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", device.path.as_os_str())?;
    // Nothing of a sandbox outlives it: what is on the device need not be in order after a crash.
    fsconfig_set_flag(&context, "nobarrier")?;
    finish(&context)
}

/// The kernel takes no longer text as the value of one option.
const LONGEST_VALUE: usize = 255;

fn mount_overlay(lower: &str, storage: &Path) -> io::Result<OwnedFd> {
    if lower.len() <= LONGEST_VALUE { lay(lower, storage) } else { lay_by_one_text(lower, storage) }
}

/// What is in the layers need not reach the disk before the sandbox goes: `volatile`.
fn lay(lower: &str, storage: &Path) -> io::Result<OwnedFd> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "lowerdir", lower)?;
    fsconfig_set_string(&context, "upperdir", storage.join(UPPER))?;
    fsconfig_set_string(&context, "workdir", storage.join(WORK))?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_set_flag(&context, "volatile")?;
    finish(&context)
}

/// The same by the oldest call, which takes all options in one text as long as a page. It knows no mount that is not in
/// place: this one covers its own storage, and is let go of together with it.
fn lay_by_one_text(lower: &str, storage: &Path) -> io::Result<OwnedFd> {
    let (upper, work) = (storage.join(UPPER), storage.join(WORK));
    let (upper, work) = (upper.display(), work.display());
    let options =
        CString::new(format!("lowerdir={lower},upperdir={upper},workdir={work},userxattr,volatile"))?;
    mount("none", storage, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
    Ok(open_tree(CWD, storage, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?)
}

fn finish(context: &impl AsFd) -> io::Result<OwnedFd> {
    fsconfig_create(context).map_err(|error| said_by(context, error))?;
    let tame = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, tame)?)
}

/// The kernel's own words about a mount that failed say more than its number.
fn said_by(context: &impl AsFd, error: rustix::io::Errno) -> io::Error {
    let mut said = [0; 512];
    match rustix::io::read(context, &mut said) {
        Ok(length) => {
            let said = String::from_utf8_lossy(&said[..length]).trim().to_owned();
            io::Error::new(error.kind(), format!("{error}: {said}"))
        }
        Err(_) => error.into(),
    }
}
