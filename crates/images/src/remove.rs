//! Removes an image that is not in use.

use crate::layer_store::LayerStoreError;
use crate::{ImageId, ImageName, Images, NameError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    pub id: ImageId,
    /// This was the last name: the image and its unshared layers are deleted.
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
    Store { name: ImageName, source: LayerStoreError },
}

pub(crate) fn remove(
    images: &Images,
    name: &str,
    users_of: impl FnOnce(&ImageId) -> Vec<String>,
) -> Result<Removed, RemoveError> {
    let name: ImageName = name.parse()?;
    let failed = |source| RemoveError::Store { name: name.clone(), source };
    let (id, last_name, garbage) = {
        let locked = images.store.lock().map_err(failed)?;
        let Some(image) = images.store.image(&name).map_err(failed)? else {
            return Err(RemoveError::Missing { name });
        };
        let names = images.store.images().map_err(failed)?;
        let last_name = names.iter().filter(|other| other.id == image.id).count() == 1;
        let by = if last_name { users_of(&image.id) } else { vec![] };
        if !by.is_empty() {
            return Err(RemoveError::InUse { name, by });
        }
        locked.remove_name(&name).map_err(failed)?;
        (image.id, last_name, locked.take_unreferenced_layers().map_err(failed)?)
    };
    if let Some(garbage) = garbage {
        garbage.delete().map_err(failed)?;
    }
    Ok(Removed { id, last_name })
}
