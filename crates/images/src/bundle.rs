//! Reads images in a directory as other tools write them: an OCI layout, or the output of `docker save`.
//! All of it is untrusted. Paths are resolved beneath the directory, and files are read up to a size limit.
//!
//! This module declares structs for the few fields it needs. Other fields are not parsed: a crate for the whole format
//! would add far more code that reads hostile input.

mod config;
mod docker;
mod oci;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::{Digest, ImageId, LayerId, Settings};

/// Size limit of manifests and configurations, which are small.
const LONGEST_TEXT: u64 = 4 << 20;

/// An image found in a directory: its layer files and its settings.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) id: ImageId,
    pub(crate) created: Option<String>,
    pub(crate) settings: Settings,
    /// Bottom layer first, in build order.
    pub(crate) layers: Vec<LayerFile>,
}

#[derive(Debug)]
pub(crate) struct LayerFile {
    pub(crate) path: String,
    /// Digest of the file, if the manifest gives one.
    pub(crate) digest: Option<LayerId>,
    pub(crate) size: Option<u64>,
    /// Digest of the decompressed file.
    pub(crate) content: Digest,
}

#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("could not read `{path}`")]
    Read { path: String, source: io::Error },
    #[error("`{path}` is missing")]
    Missing { path: String },
    #[error("`{path}` is not a file")]
    NotAFile { path: String },
    #[error("`{path}` is larger than the {LONGEST_TEXT} bytes that are allowed")]
    TooLong { path: String },
    #[error("`{path}` does not have the expected format")]
    Format { path: String, source: serde_json::Error },
    #[error("`{path}` has the digest {found} instead of {wanted}")]
    Digest { path: String, wanted: Digest, found: Digest },
    #[error("`{path}` has {found} bytes instead of {wanted}")]
    Size { path: String, wanted: u64, found: u64 },
    #[error("there is no image for {wanted}, only for {found}")]
    OtherPlatform { wanted: String, found: String },
    #[error("the source holds {count} images: save one at a time")]
    Several { count: usize },
    #[error("the source holds no image")]
    Empty,
    #[error("indexes are nested deeper than {most} levels")]
    Nested { most: usize },
    #[error("the configuration names {named} layers but the manifest {listed}")]
    LayerCount { named: usize, listed: usize },
    #[error("the image has {count} layers, at most {most} are allowed")]
    TooManyLayers { count: usize, most: usize },
    #[error("the {field} of its configuration is invalid: {why}")]
    Setting { field: &'static str, why: &'static str },
}

/// A directory in which paths are resolved without leaving it.
pub(crate) struct BundleDirectory {
    directory: OwnedFd,
}

impl BundleDirectory {
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self { directory }
    }

    /// Reads the image in it. `None`: a plain directory, in neither format.
    pub(crate) fn bundle(&self, most_layers: usize) -> Result<Option<Bundle>, BundleError> {
        let bundle = match oci::read(self)? {
            Some(bundle) => Some(bundle),
            None => docker::read(self)?,
        };
        match &bundle {
            Some(bundle) if bundle.layers.len() > most_layers => {
                Err(BundleError::TooManyLayers { count: bundle.layers.len(), most: most_layers })
            }
            _ => Ok(bundle),
        }
    }

    /// Opens a file and returns its size. Symbolic links are followed beneath the directory: `docker save` writes such.
    pub(crate) fn open(&self, path: &str) -> Result<(File, u64), BundleError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        // Refuse every path component that leads out of the directory.
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = match openat2(&self.directory, path, flags, Mode::empty(), inside) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(BundleError::Missing { path: path.to_owned() }),
            Err(errno) => return Err(BundleError::Read { path: path.to_owned(), source: errno.into() }),
        };
        let found = fstat(&file)
            .map_err(|errno| BundleError::Read { path: path.to_owned(), source: errno.into() })?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(BundleError::NotAFile { path: path.to_owned() });
        }
        Ok((file.into(), found.st_size.unsigned_abs()))
    }

    fn text(&self, path: &str) -> Result<Vec<u8>, BundleError> {
        let (file, _) = self.open(path)?;
        let mut text = Vec::new();
        let read = file.take(LONGEST_TEXT + 1).read_to_end(&mut text);
        read.map_err(|source| BundleError::Read { path: path.to_owned(), source })?;
        if text.len() as u64 > LONGEST_TEXT {
            return Err(BundleError::TooLong { path: path.to_owned() });
        }
        Ok(text)
    }

    /// Like `text`, with `None` if there is no such file.
    fn text_if_present(&self, path: &str) -> Result<Option<Vec<u8>>, BundleError> {
        match self.text(path) {
            Ok(text) => Ok(Some(text)),
            Err(BundleError::Missing { .. } | BundleError::NotAFile { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn parse<T: DeserializeOwned>(path: &str, text: &[u8]) -> Result<T, BundleError> {
    serde_json::from_slice(text).map_err(|source| BundleError::Format { path: path.to_owned(), source })
}

/// Refuses a file whose content does not have the digest that names it.
fn verify(path: &str, text: &[u8], wanted: &Digest) -> Result<(), BundleError> {
    let found = Digest::of(text);
    if found == *wanted {
        return Ok(());
    }
    Err(BundleError::Digest { path: path.to_owned(), wanted: wanted.clone(), found })
}
