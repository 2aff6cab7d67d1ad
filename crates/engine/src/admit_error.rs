//! Why a create request was not admitted.

use pinfold_lifecycle::{HostShortage, QueueId};
use pinfold_store::{CreateError, QueueOutcome, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error("the host has no room for another sandbox")]
    NoRoom(#[source] HostShortage),
    #[error("queue id {id} is already in use")]
    QueueIdExists { id: QueueId },
    #[error("queue timeout after {} ms", .0.waited_ms)]
    Waited(QueueWaitEnded),
}

/// The end of a queue wait without admission.
#[derive(Debug)]
pub struct QueueWaitEnded {
    pub end: QueueOutcome,
    pub waited_ms: u64,
    /// The last known position. None: the wait ended before the queue was read.
    pub position: Option<u64>,
    /// The shortage that kept the request waiting.
    pub why: Box<AdmitError>,
}

impl From<StoreError> for AdmitError {
    fn from(error: StoreError) -> Self {
        Self::Create(error.into())
    }
}

impl AdmitError {
    /// Whether the same request may succeed later, when room is freed.
    pub(crate) fn is_no_room(&self) -> bool {
        matches!(self, Self::NoRoom(_) | Self::Create(CreateError::AdmissionRefused(_)))
    }
}
