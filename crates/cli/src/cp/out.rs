//! Out of a sandbox. Nothing that is told from inside is trusted.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use pinfold_api::FileKind;

use super::Copied;
use super::inside::{Inside, Told, below, last_name};
use super::outside::{Ground, Spot};
use crate::table::harmless;

pub(super) async fn to_pipe(inside: &dyn Inside, from: &[u8]) -> anyhow::Result<Copied> {
    let mut content = inside.read(from).await?;
    let mut copied = Copied { files: 1, ..Copied::default() };
    let mut pipe = io::stdout();
    while let Some(piece) = content.pieces.next().await? {
        pipe.write_all(&piece).context("could not write to standard output")?;
        copied.bytes += piece.len() as u64;
    }
    pipe.flush().context("could not write to standard output")?;
    Ok(copied)
}

pub(super) async fn to_path(inside: &dyn Inside, from: &[u8], to: &Path) -> anyhow::Result<Copied> {
    let told = inside.stat(from).await?;
    let mut copied = Copied::default();
    let (ground, spot) = landing(from, to)?;
    let mut unfinished = Vec::new();
    let mut left = vec![(from.to_vec(), spot, told)];
    while let Some((path, spot, told)) = left.pop() {
        match told.kind {
            FileKind::File => {
                copied.bytes += copy_file(inside, &ground, &path, &spot, &told).await?;
                copied.files += 1;
            }
            FileKind::Link => {
                ground.make_link(&spot, &told.target).with_context(|| here(&path))?;
                copied.links += 1;
            }
            FileKind::Directory => {
                if spot != Spot::default() {
                    ground.make_directory(&spot).with_context(|| here(&path))?;
                    unfinished.push((spot.clone(), told.mode));
                }
                copied.directories += 1;
                left.extend(entries(inside, &path, &spot).await?);
            }
            FileKind::Pipe | FileKind::Socket | FileKind::Device => {
                copied.left_out.push(String::from_utf8_lossy(&path).into_owned());
            }
        }
    }
    // The innermost first: after it, a directory may not let anybody in.
    for (spot, mode) in unfinished.into_iter().rev() {
        ground.set_mode(&spot, mode).context("could not set the mode of a directory")?;
    }
    Ok(copied)
}

async fn entries(
    inside: &dyn Inside,
    path: &[u8],
    spot: &Spot,
) -> anyhow::Result<Vec<(Vec<u8>, Spot, Told)>> {
    let mut found = Vec::new();
    for entry in inside.list(path).await? {
        let Some(spot) = spot.below(&entry.name) else {
            bail!(
                "a name from inside would lead elsewhere: `{}`",
                harmless(&String::from_utf8_lossy(&entry.name))
            );
        };
        found.push((below(path, &entry.name), spot, entry.told));
    }
    Ok(found)
}

async fn copy_file(
    inside: &dyn Inside,
    ground: &Ground,
    path: &[u8],
    spot: &Spot,
    told: &Told,
) -> anyhow::Result<u64> {
    let mut content = inside.read(path).await?;
    let mut draft = ground.draft(spot).with_context(|| here(path))?;
    let mut bytes = 0;
    while let Some(piece) = content.pieces.next().await? {
        draft.write(&piece).with_context(|| here(path))?;
        bytes += piece.len() as u64;
    }
    draft.put(content.mode.unwrap_or(told.mode)).with_context(|| here(path))?;
    Ok(bytes)
}

/// Where it lands: in a directory that is there, under its own name, or else as what was named.
fn landing(from: &[u8], to: &Path) -> anyhow::Result<(Ground, Spot)> {
    let shown = || format!("could not use `{}`", to.display());
    if let Ok(there) = fs::metadata(to) {
        if there.is_dir() {
            let ground = Ground::of(to).with_context(shown)?;
            // What has no name of its own, such as a root, is spread out there.
            let spot = last_name(from).and_then(|name| Spot::default().below(name)).unwrap_or_default();
            return Ok((ground, spot));
        }
        if !there.is_file() {
            bail!("`{}` is neither a file nor a directory; copy to `-` and redirect that", to.display());
        }
    }
    // A link to a file is the file, as everywhere.
    let to = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
    let name = to.file_name().context("it has no name")?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let ground = Ground::of(parent).with_context(shown)?;
    let spot = Spot::default().below(name.as_encoded_bytes()).context("it has no name")?;
    Ok((ground, spot))
}

fn here(path: &[u8]) -> String {
    format!("could not make what `{}` is copied to", harmless(&String::from_utf8_lossy(path)))
}

#[cfg(test)]
mod tests;
