//! Checks a running server from outside, by `/proc`, `/sys`, mounts, the data directory, the rows of its store and
//! its HTTP API. Depends on no crate of the product, so that a bug there cannot hide itself here.
//!
//! Main types: [`Kernel`] (what exists on the host), [`Rows`] (what the store says), [`Api`] (what the server
//! reports), [`Promises`] (what clients were told), [`Violation`] (a guarantee that does not hold).
//!
//! ```text
//! clients --> Promises ---+
//! server  --> Api --------+--> check_*() --> Vec<Violation>
//! store   --> Rows -------+
//! host    --> Kernel -----+
//! ```

mod clock;
mod deadline;
mod durability;
mod end_checks;
mod http;
mod kernel;
mod live_checks;
mod promises;
mod resources;
mod rows;
mod violation;

pub use clock::Clock;
pub use deadline::{Deadline, Stopwatch};
pub use durability::{check_idempotency_keys, check_nothing_lost};
pub use end_checks::{check_nothing_left, check_nothing_outlives_server, check_totals};
pub use http::{Answer, Api, Payload};
pub use kernel::{Instance, Kernel};
pub use live_checks::{
    check_deadlines, check_nothing_stuck, check_resources_match_rows, check_status_is_true,
};
pub use promises::{Command, CreateRequest, Execution, File, Promises, Sandbox};
pub use resources::{Resources, cgroups, record, record_directories};
pub use rows::{OpenExecution, Row, Rows, RowsError};
pub use violation::{Violation, ViolationKind};
