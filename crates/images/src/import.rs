//! Imports an image. Layers are built in a staging directory and renamed into place at the end.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::bundle::{Bundle, BundleDirectory, BundleError, LayerFile};
use crate::layer_store::{LayerRecord, LayerStoreError, StagingDirectory};
use crate::tar_writer::write_tar;
use crate::unpack::{LAYER_IDS_FIRST, Unpacked};
use crate::unpacker_process::{ArchiveWriter, UnpackError, unpack_into};
use crate::{Digest, Image, ImageId, ImageName, Images, LayerId, Limits, NameError, Refusal, Settings};

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("image `{name}` already exists with other content ({}); remove it first", id.short())]
    NameTaken { name: ImageName, id: ImageId },
    #[error("could not open `{}`", source_path.display())]
    Open { source_path: PathBuf, source: io::Error },
    #[error("`{}` is neither a file nor a directory", source_path.display())]
    NeitherFileNorDirectory { source_path: PathBuf },
    #[error("could not read {what}")]
    Read { what: String, source: io::Error },
    #[error("refused {what}")]
    Refused { what: String, source: Refusal },
    #[error("refused the image")]
    Bundle(#[source] BundleError),
    #[error("refused {what}: the content has the digest {found} instead of {wanted}")]
    Content { what: String, wanted: Digest, found: Digest },
    #[error("unpacking {what} took longer than {seconds} seconds")]
    TooSlow { what: String, seconds: u64 },
    #[error("could not start the unpacker")]
    Unpacker { source: io::Error },
    #[error(
        "the unpacker of {what} exited without a report ({status}); it may have run out of memory or CPU time"
    )]
    UnpackerDied { what: String, status: String },
    #[error("could not store the image")]
    Store(#[from] LayerStoreError),
}

pub(crate) fn import(images: &Images, source: &Path, name: &str) -> Result<Image, ImportError> {
    let name: ImageName = name.parse()?;
    let opened = |source_error| ImportError::Open { source_path: source.to_owned(), source: source_error };
    // Opening a FIFO would block.
    let kind = std::fs::metadata(source).map_err(opened)?;
    if !kind.is_file() && !kind.is_dir() {
        return Err(ImportError::NeitherFileNorDirectory { source_path: source.to_owned() });
    }
    let file = File::open(source).map_err(opened)?;
    images.store.sweep()?;
    let staging = images.store.lock()?.new_staging()?;
    let run = ImportRun { images, staging: &staging };
    let prepared = if kind.is_dir() { run.directory(file.into()) } else { run.archive(file) };
    let published = prepared.and_then(|prepared| run.publish(&name, prepared));
    // Delete the rest of the staging directory, also after a failure. If this fails, the next sweep deletes it.
    let deleted = staging.delete();
    let image = published?;
    deleted?;
    Ok(image)
}

struct ImportRun<'a> {
    images: &'a Images,
    staging: &'a StagingDirectory,
}

/// A complete image that is not published yet.
struct PreparedImage {
    id: ImageId,
    created: Option<String>,
    settings: Settings,
    /// Bottom layer first.
    layers: Vec<PreparedLayer>,
    /// Source for unpacking layers again, if another process removes shared ones before the image is published.
    bundle_source: Option<(BundleDirectory, Bundle)>,
}

struct PreparedLayer {
    id: LayerId,
    record: LayerRecord,
    /// Its staging directory. `None`: the store already had the layer.
    staged: Option<PathBuf>,
}

