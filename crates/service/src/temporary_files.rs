//! Temporary files in the data directory: uploads, and files that get their final name when they are complete. A process
//! that is killed leaves its own behind; the next reconciliation removes them, once that process is proven gone.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::Service;

/// Received archives, while they are imported.
const UPLOADS: &str = "uploads";

impl Service {
    /// An empty file on the data directory's disk for an upload. It is removed on drop.
    pub fn new_upload(&self) -> io::Result<NamedTempFile> {
        let directory = self.host.data.join(UPLOADS);
        pinfold_private_files::make_directory(&directory)?;
        let prefix = pinfold_private_files::temporary_name("upload")? + "-";
        tempfile::Builder::new().prefix(&prefix).tempfile_in(directory)
    }
}

/// Every directory in which Pinfold makes temporary files.
fn directories(data: &Path) -> impl Iterator<Item = PathBuf> {
    ["", UPLOADS, "servers", "linux/layers", "linux/templates"].into_iter().map(|name| data.join(name))
}

/// Removes the temporary files of processes that are gone.
pub(crate) fn remove_ownerless(data: &Path) {
    for directory in directories(data) {
        match pinfold_private_files::remove_ownerless(&directory) {
            Ok(0) => {}
            Ok(removed) => tracing::info!(
                directory = %directory.display(), removed, "removed temporary files of processes that are gone"
            ),
            Err(error) => tracing::warn!(
                directory = %directory.display(), %error, "could not remove temporary files, trying again later"
            ),
        }
    }
}
