//! What a caller can learn about a live instance beyond its health: its processes, what it used, and the answer of every
//! probe.

use std::time::Duration;

use async_trait::async_trait;
use pinfold_lifecycle::ResourceUsage;
pub use pinfold_procfs::ProcessState;

use crate::{InstanceError, InstanceId};

/// Observes an instance without changing it.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Runs every probe that does no harm to the instance.
    async fn examine(&self, instance: InstanceId) -> Vec<ProbeReport>;

    /// What it used so far, from figures that are cheap to read. None: there is no figure.
    async fn total_usage(&self, instance: InstanceId) -> Option<ResourceUsage>;

    /// The processes inside, without those of the provider. A long list is cut.
    async fn processes(&self, instance: InstanceId) -> Result<Vec<ProcessInfo>, InstanceError>;
}

/// One probe and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    pub probe: &'static str,
    pub passed: bool,
    pub answer: String,
    pub took: Duration,
    /// Set where the probe failed.
    pub fault: Option<InstanceFault>,
}

/// The part of an instance that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstanceFault {
    /// Process 1 is gone.
    KeeperGone,
    /// Process 1 is alive and does not answer.
    KeeperSilent,
    /// A required mount or file is missing.
    Filesystem,
    /// No command can be executed.
    Exec,
    /// The disk of the instance is full, in bytes or in inodes.
    DiskFull,
    /// The state could not be observed.
    Unobservable,
}

/// One process of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The process sets it itself: untrusted text.
    pub name: String,
    pub state: ProcessState,
    /// The kernel function that it sleeps in. None: it does not sleep, or this cannot be read.
    pub wait_channel: Option<String>,
    /// Blocked in a read of its standard input.
    pub waits_for_input: bool,
    pub sockets: usize,
}
