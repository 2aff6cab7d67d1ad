//! The images in one directory. Several processes may use the directory at the same time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::import::{self, ImportError};
use crate::layer_store::{LayerStore, LayerStoreError};
use crate::remove::{self, RemoveError, Removed};
use crate::{Image, ImageId, ImageName, Limits};

#[derive(Debug, Clone)]
pub struct Images {
    pub(crate) store: LayerStore,
    pub(crate) unpacker: Unpacker,
    pub(crate) limits: Limits,
}

/// The command line of the unpacker: a program that passes its last argument to [`crate::unpack::run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacker {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

#[derive(Debug, thiserror::Error)]
#[error("could not open the images in `{}`", directory.display())]
pub struct OpenError {
    directory: PathBuf,
    source: LayerStoreError,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no image `{query}`")]
    Missing { query: String },
    #[error("`{query}` matches the ids of several images")]
    Ambiguous { query: String },
    #[error("could not look for `{query}`")]
    Store { query: String, source: LayerStoreError },
}

/// Shorter queries are taken for names only.
const FEWEST_DIGITS: usize = 6;

impl Images {
    /// Opens the directory, creates it if missing, and deletes what crashed imports left in it.
    pub fn open(directory: impl Into<PathBuf>, unpacker: Unpacker) -> Result<Self, OpenError> {
        let directory = directory.into();
        let opened = LayerStore::open(directory.clone()).and_then(|store| {
            store.sweep()?;
            Ok(Self { store, unpacker, limits: Limits::default() })
        });
        opened.map_err(|source| OpenError { directory, source })
    }

    /// Sets the limits of later imports.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Imports a directory, a tar archive, an OCI layout or the output of `docker save`; the content decides which. The
    /// image appears complete or not at all. Importing the same content under the same name again changes nothing.
    pub fn import(&self, source: &Path, name: &str) -> Result<Image, ImportError> {
        import::import(self, source, name)
    }

    /// Lists all images, sorted by name.
    pub fn list(&self) -> Result<Vec<Image>, LayerStoreError> {
        self.store.images()
    }

    /// Finds an image by name, by id, or by at least six leading digits of an id.
    pub fn find(&self, query: &str) -> Result<Image, FindError> {
        let shown = || query.escape_debug().to_string();
        let store_failed = |source| FindError::Store { query: shown(), source };
        if let Ok(name) = query.parse::<ImageName>()
            && let Some(image) = self.store.image(&name).map_err(store_failed)?
        {
            return Ok(image);
        }
        let missing = || FindError::Missing { query: shown() };
        let digits = query.strip_prefix("sha256:").unwrap_or(query);
        if digits.len() < FEWEST_DIGITS {
            return Err(missing());
        }
        let mut images = self.store.images().map_err(store_failed)?;
        images.retain(|image| image.id.hex().starts_with(digits));
        match images.as_slice() {
            [] => Err(missing()),
            [first, rest @ ..] if rest.iter().all(|image| image.id == first.id) => Ok(images.swap_remove(0)),
            _ => Err(FindError::Ambiguous { query: shown() }),
        }
    }

    /// The root directories of an image's layers, top layer first.
    pub fn layers(&self, id: &ImageId) -> Result<Vec<PathBuf>, FindError> {
        let image = self.find(&id.to_string())?;
        Ok(image.layers.iter().map(|layer| self.store.layer_root(layer)).collect())
    }

    /// Removes a name. Removing an image's last name also deletes the layers that no other image has.
    ///
    /// `users_of` lists the users of an image. It is called under the store's lock, and only for the last name of an
    /// image. To be safe from removal a user must be in that list before it calls [`Images::layers`].
    pub fn remove(
        &self,
        name: &str,
        users_of: impl FnOnce(&ImageId) -> Vec<String>,
    ) -> Result<Removed, RemoveError> {
        remove::remove(self, name, users_of)
    }
}
