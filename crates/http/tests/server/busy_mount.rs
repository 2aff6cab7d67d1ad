//! A mount that prevents the removal of an instance until the test unmounts it.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, unmount};

/// A foreign mount in the directory of the first instance of a sandbox.
pub(crate) struct BusyMount(Option<PathBuf>);

impl BusyMount {
    pub(crate) fn mount(data: &Path, sandbox: &str) -> Self {
        let path = data.join(format!("linux/control/v1.{sandbox}.1/obstacle"));
        std::fs::create_dir(&path).unwrap();
        rustix::mount::mount("none", &path, "tmpfs", MountFlags::empty(), None).unwrap();
        Self(Some(path))
    }

    pub(crate) fn remove(&mut self) {
        if let Some(path) = self.0.take() {
            unmount(&path, UnmountFlags::DETACH).unwrap();
        }
    }
}

impl Drop for BusyMount {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = unmount(&path, UnmountFlags::DETACH);
        }
    }
}
