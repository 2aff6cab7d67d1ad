//! Copies from a sandbox to the local file system. Names, kinds and link targets from the sandbox are not trusted.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use pinfold_api::FileKind;

use super::CopySummary;
use super::sandbox_files::{FileInfo, SandboxFiles, file_name, join};
use super::target_directory::{RelativePath, TargetDirectory};
use crate::table::escape_control;

pub(super) async fn to_stdout(files: &dyn SandboxFiles, from: &[u8]) -> anyhow::Result<CopySummary> {
    let mut content = files.read(from).await?;
    let mut summary = CopySummary { files: 1, ..CopySummary::default() };
    let mut pipe = io::stdout();
    while let Some(chunk) = content.chunks.next().await? {
        pipe.write_all(&chunk).context("could not write to standard output")?;
        summary.bytes += chunk.len() as u64;
    }
    pipe.flush().context("could not write to standard output")?;
    Ok(summary)
}

pub(super) async fn to_path(files: &dyn SandboxFiles, from: &[u8], to: &Path) -> anyhow::Result<CopySummary> {
    let info = files.stat(from).await?;
    let mut summary = CopySummary::default();
    let (target, relative_path) = destination(from, to)?;
    let mut directory_modes = Vec::new();
    let mut pending = vec![(from.to_vec(), relative_path, info)];
    while let Some((path, relative_path, info)) = pending.pop() {
        match info.kind {
            FileKind::File => {
                summary.bytes += copy_file(files, &target, &path, &relative_path, &info).await?;
                summary.files += 1;
            }
            FileKind::Link => {
                target.make_link(&relative_path, &info.target).with_context(|| copy_error(&path))?;
                summary.links += 1;
            }
            FileKind::Directory => {
                if relative_path != RelativePath::default() {
                    target.make_directory(&relative_path).with_context(|| copy_error(&path))?;
                    directory_modes.push((relative_path.clone(), info.mode));
                }
                summary.directories += 1;
                pending.extend(entries(files, &path, &relative_path).await?);
            }
            FileKind::Pipe | FileKind::Socket | FileKind::Device => {
                summary.left_out.push(String::from_utf8_lossy(&path).into_owned());
            }
        }
    }
    // Innermost first: the final mode of a directory may forbid entering it.
    for (relative_path, mode) in directory_modes.into_iter().rev() {
        target.set_mode(&relative_path, mode).context("could not set the mode of a directory")?;
    }
    Ok(summary)
}

async fn entries(
    files: &dyn SandboxFiles,
    path: &[u8],
    relative_path: &RelativePath,
) -> anyhow::Result<Vec<(Vec<u8>, RelativePath, FileInfo)>> {
    let mut found = Vec::new();
    for entry in files.list(path).await? {
        let Some(relative_path) = relative_path.join(&entry.name) else {
            bail!(
                "refused a file name from the sandbox that leads outside the destination: `{}`",
                escape_control(&String::from_utf8_lossy(&entry.name))
            );
        };
        found.push((join(path, &entry.name), relative_path, entry.info));
    }
    Ok(found)
}

async fn copy_file(
    files: &dyn SandboxFiles,
    target: &TargetDirectory,
    path: &[u8],
    relative_path: &RelativePath,
    info: &FileInfo,
) -> anyhow::Result<u64> {
    let mut content = files.read(path).await?;
    let mut pending_file = target.pending_file(relative_path).with_context(|| copy_error(path))?;
    let mut bytes = 0;
    while let Some(chunk) = content.chunks.next().await? {
        pending_file.write(&chunk).with_context(|| copy_error(path))?;
        bytes += chunk.len() as u64;
    }
    pending_file.commit(content.mode.unwrap_or(info.mode)).with_context(|| copy_error(path))?;
    Ok(bytes)
}

/// The destination: inside an existing directory under the source's name, else as given.
fn destination(from: &[u8], to: &Path) -> anyhow::Result<(TargetDirectory, RelativePath)> {
    let shown = || format!("could not use `{}`", to.display());
    if let Ok(there) = fs::metadata(to) {
        if there.is_dir() {
            let target = TargetDirectory::of(to).with_context(shown)?;
            // A source without a name, such as the root, is copied directly into the directory.
            let relative_path =
                file_name(from).and_then(|name| RelativePath::default().join(name)).unwrap_or_default();
            return Ok((target, relative_path));
        }
        if !there.is_file() {
            bail!(
                "`{}` is neither a file nor a directory; copy to `-` and redirect standard output",
                to.display()
            );
        }
    }
    // A symbolic link to a file is followed.
    let to = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
    let name = to.file_name().context("the destination has no file name")?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let target = TargetDirectory::of(parent).with_context(shown)?;
    let relative_path =
        RelativePath::default().join(name.as_encoded_bytes()).context("the destination has no file name")?;
    Ok((target, relative_path))
}

fn copy_error(path: &[u8]) -> String {
    format!("could not write the copy of `{}`", escape_control(&String::from_utf8_lossy(path)))
}

#[cfg(test)]
mod tests;
