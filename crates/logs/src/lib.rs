//! The log of one sandbox: the output of its executions and the history of the control plane, merged into one order.
//! Artifacts of runs and metrics of past days lie in the same object store.
//!
//! [`Logs`] reads, follows, moves and expires logs. A reader's position is a [`Cursor`]; a page is a [`LogPage`] of
//! [`LogEntry`]s. [`Artifacts`] and [`MetricsArchive`] store objects beside the logs in one [`ObjectStorage`].
//!
//! ```text
//!   store: history records ------+
//!                                +--> merge by time --> LogEntry, LogEntry, ...     while the sandbox lives
//!   provider: output ------------+          |
//!                                           | proven gone: move_all
//!                                           v
//!   object store: segments + manifest ----------------> LogEntry, LogEntry, ...     until its retention
//! ```
//!
//! Start reading at `logs.rs`, then `cursor.rs` and `merge.rs`.

mod archive;
mod artifacts;
mod control_lines;
mod cursor;
mod entry;
mod escape;
mod follow;
mod location;
mod log_line;
mod logs;
mod merge;
mod metrics_archive;
mod mover;
mod names;
mod object_storage;
mod output;
mod page_limit;
mod retention;
mod stale_logs;
mod tail;

pub use archive::ArchiveError;
pub use artifacts::{Artifact, ArtifactContent, ArtifactError, ArtifactLimits, Artifacts};
pub use cursor::{Cursor, CursorError};
pub use entry::{EntryContent, Gap, LogEntry, Source};
pub use escape::{escape_bytes, escape_text};
pub use follow::LogFollower;
pub use log_line::GapReason;
pub use logs::{LogPage, Logs, ReadError};
pub use metrics_archive::MetricsArchive;
pub use mover::{MoveError, MoveOutcome, MoveSummary};
pub use names::{NameError, check_artifact_name, check_run_id};
#[cfg(feature = "s3")]
pub use object_storage::{Bucket, Keys};
pub use object_storage::{ObjectStorage, ObjectStorageError};
pub use page_limit::PageLimit;
pub use retention::{RemovalMode, Removed, RetentionError, RetentionPeriods};
