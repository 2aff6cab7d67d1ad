//! The loop: load the row, decide with a pure function, commit, act, observe, and feed what was found back in.
//! There is no second way to change state. Start reading at [`Engine`], then `apply.rs`.

mod admit_error;
mod agent_run;
mod agreement;
mod apply;
mod census;
mod claim;
mod cleanup;
mod clock;
mod config;
mod engine;
mod errands;
mod ids;
mod known;
mod lanes;
mod nodes;
mod onlooker;
mod perform;
mod pool;
mod questions;
mod queue;
mod reconcile;
mod remark;
mod retention;
mod room;
mod schedule;
mod stale;
mod timer;
mod waiting;

pub use admit_error::{AdmitError, NotAdmitted};
pub use agent_run::AgentRun;
pub use agreement::Disagreement;
pub use apply::ApplyError;
pub use census::{Census, Fate, HostCensus, HostCensusError};
pub use cleanup::{
    Cleaner, CleanupConfig, CleanupError, CleanupReport, Ended, Failed, Found, How, Kept, Layer, Spared, Why,
    Witness,
};
pub use clock::{AnchorError, Clock, HostClock};
pub use config::Config;
pub use engine::{BeginError, CreateAsk, Engine, OnExit, Parts, RunAsk, RunError, Stop, UsageError};
pub use ids::{Ids, RandomIds};
pub use onlooker::Onlooker;
pub use pool::PoolPlan;
pub use queue::QueueAsk;
pub use reconcile::{Reconcile, ReconcileError, ReconcileReport};
pub use schedule::{BadSchedule, Schedule};
pub use stale::StaleData;
pub use waiting::{Listener, WaitError, Waited};
