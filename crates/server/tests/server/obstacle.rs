//! A body that cannot be removed for as long as a test wants it so.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Something foreign in the directory of a body, because of which it cannot be removed.
pub(crate) struct Obstacle(Option<PathBuf>);

impl Obstacle {
    pub(crate) fn put(data: &Path, body: &str) -> Self {
        let place = data.join(format!("linux/control/v1.{body}/obstacle"));
        std::fs::create_dir(&place).unwrap();
        mount("none", &place, "tmpfs", MountFlags::empty(), None).unwrap();
        Self(Some(place))
    }

    pub(crate) fn remove(&mut self) {
        if let Some(place) = self.0.take() {
            unmount(&place, UnmountFlags::DETACH).unwrap();
        }
    }
}

impl Drop for Obstacle {
    fn drop(&mut self) {
        if let Some(place) = self.0.take() {
            let _ = unmount(&place, UnmountFlags::DETACH);
        }
    }
}
