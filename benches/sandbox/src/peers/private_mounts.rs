//! A thread with its own mount namespace, and programs started by it. The host's mounts do not change.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::UnshareFlags;

const UNIFIED: &str = "/sys/fs/cgroup/unified";

/// Hides the cgroup v2 hierarchy from this thread on a hybrid host.
pub(super) fn without_unified() -> Result<()> {
    #[expect(deprecated, reason = "it became unsafe for the sake of flags that are not used here")]
    rustix::thread::unshare(UnshareFlags::NEWNS).context("could not get mounts of its own")?;
    let namespace = |path: &str| fs::read_link(path).with_context(|| format!("could not read `{path}`"));
    ensure!(
        namespace("/proc/thread-self/ns/mnt")? != namespace("/proc/self/ns/mnt")?,
        "the thread still sees the host's own mounts"
    );
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("could not keep the mounts to itself")?;
    if Path::new(UNIFIED).join("cgroup.procs").exists() {
        unmount(UNIFIED, UnmountFlags::DETACH).with_context(|| format!("could not hide `{UNIFIED}`"))?;
    }
    Ok(())
}
