//! The root filesystem: an overlayfs of shared read-only layers and a writable, bounded storage of this sandbox.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use pinfold_confine::mounts::{Doing, MOUNT_POINT, MountError, attach, clone_mount};
use pinfold_confine::{IdMap, new_idmap_namespace};
use pinfold_keeper_wire::{RootFilesystem, Storage};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chownat, mkdirat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, mount, open_tree,
};

use crate::loop_device;
use crate::syscalls;

/// The parts of a root as detached mounts.
pub(super) struct RootMounts {
    layers: Vec<OwnedFd>,
    /// None: created inside.
    storage: Option<OwnedFd>,
}

const UPPER: &str = "upper";
const WORK: &str = "work";

/// Opens the layers and the storage, with the rights of the spawner where it runs as root.
pub(super) fn open_mounts(root: &RootFilesystem, ids: IdMap) -> Result<RootMounts, MountError> {
    let layers = root.layers.iter().map(|layer| clone_mount(&layer.path)).collect::<Result<_, _>>()?;
    let storage = match &root.storage {
        Storage::Memory { .. } => None,
        Storage::Image { file } => {
            let mounted = mount_image(file).doing("mount", file)?;
            prepare_storage(&mounted, ids).doing("prepare", file)?;
            Some(mounted)
        }
        Storage::Directory { path } => {
            let tree = clone_mount(path)?;
            prepare_storage(&tree, ids).doing("prepare", path)?;
            Some(tree)
        }
    };
    Ok(RootMounts { layers, storage })
}

/// Maps the ids of each layer to the sandbox's (idmapped mounts). Needs a process that already has the mapping.
pub(super) fn map_layers(
    root: &RootFilesystem,
    mounts: &RootMounts,
    pid: i32,
    ids: IdMap,
) -> Result<(), MountError> {
    // One namespace per first id, shared by layers: namespaces are limited per host, and each takes a process.
    let mut namespaces = BTreeMap::new();
    let mut map = |first: u32, tree: &OwnedFd| {
        let namespace = match namespaces.entry(first) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(missing) if first == 0 => missing.insert(namespace_of(pid)?),
            Entry::Vacant(missing) => missing.insert(new_idmap_namespace(first, ids)?),
        };
        syscalls::set_idmap(tree, namespace)
    };
    for (layer, tree) in root.layers.iter().zip(&mounts.layers) {
        if let Some(first) = layer.first_id {
            map(first, tree).map_err(explain_mapping_error).doing("map the ids of", &layer.path)?;
        }
    }
    Ok(())
}

/// Inside: mounts the overlay of all parts, detached.
pub(super) fn assemble(root: &RootFilesystem, mounts: RootMounts) -> Result<OwnedFd, MountError> {
    let place = Path::new(MOUNT_POINT);
    let storage = match (&root.storage, mounts.storage) {
        (_, Some(mounted)) => mounted,
        (Storage::Memory { bytes, inodes }, None) => {
            let mounted = mount_memory(*bytes, *inodes).doing("create the storage of", "/")?;
            make_directories(&mounted).doing("prepare", "/")?;
            mounted
        }
        (Storage::Image { file: path } | Storage::Directory { path }, None) => {
            return Err(io::Error::from(io::ErrorKind::InvalidInput)).doing("open the storage", path);
        }
    };
    attach(&storage, place)?;
    let mut lower = Vec::new();
    for (number, layer) in mounts.layers.iter().enumerate() {
        // Kernels before 6.15 accept only attached mounts as layers. Short names, so that many fit in one option.
        let path = place.join(number.to_string());
        create_if_missing(&path).doing("make", &path)?;
        attach(layer, &path)?;
        lower.push(path.display().to_string());
    }
    mount_overlay(&lower.join(":"), place).doing("mount the overlay of", "/")
}

/// Explains EINVAL, which the kernel returns for every unsupported id mapping.
fn explain_mapping_error(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EINVAL) {
        return error;
    }
    let why = "its filesystem does not support idmapped mounts (ext4, xfs and btrfs can, tmpfs from Linux 6.3 on, \
               overlayfs never): choose another data directory";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

fn namespace_of(pid: i32) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
}

/// Creates the overlay's directories and gives them to the sandbox's root.
fn prepare_storage(storage: &OwnedFd, ids: IdMap) -> io::Result<()> {
    make_directories(storage)?;
    if ids.count == 1 {
        // Unprivileged: already owned by the user.
        return Ok(());
    }
    for name in [".", UPPER, WORK] {
        let (uid, gid) = (Some(Uid::from_raw(ids.uid)), Some(Gid::from_raw(ids.gid)));
        // Give the directory to the sandbox's root (fchownat).
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

fn create_if_missing(path: &Path) -> io::Result<()> {
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
    create_mount(&context)
}

/// Mounts the filesystem in the file. The kernel frees the loop device with its last mount, or at once on failure.
fn mount_image(file: &Path) -> io::Result<OwnedFd> {
    let device = loop_device::attach(file)?;
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", device.path.as_os_str())?;
    // No write barriers: the data does not outlive the sandbox, so it need not survive a crash.
    fsconfig_set_flag(&context, "nobarrier")?;
    create_mount(&context)
}

/// Maximum length of one fsconfig option value.
const LONGEST_VALUE: usize = 255;

fn mount_overlay(lower: &str, storage: &Path) -> io::Result<OwnedFd> {
    if lower.len() <= LONGEST_VALUE {
        mount_overlay_detached(lower, storage)
    } else {
        mount_overlay_legacy(lower, storage)
    }
}

/// Mounts by fsopen. `volatile`: the upper layer need not survive a crash, so it is never synced.
fn mount_overlay_detached(lower: &str, storage: &Path) -> io::Result<OwnedFd> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "lowerdir", lower)?;
    fsconfig_set_string(&context, "upperdir", storage.join(UPPER))?;
    fsconfig_set_string(&context, "workdir", storage.join(WORK))?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_set_flag(&context, "volatile")?;
    create_mount(&context)
}

/// Mounts by the old mount call, whose options may be as long as a page. It cannot create a detached mount: this one
/// covers its own storage, and both are detached together.
fn mount_overlay_legacy(lower: &str, storage: &Path) -> io::Result<OwnedFd> {
    let (upper, work) = (storage.join(UPPER), storage.join(WORK));
    let (upper, work) = (upper.display(), work.display());
    let options =
        CString::new(format!("lowerdir={lower},upperdir={upper},workdir={work},userxattr,volatile"))?;
    // Mount the overlay over its storage (mount).
    mount("none", storage, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
    Ok(open_tree(CWD, storage, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?)
}

fn create_mount(context: &impl AsFd) -> io::Result<OwnedFd> {
    // Create the filesystem (fsconfig FSCONFIG_CMD_CREATE).
    fsconfig_create(context).map_err(|error| with_kernel_message(context, error))?;
    let nosuid_nodev = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    // Get a detached mount of it (fsmount).
    Ok(fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, nosuid_nodev)?)
}

/// Adds the kernel's message from the mount context to the error.
fn with_kernel_message(context: &impl AsFd, error: rustix::io::Errno) -> io::Error {
    let mut message = [0; 512];
    match rustix::io::read(context, &mut message) {
        Ok(length) => {
            let message = String::from_utf8_lossy(&message[..length]).trim().to_owned();
            io::Error::new(error.kind(), format!("{error}: {message}"))
        }
        Err(_) => error.into(),
    }
}
