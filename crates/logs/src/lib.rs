//! The log of one sandbox: what its executions wrote and what the control plane did, in one order, wherever it lies.
//! Beside it, artifacts of runs and figures of past days, in the same object store. Start reading at [`Logs`], then
//! `cursor.rs` and `merge.rs`.

mod archive;
mod artifacts;
mod cursor;
mod entry;
mod figures;
mod follow;
mod limit;
mod line;
mod logs;
mod merge;
mod mover;
mod name;
mod objects;
mod output;
mod places;
mod printable;
mod retention;
mod stale;
mod tail;
mod tell;

pub use archive::ArchiveError;
pub use artifacts::{Artifact, ArtifactError, ArtifactLimits, Artifacts, Content as ArtifactContent};
pub use cursor::{Cursor, CursorError};
pub use entry::{Content, Entry, Gap, Source};
pub use figures::FiguresArchive;
pub use follow::Follow;
pub use limit::Limit;
pub use line::Missing;
pub use logs::{Logs, Page, ReadError};
pub use mover::{MoveError, Moved, Swept};
pub use name::{NameError, check_name, check_run};
#[cfg(feature = "s3")]
pub use objects::{Bucket, Keys};
pub use objects::{Objects, ObjectsError};
pub use printable::{printable, printable_bytes};
pub use retention::{Expiry, Gone, Keep, RetentionError};
