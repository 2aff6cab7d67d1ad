//! Images as other programs write them, in a directory: an OCI layout, or what `docker save` wrote.
//! All of it is text of strangers. Files are found without leaving the directory, and read up to a bound.
//!
//! The few fields that are needed have structs of their own here: what is not named is not parsed, and a crate for
//! the whole format would bring far more code to where hostile text is read.

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

/// Manifests and configurations are small.
const LONGEST_TEXT: u64 = 4 << 20;

/// What is to be unpacked, and what it is to become.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) id: ImageId,
    pub(crate) created: Option<String>,
    pub(crate) settings: Settings,
    /// Lowest first, as they were made.
    pub(crate) layers: Vec<LayerFile>,
}

#[derive(Debug)]
pub(crate) struct LayerFile {
    pub(crate) path: String,
    /// Of the file, if the manifest says.
    pub(crate) digest: Option<LayerId>,
    pub(crate) size: Option<u64>,
    /// Of what is in it, decompressed.
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
    #[error("`{path}` is not what it should be")]
    Format { path: String, source: serde_json::Error },
    #[error("`{path}` has the digest {found} instead of {wanted}")]
    Digest { path: String, wanted: Digest, found: Digest },
    #[error("`{path}` has {found} bytes instead of {wanted}")]
    Size { path: String, wanted: u64, found: u64 },
    #[error("it has no image for {wanted}, only for {found}")]
    OtherPlatform { wanted: String, found: String },
    #[error("it holds {count} images: save one at a time")]
    Several { count: usize },
    #[error("it holds no image")]
    Empty,
    #[error("its indexes are nested deeper than {most}")]
    Nested { most: usize },
    #[error("its configuration names {named} layers and its manifest {listed}")]
    LayerCount { named: usize, listed: usize },
    #[error("it has {count} layers, {most} are allowed")]
    TooManyLayers { count: usize, most: usize },
    #[error("the {field} of its configuration is not allowed: {why}")]
    Setting { field: &'static str, why: &'static str },
}

/// A directory whose paths cannot lead out of it.
pub(crate) struct Confines {
    directory: OwnedFd,
}

impl Confines {
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self { directory }
    }

    /// The image in it, or none if it is not one of these formats but a plain directory.
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

    /// Opens a file. Links are followed as long as they stay inside: `docker save` makes such.
    pub(crate) fn open(&self, path: &str) -> Result<(File, u64), BundleError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
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

    /// The same, or nothing if there is no such file.
    fn text_if_there(&self, path: &str) -> Result<Option<Vec<u8>>, BundleError> {
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

/// Refuses text that is not what it is called.
fn verify(path: &str, text: &[u8], wanted: &Digest) -> Result<(), BundleError> {
    let found = Digest::of(text);
    if found == *wanted {
        return Ok(());
    }
    Err(BundleError::Digest { path: path.to_owned(), wanted: wanted.clone(), found })
}
