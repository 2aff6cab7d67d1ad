//! Copies from the local file system into a sandbox.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use async_trait::async_trait;
use pinfold_api::FileKind;
use pinfold_provider::{ContentStream, FileError};
use tokio::sync::mpsc;

use super::CopySummary;
use super::sandbox_files::{SandboxFiles, file_name, join};
use super::target_directory::open_regular_file;
use crate::console::read_stdin;
use crate::file_stream::FileStream;

pub(super) async fn from_stdin(files: &dyn SandboxFiles, to: &[u8]) -> anyhow::Result<CopySummary> {
    if files.stat(to).await.is_ok_and(|info| info.kind == FileKind::Directory) {
        bail!("standard input has no file name and the destination is a directory; add a file name");
    }
    let bytes = files.write(to, None, &mut StdinStream(read_stdin())).await?;
    Ok(CopySummary { files: 1, bytes, ..CopySummary::default() })
}

pub(super) async fn from_path(
    files: &dyn SandboxFiles,
    from: &Path,
    to: &[u8],
) -> anyhow::Result<CopySummary> {
    let top = fs::canonicalize(from).context("could not resolve the source path")?;
    let mut summary = CopySummary::default();
    let mut directory_modes = Vec::new();
    let mut pending = vec![(top, destination(files, from, to).await?)];
    while let Some((path, relative_path)) = pending.pop() {
        let shown = || format!("`{}`", path.display());
        let facts = fs::symlink_metadata(&path).with_context(shown)?;
        if facts.is_file() {
            summary.bytes += copy_file(files, &path, &relative_path).await.with_context(shown)?;
            summary.files += 1;
        } else if facts.is_symlink() {
            let target = fs::read_link(&path).with_context(shown)?;
            files.make_link(&relative_path, target.as_os_str().as_bytes()).await.with_context(shown)?;
            summary.links += 1;
        } else if facts.is_dir() {
            files.make_directory(&relative_path, None).await.with_context(shown)?;
            directory_modes.push((relative_path.clone(), facts.permissions().mode() & 0o7777));
            summary.directories += 1;
            pending.extend(entries(&path, &relative_path).with_context(shown)?);
        } else {
            summary.left_out.push(path.display().to_string());
        }
    }
    // Innermost first: the final mode of a directory may forbid entering it.
    for (relative_path, mode) in directory_modes.into_iter().rev() {
        files
            .make_directory(&relative_path, Some(mode))
            .await
            .context("could not set the mode of a directory in the sandbox")?;
    }
    Ok(summary)
}

fn entries(path: &Path, relative_path: &[u8]) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        found.push((entry.path(), join(relative_path, entry.file_name().as_bytes())));
    }
    Ok(found)
}

async fn copy_file(files: &dyn SandboxFiles, path: &Path, relative_path: &[u8]) -> anyhow::Result<u64> {
    let (file, mode) = open_regular_file(path)?;
    files.write(relative_path, Some(mode), &mut FileStream(file)).await
}

/// The destination path: inside an existing directory under the source's name, else as given.
async fn destination(files: &dyn SandboxFiles, from: &Path, to: &[u8]) -> anyhow::Result<Vec<u8>> {
    // The trailing `/.` follows a symbolic link to a directory.
    let is_directory = files.stat(&join(to, b".")).await.is_ok_and(|info| info.kind == FileKind::Directory);
    if !is_directory {
        return Ok(to.to_vec());
    }
    Ok(file_name(from.as_os_str().as_bytes()).map_or_else(|| to.to_vec(), |name| join(to, name)))
}

struct StdinStream(mpsc::Receiver<Vec<u8>>);

#[async_trait]
impl ContentStream for StdinStream {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.0.recv().await)
    }
}
