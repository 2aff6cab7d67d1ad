//! The images of one directory. Any number of processes may use it at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::import::{self, ImportError};
use crate::remove::{self, RemoveError, Removed};
use crate::shelf::{Shelf, ShelfError};
use crate::{Image, ImageId, ImageName, Limits};

#[derive(Debug, Clone)]
pub struct Images {
    pub(crate) shelf: Shelf,
    pub(crate) unpacker: Unpacker,
    pub(crate) limits: Limits,
}

/// A program that hands its last argument to [`crate::unpack::run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacker {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

#[derive(Debug, thiserror::Error)]
#[error("could not open the images in `{}`", directory.display())]
pub struct OpenError {
    directory: PathBuf,
    source: ShelfError,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no image `{asked}`")]
    Missing { asked: String },
    #[error("`{asked}` is the beginning of several images' ids")]
    Ambiguous { asked: String },
    #[error("could not look for `{asked}`")]
    Shelf { asked: String, source: ShelfError },
}

/// Fewer digits of an id are more likely a name.
const FEWEST_DIGITS: usize = 6;

impl Images {
    /// Opens the directory, which is made if it is missing, and clears away what a crash left in it.
    pub fn open(directory: impl Into<PathBuf>, unpacker: Unpacker) -> Result<Self, OpenError> {
        let directory = directory.into();
        let opened = Shelf::open(directory.clone()).and_then(|shelf| {
            shelf.sweep()?;
            Ok(Self { shelf, unpacker, limits: Limits::default() })
        });
        opened.map_err(|source| OpenError { directory, source })
    }

    /// The same with other limits for what is imported from now on.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Imports a directory, a tar archive, an OCI layout or what `docker save` wrote; which one is told by what is in
    /// it. The image appears whole or not at all. To import the same again under the same name changes nothing.
    pub fn import(&self, source: &Path, name: &str) -> Result<Image, ImportError> {
        import::import(self, source, name)
    }

    /// Every image, by name.
    pub fn list(&self) -> Result<Vec<Image>, ShelfError> {
        self.shelf.images()
    }

    /// By name, by id, or by the first digits of an id, at least six.
    pub fn find(&self, asked: &str) -> Result<Image, FindError> {
        let shown = || asked.escape_debug().to_string();
        let shelf_failed = |source| FindError::Shelf { asked: shown(), source };
        if let Ok(name) = asked.parse::<ImageName>()
            && let Some(image) = self.shelf.image(&name).map_err(shelf_failed)?
        {
            return Ok(image);
        }
        let missing = || FindError::Missing { asked: shown() };
        let digits = asked.strip_prefix("sha256:").unwrap_or(asked);
        if digits.len() < FEWEST_DIGITS {
            return Err(missing());
        }
        let mut images = self.shelf.images().map_err(shelf_failed)?;
        images.retain(|image| image.id.hex().starts_with(digits));
        match images.as_slice() {
            [] => Err(missing()),
            [first, rest @ ..] if rest.iter().all(|image| image.id == first.id) => Ok(images.swap_remove(0)),
            _ => Err(FindError::Ambiguous { asked: shown() }),
        }
    }

    /// The roots of an image's layers, topmost first.
    pub fn layers(&self, id: &ImageId) -> Result<Vec<PathBuf>, FindError> {
        let image = self.find(&id.to_string())?;
        Ok(image.layers.iter().map(|layer| self.shelf.layer_root(layer)).collect())
    }

    /// Takes away a name, and with the last name of an image the layers that no other image has.
    ///
    /// `holders` says who uses an image. It is asked while nothing else can change here, and only about the last name
    /// of an image. A user has to be known to it before it asks for the image's layers.
    pub fn remove(
        &self,
        name: &str,
        holders: impl FnOnce(&ImageId) -> Vec<String>,
    ) -> Result<Removed, RemoveError> {
        remove::remove(self, name, holders)
    }
}
