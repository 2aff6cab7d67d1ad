//! Messages between the control plane, the spawner and keepers. The control plane (crate `linux`) and the processes beside
//! hostile code (crate `keeper`) share nothing else.
//!
//! ```text
//!   control plane --SpawnRequest + descriptors--> spawner --clone--> keeper
//!   control plane --Request--> keeper --Response--> control plane          frames on the control socket
//!   control plane --FileRequest--> child of the keeper --FileAnswer, chunks--> control plane
//! ```
//!
//! Main types: [`Request`], [`Response`], [`SpawnRequest`], [`SandboxSetup`], [`files::FileRequest`].

mod control;
#[cfg(feature = "weakened")]
mod disabled_guard;
pub mod files;
mod frame;
mod setup;
mod spawn;
mod usage;

pub use control::{
    Console, Ended, EndedBy, Exec, ExecutionStatus, LimitHits, ProbeFailure, RefusalReason, Request,
    Response, TerminalSize,
};
#[cfg(feature = "weakened")]
pub use disabled_guard::{DisabledGuard, UNSEALED};
pub use frame::{MAX_MESSAGE_BYTES, frame, receive, send, take};
pub use setup::{RootFilesystem, RootLayer, SandboxSetup, Storage};
pub use spawn::{
    InstanceLimits, MAX_PACKET_BYTES, SpawnRequest, SpawnResponse, WorkloadCgroup, receive_packet,
    receive_response, send_with,
};
pub use usage::{DiskUsage, ProcessUsage};
