//! Storage of an instance: where its files are written, and the limit on them.

mod ext4_image;
mod loop_devices;
mod memory;
mod removal;

use std::io;

use pinfold_confine::IdMap;
use pinfold_keeper_wire::Storage;
use pinfold_lifecycle::Limits;
use rustix::process::geteuid;

use crate::cgroup::Ability;
use crate::paths::{DataPaths, InstancePaths, make_directory};

pub(crate) use loop_devices::{loop_devices_backed_by, release_loop_devices};
pub(crate) use memory::{host_memory_mb, memory_left_mb, memory_total_mb};
pub(crate) use removal::remove_tree;

/// Kind of storage for the files of an instance.
///
/// | storage | bytes and files | costs to make and remove | chosen for |
/// |---|---|---|---|
/// | memory | enforced | 0.1 ms | what fits into a share of the sandbox's memory, and is charged to it |
/// | image | enforced | 2.5 ms | a larger disk that was requested, as root |
/// | directory | watched | 2.2 ms | only on explicit configuration |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageKind {
    Memory,
    Image,
    Directory,
}

/// Disk limit of an instance whose request names none.
pub const DEFAULT_DISK_MB: u64 = 1_024;
pub const DEFAULT_INODES: u64 = 100_000;
/// Smallest image that has room for its own metadata.
const MIN_IMAGE_MB: u64 = 8;
const NO_USER_XATTRS: &str =
    "on tmpfs a removed directory of an image cannot be created again before Linux 6.6";

/// Size and kind of the storage of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskPlan {
    pub(crate) kind: StorageKind,
    pub(crate) mb: u64,
    pub(crate) inodes: u64,
}

/// Kinds of storage that this host offers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorageOptions {
    /// Overrides the choice by limits.
    pub(crate) forced: Option<StorageKind>,
    images_available: bool,
    /// Whether tmpfs takes the extended attributes of an unprivileged overlay. Before Linux 6.6 it does not, and a
    /// removed directory of an image cannot be created again.
    tmpfs_has_user_xattrs: bool,
    host_memory_mb: u64,
}

impl StorageOptions {
    pub(crate) fn detect() -> Self {
        Self {
            forced: None,
            images_available: ext4_image::unavailable_reason().is_none(),
            tmpfs_has_user_xattrs: memory::tmpfs_has_user_xattrs(),
            host_memory_mb: host_memory_mb(),
        }
    }

    /// Files in memory must leave room for processes: at most half of the sandbox's memory limit, or without one an
    /// eighth of the host's.
    pub(crate) fn plan(&self, limits: &Limits) -> DiskPlan {
        let max = limits.memory_mb.map_or(self.host_memory_mb / 8, |mb| mb / 2).max(1);
        let mb = limits.disk_mb.unwrap_or_else(|| DEFAULT_DISK_MB.min(max));
        let fits = mb <= max && self.tmpfs_has_user_xattrs;
        let chosen = if !fits && self.images_available { StorageKind::Image } else { StorageKind::Memory };
        let kind = self.forced.unwrap_or(chosen);
        DiskPlan { kind, mb, inodes: limits.inodes.unwrap_or(DEFAULT_INODES) }
    }

    /// How disk limits are enforced on this host.
    pub(crate) fn ability(&self) -> Ability {
        match (self.forced, ext4_image::unavailable_reason()) {
            (Some(StorageKind::Directory), _) => Ability::Unavailable {
                why: "instances are configured to use plain directories, whose size is only watched".into(),
                fix: "remove the configured storage kind".into(),
            },
            (_, None) if self.tmpfs_has_user_xattrs => {
                Ability::Enforced { by: "tmpfs, and ext4 images for what does not fit".into() }
            }
            (_, None) => Ability::Enforced { by: format!("ext4 images: {NO_USER_XATTRS}") },
            (_, Some(why)) if self.tmpfs_has_user_xattrs => {
                Ability::Enforced { by: format!("tmpfs only, counted as memory: {why}") }
            }
            (_, Some(why)) => {
                Ability::Enforced { by: format!("tmpfs only, counted as memory: {why}. {NO_USER_XATTRS}") }
            }
        }
    }
}