impl ImportRun<'_> {
    fn limits(&self) -> &Limits {
        &self.images.limits
    }

    fn directory(&self, directory: OwnedFd) -> Result<PreparedImage, ImportError> {
        let read = |error: io::Error| ImportError::Read { what: "the directory".to_owned(), source: error };
        let bundle_directory = BundleDirectory::new(directory.try_clone().map_err(read)?);
        if let Some(bundle) = bundle_directory.bundle(self.limits().layers).map_err(ImportError::Bundle)? {
            return self.bundle(bundle_directory, bundle);
        }
        let depth = self.limits().depth;
        let layer = self.unpack("directory", "the directory", self.limits(), |archive| {
            write_tar(&directory, depth, archive)
        })?;
        Ok(single_layer_image(layer))
    }

    /// Unpacks the archive, then looks inside: the content decides whether it is a root filesystem or a bundle of layers.
    fn archive(&self, mut file: File) -> Result<PreparedImage, ImportError> {
        let layer = self.unpack("archive", "the archive", self.limits(), |archive| {
            io::copy(&mut file, archive).map(drop)
        })?;
        let root = layer.staged.as_ref().map(|layer| layer.join("root")).unwrap_or_default();
        let opened = File::open(&root);
        let opened = opened.map_err(|source| ImportError::Read { what: "the archive".to_owned(), source })?;
        let bundle_directory = BundleDirectory::new(opened.into());
        match bundle_directory.bundle(self.limits().layers).map_err(ImportError::Bundle)? {
            Some(bundle) => self.bundle(bundle_directory, bundle),
            None => Ok(single_layer_image(layer)),
        }
    }

    fn bundle(
        &self,
        bundle_directory: BundleDirectory,
        bundle: Bundle,
    ) -> Result<PreparedImage, ImportError> {
        let layers = self.layers(&bundle_directory, &bundle, 0)?;
        let (id, created, settings) = (bundle.id.clone(), bundle.created.clone(), bundle.settings.clone());
        Ok(PreparedImage { id, created, settings, layers, bundle_source: Some((bundle_directory, bundle)) })
    }

    /// Prepares all layers, bottom first. Layers that the store has are not unpacked again.
    fn layers(
        &self,
        bundle_directory: &BundleDirectory,
        bundle: &Bundle,
        attempt: usize,
    ) -> Result<Vec<PreparedLayer>, ImportError> {
        let mut left = self.limits().total_bytes;
        let mut layers: Vec<PreparedLayer> = Vec::new();
        for (number, file) in bundle.layers.iter().enumerate() {
            let there = match &file.digest {
                Some(id) => self.images.store.layer(id)?.map(|record| (id.clone(), record)),
                None => None,
            };
            let ready = match there {
                Some((id, record)) => PreparedLayer { id, record, staged: None },
                None => self.layer(bundle_directory, file, &format!("layer-{attempt}-{number}"), left)?,
            };
            if ready.record.content != file.content {
                let (wanted, found) = (file.content.clone(), ready.record.content);
                return Err(ImportError::Content { what: file.path.clone(), wanted, found });
            }
            left = left.checked_sub(ready.record.archive_bytes).ok_or_else(|| ImportError::Refused {
                what: "the image".to_owned(),
                source: Refusal::TooManyBytes { most: self.limits().total_bytes },
            })?;
            if ready.record.hides_all_below {
                layers.clear();
            }
            layers.push(ready);
        }
        Ok(layers)
    }

    fn layer(
        &self,
        bundle_directory: &BundleDirectory,
        file: &LayerFile,
        name: &str,
        left: u64,
    ) -> Result<PreparedLayer, ImportError> {
        let (mut opened, size) = bundle_directory.open(&file.path).map_err(ImportError::Bundle)?;
        if let Some(wanted) = file.size.filter(|wanted| *wanted != size) {
            let path = file.path.clone();
            return Err(ImportError::Bundle(BundleError::Size { path, wanted, found: size }));
        }
        let limits = Limits { total_bytes: left, ..self.limits().clone() };
        let ready =
            self.unpack(name, &format!("layer `{}`", file.path.escape_debug()), &limits, |archive| {
                io::copy(&mut opened, archive).map(drop)
            })?;
        match &file.digest {
            Some(wanted) if *wanted != ready.id => Err(ImportError::Bundle(BundleError::Digest {
                path: file.path.clone(),
                wanted: wanted.clone(),
                found: ready.id,
            })),
            _ => Ok(ready),
        }
    }

    /// Unpacks one archive into a new layer.
    fn unpack(
        &self,
        name: &str,
        what: &str,
        limits: &Limits,
        write: impl FnOnce(&mut ArchiveWriter) -> io::Result<()>,
    ) -> Result<PreparedLayer, ImportError> {
        let (layer, root) = self.staging.new_layer(name)?;
        chown_to_layer_ids(&root).map_err(|source| ImportError::Unpacker { source })?;
        let unpacked = unpack_into(&root, &self.staging.lock, &self.images.unpacker, limits, write);
        let (unpacked, id) = unpacked.map_err(|error| import_error(error, what))?;
        let Unpacked { content, archive_bytes, bytes, left_out, hides_all_below } = unpacked;
        let record = LayerRecord { content, archive_bytes, bytes, left_out, hides_all_below };
        self.staging.write_record(&layer, &record)?;
        Ok(PreparedLayer { id, record, staged: Some(layer) })
    }

    fn publish(&self, name: &ImageName, mut prepared: PreparedImage) -> Result<Image, ImportError> {
        let mut attempt = 0;
        loop {
            let locked = self.images.store.lock()?;
            match self.images.store.image(name)? {
                Some(there) if there.id == prepared.id => return Ok(there),
                Some(there) => return Err(ImportError::NameTaken { name: name.clone(), id: there.id }),
                None => {}
            }
            let mut missing = false;
            for layer in &prepared.layers {
                match &layer.staged {
                    Some(staged) => locked.publish_layer(&layer.id, staged)?,
                    None => missing |= self.images.store.layer(&layer.id)?.is_none(),
                }
            }
            match &prepared.bundle_source {
                // Another process removed a shared layer while this import ran: unpack it from the bundle.
                Some((bundle_directory, bundle)) if missing => {
                    drop(locked);
                    attempt += 1;
                    prepared.layers = self.layers(bundle_directory, bundle, attempt)?;
                }
                _ => return Ok(locked.publish_image(&image(name, &prepared), self.staging)?),
            }
        }
    }
}

