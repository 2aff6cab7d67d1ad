//! Into a sandbox.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use async_trait::async_trait;
use pinfold_api::FileKind;
use pinfold_provider::{FileError, Pieces};
use tokio::sync::mpsc;

use super::Copied;
use super::inside::{Inside, below, last_name};
use super::outside::open_file;
use crate::console::read_here;
use crate::pieces::OfFile;

pub(super) async fn from_pipe(inside: &dyn Inside, to: &[u8]) -> anyhow::Result<Copied> {
    if inside.stat(to).await.is_ok_and(|told| told.kind == FileKind::Directory) {
        bail!("what comes from a pipe has no name, and the other side is a directory");
    }
    let bytes = inside.write(to, None, &mut Piped(read_here())).await?;
    Ok(Copied { files: 1, bytes, ..Copied::default() })
}

pub(super) async fn from_path(inside: &dyn Inside, from: &Path, to: &[u8]) -> anyhow::Result<Copied> {
    let top = fs::canonicalize(from).context("it cannot be reached")?;
    let mut copied = Copied::default();
    let mut unfinished = Vec::new();
    let mut left = vec![(top, landing(inside, from, to).await?)];
    while let Some((path, spot)) = left.pop() {
        let shown = || format!("`{}`", path.display());
        let facts = fs::symlink_metadata(&path).with_context(shown)?;
        if facts.is_file() {
            copied.bytes += copy_file(inside, &path, &spot).await.with_context(shown)?;
            copied.files += 1;
        } else if facts.is_symlink() {
            let target = fs::read_link(&path).with_context(shown)?;
            inside.make_link(&spot, target.as_os_str().as_bytes()).await.with_context(shown)?;
            copied.links += 1;
        } else if facts.is_dir() {
            inside.make_directory(&spot, None).await.with_context(shown)?;
            unfinished.push((spot.clone(), facts.permissions().mode() & 0o7777));
            copied.directories += 1;
            left.extend(entries(&path, &spot).with_context(shown)?);
        } else {
            copied.left_out.push(path.display().to_string());
        }
    }
    // The innermost first: after it, a directory may not let anybody in.
    for (spot, mode) in unfinished.into_iter().rev() {
        inside.make_directory(&spot, Some(mode)).await.context("could not set the mode of a directory")?;
    }
    Ok(copied)
}

fn entries(path: &Path, spot: &[u8]) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        found.push((entry.path(), below(spot, entry.file_name().as_bytes())));
    }
    Ok(found)
}

async fn copy_file(inside: &dyn Inside, path: &Path, spot: &[u8]) -> anyhow::Result<u64> {
    let (file, mode) = open_file(path)?;
    inside.write(spot, Some(mode), &mut OfFile(file)).await
}

/// Where it lands: in a directory that is there, under its own name, or else as what was named.
async fn landing(inside: &dyn Inside, from: &Path, to: &[u8]) -> anyhow::Result<Vec<u8>> {
    // Through links, as everywhere: a name with a dot behind it is what they lead to.
    let is_directory = inside.stat(&below(to, b".")).await.is_ok_and(|told| told.kind == FileKind::Directory);
    if !is_directory {
        return Ok(to.to_vec());
    }
    Ok(last_name(from.as_os_str().as_bytes()).map_or_else(|| to.to_vec(), |name| below(to, name)))
}

struct Piped(mpsc::Receiver<Vec<u8>>);

#[async_trait]
impl Pieces for Piped {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.0.recv().await)
    }
}
