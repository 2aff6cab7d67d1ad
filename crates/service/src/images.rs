//! Images: list, import and remove.

use std::path::PathBuf;

use pinfold_api::{self as api, ErrorCode, ImageRemoved};
use pinfold_images::{ImageId, ImportError, LayerStoreError, RemoveError};
use pinfold_lifecycle::Timestamp;
use pinfold_store::Row;

use super::convert::rfc3339;
use super::{Failure, Service};

impl Service {
    pub async fn images(&self) -> Result<Vec<api::Image>, Failure> {
        let images = self.host.images().map_err(Failure::internal)?;
        let listed = tokio::task::spawn_blocking(move || images.list()).await.map_err(Failure::internal)?;
        Ok(listed.map_err(Failure::internal)?.iter().map(view).collect())
    }

    /// Imports an archive from a file of this host.
    pub async fn import_image(&self, archive: PathBuf, name: String) -> Result<api::Image, Failure> {
        let images = self.host.images().map_err(Failure::internal)?;
        let imported = tokio::task::spawn_blocking(move || images.import(&archive, &name)).await;
        imported.map_err(Failure::internal)?.as_ref().map(view).map_err(not_imported)
    }

    /// Removes an image. Refused while a sandbox that is not proven gone may use it.
    pub async fn remove_image(&self, name: String) -> Result<ImageRemoved, Failure> {
        let images = self.host.images().map_err(Failure::internal)?;
        let rows = self.leased().await?;
        let asked = name.clone();
        let removed =
            tokio::task::spawn_blocking(move || images.remove(&asked, |id| holders(&rows, id))).await;
        let removed = removed.map_err(Failure::internal)?.map_err(not_removed)?;
        Ok(ImageRemoved { name, id: removed.id.to_string(), last_name: removed.last_name })
    }
}

fn view(image: &pinfold_images::Image) -> api::Image {
    api::Image {
        name: image.name.to_string(),
        id: image.id.to_string(),
        layers: image.layers.len() as u64,
        bytes: image.bytes,
        imported_at: rfc3339(Timestamp(i64::try_from(image.imported_ms).unwrap_or(i64::MAX))),
        left_out: image.left_out,
    }
}

/// The sandboxes that may use an image. An unreadable record may use any.
fn holders(rows: &[Row], id: &ImageId) -> Vec<String> {
    let id = id.to_string();
    let holds = |row: &&Row| match row {
        Row::Readable(stored) => stored.spec.image.as_ref() == Some(&id),
        Row::Unreadable(_) => true,
    };
    rows.iter().filter(holds).map(|row| row.id().to_string()).collect()
}

fn not_imported(error: &ImportError) -> Failure {
    let message = chain(error);
    match error {
        ImportError::Name(_) => Failure::bad_input("name", message),
        ImportError::NameTaken { .. } => Failure::new(ErrorCode::WrongState, message),
        ImportError::Refused { .. }
        | ImportError::Bundle(_)
        | ImportError::Content { .. }
        | ImportError::TooSlow { .. }
        | ImportError::UnpackerDied { .. }
        | ImportError::Read { .. } => Failure::new(ErrorCode::CannotBeDone, message),
        ImportError::Open { .. }
        | ImportError::NeitherFileNorDirectory { .. }
        | ImportError::Unpacker { .. }
        | ImportError::Store(_) => Failure::internal(message),
    }
}

fn not_removed(error: RemoveError) -> Failure {
    let message = error.to_string();
    match error {
        RemoveError::Name(error) => Failure::bad_input("name", error),
        RemoveError::Missing { .. } => Failure::new(ErrorCode::UnknownImage, message),
        RemoveError::InUse { by, .. } => Failure::new(ErrorCode::WrongState, message).with("by", by),
        RemoveError::Store { source, .. } => internal(&source),
    }
}

fn internal(error: &LayerStoreError) -> Failure {
    Failure::internal(chain(error))
}

fn chain(error: &dyn std::error::Error) -> String {
    super::failure::chain(error).unwrap_or_default()
}
