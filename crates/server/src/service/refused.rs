//! Why somebody got no sandbox, as users are told: with the figures, and when another try may help.

use pinfold_api::ErrorCode;
use pinfold_engine::{AdmitError, NotAdmitted};
use pinfold_lifecycle::{Cleared, NoRoom};
use pinfold_store::PlaceEnd;

use super::Failure;

/// The host seldom has more room a second later.
const LATER_MS: u64 = 10_000;

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Self {
        match error {
            AdmitError::Create(error) => error.into(),
            AdmitError::NoRoom(no_room) => no_room.into(),
            exists @ AdmitError::PlaceExists { .. } => Self::bad_input("ticket", exists),
            AdmitError::Waited(not) => not.into(),
        }
    }
}

impl From<NoRoom> for Failure {
    fn from(no_room: NoRoom) -> Self {
        let told = |code| Self::new(code, no_room.to_string()).retry_after_ms(LATER_MS);
        match &no_room {
            NoRoom::LowDisk { available_mb, needed_mb, cleared: Cleared { cleaned, skipped, .. } } => {
                told(ErrorCode::LowCapacity)
                    .with("resource", "disk")
                    .with("available_mb", *available_mb)
                    .with("needed_mb", *needed_mb)
                    .with("cleaned", *cleaned)
                    .with("skipped", *skipped)
            }
            NoRoom::LowMemory { available_mb, needed_mb } => told(ErrorCode::LowCapacity)
                .with("resource", "memory")
                .with("available_mb", *available_mb)
                .with("needed_mb", *needed_mb),
            NoRoom::LowProcesses { available, needed } => told(ErrorCode::LowCapacity)
                .with("resource", "processes")
                .with("available", *available)
                .with("needed", *needed),
            NoRoom::Unmeasurable { what } => {
                told(ErrorCode::CapacityUnmeasurable).with("what", what.as_str())
            }
            NoRoom::Unusable { why } => told(ErrorCode::FilesystemUnusable).with("why", why.as_str()),
        }
    }
}

impl From<NotAdmitted> for Failure {
    fn from(not: NotAdmitted) -> Self {
        let NotAdmitted { end, waited_ms, position, why } = not;
        let told = match end {
            PlaceEnd::Expired => Self::from(*why),
            PlaceEnd::Cancelled | PlaceEnd::Refused | PlaceEnd::Abandoned | PlaceEnd::Admitted(_) => {
                Self::new(ErrorCode::LeftQueue, "the place in the queue was given up before there was room")
            }
        };
        let told = told.with("waited_ms", waited_ms);
        match position {
            Some(position) => told.with("position", position),
            None => told,
        }
    }
}
