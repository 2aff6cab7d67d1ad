//! Takes an image away, unless somebody uses it.

use crate::shelf::ShelfError;
use crate::{ImageId, ImageName, Images, NameError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    pub id: ImageId,
    /// Whether this was its last name, and the image is gone.
    pub last_name: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("there is no image `{name}`")]
    Missing { name: ImageName },
    #[error("image `{name}` is in use by {}", by.join(", "))]
    InUse { name: ImageName, by: Vec<String> },
    #[error("could not remove image `{name}`")]
    Shelf { name: ImageName, source: ShelfError },
}

pub(crate) fn remove(
    images: &Images,
    name: &str,
    holders: impl FnOnce(&ImageId) -> Vec<String>,
) -> Result<Removed, RemoveError> {
    let name: ImageName = name.parse()?;
    let failed = |source| RemoveError::Shelf { name: name.clone(), source };
    let (id, last_name, rubbish) = {
        let held = images.shelf.hold().map_err(failed)?;
        let Some(image) = images.shelf.image(&name).map_err(failed)? else {
            return Err(RemoveError::Missing { name });
        };
        let names = images.shelf.images().map_err(failed)?;
        let last_name = names.iter().filter(|other| other.id == image.id).count() == 1;
        let by = if last_name { holders(&image.id) } else { vec![] };
        if !by.is_empty() {
            return Err(RemoveError::InUse { name, by });
        }
        held.forget(&name).map_err(failed)?;
        (image.id, last_name, held.unnamed_layers().map_err(failed)?)
    };
    if let Some(rubbish) = rubbish {
        rubbish.clear().map_err(failed)?;
    }
    Ok(Removed { id, last_name })
}
