//! Errors of admission as API failures, with the measured values and a retry hint.

use pinfold_api::ErrorCode;
use pinfold_engine::{AdmitError, QueueWaitEnded};
use pinfold_lifecycle::{HostShortage, StaleDataCleanup};
use pinfold_store::QueueOutcome;

use super::Failure;

/// Host capacity seldom changes within a second.
const LATER_MS: u64 = 10_000;

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Self {
        match error {
            AdmitError::Create(error) => error.into(),
            AdmitError::NoRoom(no_room) => no_room.into(),
            exists @ AdmitError::QueueIdExists { .. } => Self::bad_input("queue_id", exists),
            AdmitError::Waited(not) => not.into(),
        }
    }
}

impl From<HostShortage> for Failure {
    fn from(no_room: HostShortage) -> Self {
        let failure = |code| Self::new(code, no_room.to_string()).retry_after_ms(LATER_MS);
        match &no_room {
            HostShortage::LowDisk {
                available_mb,
                needed_mb,
                cleared: StaleDataCleanup { cleaned, skipped, .. },
            } => failure(ErrorCode::LowCapacity)
                .with("resource", "disk")
                .with("available_mb", *available_mb)
                .with("needed_mb", *needed_mb)
                .with("cleaned", *cleaned)
                .with("skipped", *skipped),
            HostShortage::LowMemory { available_mb, needed_mb } => failure(ErrorCode::LowCapacity)
                .with("resource", "memory")
                .with("available_mb", *available_mb)
                .with("needed_mb", *needed_mb),
            HostShortage::LowProcesses { available, needed } => failure(ErrorCode::LowCapacity)
                .with("resource", "processes")
                .with("available", *available)
                .with("needed", *needed),
            HostShortage::Unmeasurable { what } => {
                failure(ErrorCode::CapacityUnmeasurable).with("what", what.as_str())
            }
            HostShortage::Unusable { why } => {
                failure(ErrorCode::FilesystemUnusable).with("why", why.as_str())
            }
        }
    }
}

impl From<QueueWaitEnded> for Failure {
    fn from(not: QueueWaitEnded) -> Self {
        let QueueWaitEnded { end, waited_ms, position, why } = not;
        let failure = match end {
            QueueOutcome::Expired => Self::from(*why),
            QueueOutcome::Cancelled
            | QueueOutcome::Refused
            | QueueOutcome::Abandoned
            | QueueOutcome::Admitted(_) => {
                Self::new(ErrorCode::LeftQueue, "the queue entry was cancelled before there was room")
            }
        };
        let failure = failure.with("waited_ms", waited_ms);
        match position {
            Some(position) => failure.with("position", position),
            None => failure,
        }
    }
}