impl DiskPlan {
    /// Creates the part of the storage that must exist before the keeper is spawned.
    pub(crate) fn prepare(
        &self,
        data_paths: &DataPaths,
        paths: &InstancePaths,
        ids: IdMap,
    ) -> io::Result<Storage> {
        // An earlier launch may have left a storage that was mounted once; it cannot be mounted again.
        remove_tree(&paths.storage)?;
        Ok(match self.kind {
            StorageKind::Memory => {
                Storage::Memory { bytes: self.mb.saturating_mul(1 << 20), inodes: self.inodes }
            }
            StorageKind::Image => {
                make_directory(&paths.storage, 0o700)?;
                let template =
                    ext4_image::template(&data_paths.templates, self.mb.max(MIN_IMAGE_MB), self.inodes)?;
                ext4_image::copy(&template, &paths.disk_image())?;
                Storage::Image { file: paths.disk_image() }
            }
            StorageKind::Directory => {
                make_directory(&paths.storage, 0o711)?;
                if geteuid().is_root() {
                    std::os::unix::fs::chown(&paths.storage, Some(ids.uid), Some(ids.gid))?;
                }
                Storage::Directory { path: paths.storage.clone() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_image_can_be_made_with_the_default_inode_limit() {
        let directory = tempfile::tempdir().unwrap();

        let made = ext4_image::template(directory.path(), MIN_IMAGE_MB, DEFAULT_INODES);

        assert!(ext4_image::unavailable_reason().is_some() || made.is_ok(), "{made:?}");
    }

    const HOST: StorageOptions = StorageOptions {
        forced: None,
        images_available: true,
        tmpfs_has_user_xattrs: true,
        host_memory_mb: 16_384,
    };

    fn limits(memory_mb: Option<u64>, disk_mb: Option<u64>) -> Limits {
        Limits { memory_mb, disk_mb, ..Limits::default() }
    }

    fn chosen(options: StorageOptions, memory_mb: Option<u64>, disk_mb: Option<u64>) -> (StorageKind, u64) {
        let plan = options.plan(&limits(memory_mb, disk_mb));
        (plan.kind, plan.mb)
    }

    #[test]
    fn default_disk_is_bounded_and_in_memory() {
        assert_eq!(chosen(HOST, None, None), (StorageKind::Memory, DEFAULT_DISK_MB));
        assert_eq!(HOST.plan(&Limits::default()).inodes, DEFAULT_INODES);
    }

    #[test]
    fn files_in_memory_leave_half_of_it_to_processes() {
        assert_eq!(chosen(HOST, Some(512), None), (StorageKind::Memory, 256));
    }

    #[test]
    fn a_disk_that_does_not_fit_into_memory_is_an_image() {
        assert_eq!(chosen(HOST, Some(512), Some(256)), (StorageKind::Memory, 256));
        assert_eq!(chosen(HOST, Some(512), Some(257)), (StorageKind::Image, 257));
        assert_eq!(chosen(HOST, None, Some(10_000)), (StorageKind::Image, 10_000));
    }

    #[test]
    fn disk_limit_falls_back_to_memory_without_an_image() {
        let unprivileged = StorageOptions { images_available: false, ..HOST };

        assert_eq!(chosen(unprivileged, Some(512), Some(2_048)), (StorageKind::Memory, 2_048));
    }

    #[test]
    fn tmpfs_without_user_xattrs_is_used_only_as_a_last_resort() {
        let old = StorageOptions { tmpfs_has_user_xattrs: false, ..HOST };
        let unprivileged = StorageOptions { images_available: false, ..old };

        assert_eq!(chosen(old, None, None), (StorageKind::Image, DEFAULT_DISK_MB));
        assert_eq!(chosen(unprivileged, None, None), (StorageKind::Memory, DEFAULT_DISK_MB));
        for options in [old, unprivileged] {
            let Ability::Enforced { by } = options.ability() else { panic!("{options:?}") };
            assert!(by.contains("before Linux 6.6"), "{by}");
        }
    }

    #[test]
    fn a_small_host_keeps_most_of_its_memory() {
        let small = StorageOptions { host_memory_mb: 2_048, ..HOST };

        assert_eq!(chosen(small, None, None), (StorageKind::Memory, 256));
    }
}
