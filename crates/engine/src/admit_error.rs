//! Why somebody who asked for a sandbox got none.

use pinfold_lifecycle::{NoRoom, PlaceId};
use pinfold_store::{CreateError, PlaceEnd, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error("the host has no room for another sandbox")]
    NoRoom(#[source] NoRoom),
    #[error("the id {id} of a place in the queue was used before")]
    PlaceExists { id: PlaceId },
    #[error("nobody was let in after {} ms in the queue", .0.waited_ms)]
    Waited(NotAdmitted),
}

/// Somebody who waited in vain.
#[derive(Debug)]
pub struct NotAdmitted {
    pub end: PlaceEnd,
    pub waited_ms: u64,
    /// The last one that it was told. None: it was over before that.
    pub position: Option<u64>,
    /// What it waited for.
    pub why: Box<AdmitError>,
}

impl From<StoreError> for AdmitError {
    fn from(error: StoreError) -> Self {
        Self::Create(error.into())
    }
}

impl AdmitError {
    /// Whether there may be room later.
    pub(crate) fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::NoRoom(_) | Self::Create(CreateError::Scarce(_)))
    }
}
