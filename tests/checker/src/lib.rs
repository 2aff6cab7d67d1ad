//! Judges a server from outside: by `/proc`, `/sys`, mounts, the data directory, the rows of its store and its HTTP API.
//! It depends on nothing of ours, so that a fault of the product cannot hide itself here.

mod clock;
mod complaint;
mod http;
mod kept;
mod kernel;
mod live;
mod patience;
mod promises;
mod rows;
mod settled;

pub use clock::Clock;
pub use complaint::{Broken, Complaint};
pub use http::{Answer, Api, Payload};
pub use kept::{keys_hold, nothing_is_lost};
pub use kernel::{Body, Kernel};
pub use live::{deadlines_are_kept, nothing_is_a_lie, nothing_is_stuck, what_is_there_is_wanted};
pub use patience::{Patience, Stopwatch};
pub use promises::{Command, Execution, File, Promises, Sandbox, Wish};
pub use rows::{OpenExecution, Row, Rows, RowsError};
pub use settled::{nothing_is_left, nothing_outlives_the_server, sums_are_right};
