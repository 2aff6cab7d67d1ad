//! The storage of a body: what is written inside goes there, and no further than its limit.

mod devices;
mod image;
mod memory;
mod removal;

use std::io;

use pinfold_keeper::wire::IdMap;
use pinfold_keeper::world::Storage;
use pinfold_lifecycle::Limits;
use rustix::process::geteuid;

use crate::cgroup::Ability;
use crate::places::{Grounds, Places, make};

pub(crate) use devices::{backed_by, let_go_of};
pub(crate) use memory::{host_memory_mb, memory_left_mb};
pub(crate) use removal::remove_tree;

/// Where a body's files are.
///
/// | storage | bytes and files | costs to make and remove | chosen for |
/// |---|---|---|---|
/// | memory | enforced | 0.1 ms | what fits into a share of the sandbox's memory, and counts as that |
/// | image | enforced | 2.5 ms | a larger disk that is asked for, as root |
/// | directory | watched | 2.2 ms | nothing by itself: only where it is asked for |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageKind {
    Memory,
    Image,
    Directory,
}

/// What a body gets that asks for nothing.
pub const DEFAULT_DISK_MB: u64 = 1_024;
pub const DEFAULT_INODES: u64 = 100_000;
/// A filesystem of its own needs some room for itself.
const SMALLEST_IMAGE_MB: u64 = 8;
const WITHOUT_MARKS: &str =
    "in memory a directory of an image that was removed cannot be made again before Linux 6.6";

/// How much a body may write, and where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskPlan {
    pub(crate) kind: StorageKind,
    pub(crate) mb: u64,
    pub(crate) inodes: u64,
}

/// What this host offers for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskChoice {
    /// Whatever the limits are.
    pub(crate) forced: Option<StorageKind>,
    images: bool,
    /// Whether an overlay can write all it has to say into memory. Before Linux 6.6 it cannot, and a directory of
    /// an image that was removed cannot be made again.
    memory_holds_marks: bool,
    host_memory_mb: u64,
}

impl DiskChoice {
    pub(crate) fn find() -> Self {
        Self {
            forced: None,
            images: image::obstacle().is_none(),
            memory_holds_marks: memory::holds_marks(),
            host_memory_mb: host_memory_mb(),
        }
    }

    /// Files in memory must leave room for what works on them: half of the sandbox's own, or without such a limit an
    /// eighth of the host's.
    pub(crate) fn plan(&self, limits: &Limits) -> DiskPlan {
        let most = limits.memory_mb.map_or(self.host_memory_mb / 8, |mb| mb / 2).max(1);
        let mb = limits.disk_mb.unwrap_or_else(|| DEFAULT_DISK_MB.min(most));
        let fits = mb <= most && self.memory_holds_marks;
        let chosen = if !fits && self.images { StorageKind::Image } else { StorageKind::Memory };
        let kind = self.forced.unwrap_or(chosen);
        DiskPlan { kind, mb, inodes: limits.inodes.unwrap_or(DEFAULT_INODES) }
    }

    /// How bytes and files are limited here, for the owner of the machine.
    pub(crate) fn ability(&self) -> Ability {
        match (self.forced, image::obstacle()) {
            (Some(StorageKind::Directory), _) => Ability::Unavailable {
                why: "bodies were asked to live in plain directories, which are only watched".into(),
                fix: "let the storage be chosen".into(),
            },
            (_, None) if self.memory_holds_marks => {
                Ability::Enforced { by: "tmpfs, and ext4 images for what does not fit".into() }
            }
            (_, None) => Ability::Enforced { by: format!("ext4 images: {WITHOUT_MARKS}") },
            (_, Some(why)) if self.memory_holds_marks => {
                Ability::Enforced { by: format!("tmpfs only, counted as memory: {why}") }
            }
            (_, Some(why)) => {
                Ability::Enforced { by: format!("tmpfs only, counted as memory: {why}. {WITHOUT_MARKS}") }
            }
        }
    }
}

impl DiskPlan {
    /// What of the storage has to be on the host's disk before the body is born.
    pub(crate) fn prepare(&self, grounds: &Grounds, places: &Places, ids: IdMap) -> io::Result<Storage> {
        // An earlier try may have left a storage that was mounted once, and that is not mounted twice.
        remove_tree(&places.body)?;
        Ok(match self.kind {
            StorageKind::Memory => {
                Storage::Memory { bytes: self.mb.saturating_mul(1 << 20), inodes: self.inodes }
            }
            StorageKind::Image => {
                make(&places.body, 0o700)?;
                let template =
                    image::template(&grounds.templates, self.mb.max(SMALLEST_IMAGE_MB), self.inodes)?;
                image::copy(&template, &places.image())?;
                Storage::Image { file: places.image() }
            }
            StorageKind::Directory => {
                make(&places.body, 0o711)?;
                if geteuid().is_root() {
                    std::os::unix::fs::chown(&places.body, Some(ids.uid), Some(ids.gid))?;
                }
                Storage::Directory { path: places.body.clone() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_image_can_be_made_however_many_files_are_allowed() {
        let directory = tempfile::tempdir().unwrap();

        let made = image::template(directory.path(), SMALLEST_IMAGE_MB, DEFAULT_INODES);

        assert!(image::obstacle().is_some() || made.is_ok(), "{made:?}");
    }

    const HOST: DiskChoice =
        DiskChoice { forced: None, images: true, memory_holds_marks: true, host_memory_mb: 16_384 };

    fn limits(memory_mb: Option<u64>, disk_mb: Option<u64>) -> Limits {
        Limits { memory_mb, disk_mb, ..Limits::default() }
    }

    fn chosen(choice: DiskChoice, memory_mb: Option<u64>, disk_mb: Option<u64>) -> (StorageKind, u64) {
        let plan = choice.plan(&limits(memory_mb, disk_mb));
        (plan.kind, plan.mb)
    }

    #[test]
    fn who_asks_for_nothing_gets_a_bounded_disk_in_memory() {
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
    fn where_no_image_can_be_made_memory_bounds_the_disk() {
        let unprivileged = DiskChoice { images: false, ..HOST };

        assert_eq!(chosen(unprivileged, Some(512), Some(2_048)), (StorageKind::Memory, 2_048));
    }

    #[test]
    fn a_memory_without_marks_is_used_only_where_nothing_else_is() {
        let old = DiskChoice { memory_holds_marks: false, ..HOST };
        let unprivileged = DiskChoice { images: false, ..old };

        assert_eq!(chosen(old, None, None), (StorageKind::Image, DEFAULT_DISK_MB));
        assert_eq!(chosen(unprivileged, None, None), (StorageKind::Memory, DEFAULT_DISK_MB));
        for choice in [old, unprivileged] {
            let Ability::Enforced { by } = choice.ability() else { panic!("{choice:?}") };
            assert!(by.contains("before Linux 6.6"), "{by}");
        }
    }

    #[test]
    fn a_small_host_keeps_most_of_its_memory() {
        let small = DiskChoice { host_memory_mb: 2_048, ..HOST };

        assert_eq!(chosen(small, None, None), (StorageKind::Memory, 256));
    }
}