fn image(name: &ImageName, prepared: &PreparedImage) -> Image {
    let record = || prepared.layers.iter().map(|layer| &layer.record);
    Image {
        name: name.clone(),
        id: prepared.id.clone(),
        layers: prepared.layers.iter().rev().map(|layer| layer.id.clone()).collect(),
        bytes: record().map(|record| record.bytes).sum(),
        created: prepared.created.clone(),
        imported_ms: 0,
        settings: prepared.settings.clone(),
        left_out: record().map(|record| record.left_out).sum(),
    }
}

/// An image with a single layer and no settings.
fn single_layer_image(layer: PreparedLayer) -> PreparedImage {
    let id = layer.id.clone();
    PreparedImage {
        id,
        created: None,
        settings: Settings::default(),
        layers: vec![layer],
        bundle_source: None,
    }
}

/// As root: gives the directory to the layer id range, so that uid 0 in the unpacker owns it.
fn chown_to_layer_ids(root: &Path) -> io::Result<()> {
    if !rustix::process::getuid().is_root() {
        return Ok(());
    }
    std::os::unix::fs::chown(root, Some(LAYER_IDS_FIRST), Some(LAYER_IDS_FIRST))
}

fn import_error(error: UnpackError, what: &str) -> ImportError {
    let what = what.to_owned();
    match error {
        UnpackError::Start { source } => ImportError::Unpacker { source },
        UnpackError::Read { source } => ImportError::Read { what, source },
        UnpackError::Refused { refusal } => ImportError::Refused { what, source: refusal },
        UnpackError::TooSlow { seconds } => ImportError::TooSlow { what, seconds },
        UnpackError::NoReport { status } => ImportError::UnpackerDied { what, status },
    }
}
