//! Lets a keeper that is not root start executions in cgroups of their own.

use std::io;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use super::detect::Version;
use super::instance::{InstanceCgroup, WORK};

#[derive(Debug, thiserror::Error)]
pub enum DelegateError {
    #[error("could not give `{}` to user {uid}", path.display())]
    Give { path: PathBuf, uid: u32, source: io::Error },
}

impl InstanceCgroup {
    /// Lets a user create v2 cgroups below `work`, and move or clone processes into them from the keeper's cgroup.
    /// The kernel requires write access to the target and to the common ancestor. Limits and v1 cgroups stay ours.
    /// The user must be the keeper's own: processes of the workload could leave their cgroup with it.
    pub fn delegate_to(&self, uid: u32, gid: u32) -> Result<(), DelegateError> {
        let Some(instance) = self.tracked().filter(|it| it.version == Version::V2) else { return Ok(()) };
        let work = instance.child(WORK);
        for path in [instance.file("cgroup.procs"), work.file("cgroup.procs"), work.directory] {
            chown(&path, Some(uid), Some(gid)).map_err(|source| DelegateError::Give { path, uid, source })?;
        }
        Ok(())
    }
}
