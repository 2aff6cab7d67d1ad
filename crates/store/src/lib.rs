//! Durable rows and their transactions. State, effects, history, deadlines, admission and totals change in one
//! transaction that is guarded by the row's version, and an answer means that it is on disk.
//! Start reading at [`Store`].

mod alert;
mod audit;
mod change;
mod chore;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod measure;
mod node;
mod queue;
mod rows;
mod sqlite;
mod store;
mod token;

pub use alert::{
    AlertChange, AlertHappened, AlertRecord, AlertRow, Alerts, Delivery, DeliveryClaim, DeliverySettled,
    DeliveryState, NewDelivery,
};
pub use audit::{Audit, Note};
pub use change::{Bid, Change, Claim, Created, IdempotencyKey, NewExecution, NewSandbox};
pub use chore::{
    CameTo, Chore, Chores, Figures, Held, IDS_NAMED, ItemFailed, NewRun, RUNS_KEPT, Run, RunEnded, RunId,
    TakeTurn, Turn,
};
pub use error::{ClaimError, CommitError, CreateError, FillError, JoinError, OpenError, StoreError};
pub use measure::{Count, Gauge, MINUTE_MS, Measured, Measures, QUARTER_MS, Sums, step_of};
pub use node::{Node, NodeSeen};
pub use queue::{NewPlace, Place, PlaceEnd, Queue, Standing};
pub use rows::{
    Changes, Due, Filter, HistoryRow, Pruned, Retention, Row, Seq, Stored, StoredExecution, Unreadable,
    Version,
};
pub use sqlite::{Counts, Fault, InlineStore, Patience, SqliteStore};
pub use store::Store;
pub use token::{Role, Token, Tokens};
