//! Letting a keeper that is not root start executions in groups of their own.

use std::io;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use super::body::{BodyCgroup, WORK};
use super::survey::Version;

#[derive(Debug, thiserror::Error)]
pub enum DelegateError {
    #[error("could not give `{}` to user {uid}", path.display())]
    Give { path: PathBuf, uid: u32, source: io::Error },
}

impl BodyCgroup {
    /// Lets a user make v2 groups below the work, and move or clone processes into them from the keeper's group.
    /// For that the kernel asks for the rights to the target and to the group above both. Limits stay ours, and so
    /// do v1 groups. The user must be the keeper's own: the work's processes could leave their group by it.
    pub fn delegate_to(&self, uid: u32, gid: u32) -> Result<(), DelegateError> {
        let Some(body) = self.tracked().filter(|it| it.version == Version::V2) else { return Ok(()) };
        let work = body.child(WORK);
        for path in [body.file("cgroup.procs"), work.file("cgroup.procs"), work.directory] {
            chown(&path, Some(uid), Some(gid)).map_err(|source| DelegateError::Give { path, uid, source })?;
        }
        Ok(())
    }
}
