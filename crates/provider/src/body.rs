//! Bodies: how one is named, found again, and allowed to come into being.

use async_trait::async_trait;
use pinfold_lifecycle::{Generation, SandboxId};
use serde::{Deserialize, Serialize};

/// One incarnation of one sandbox. Its mark on everything physical is this and the store's instance id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    pub sandbox: SandboxId,
    pub generation: Generation,
}

/// Everything that carries our mark, wanted or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    pub found: Vec<Found>,
    /// Marks that look like ours and cannot be read. They are reported, never ended.
    pub unreadable: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub body: InstanceId,
    /// All its parts are there and its keeper answers.
    pub whole: bool,
}

/// Says whether a launch is still wanted.
///
/// A launch makes its mark first, asks then, and makes the body last and only while its mark stands. A stop
/// is committed first and removes marks then. So whichever comes first, either the stop finds the mark or the
/// launch is refused, however late a launch wakes up.
#[async_trait]
pub trait StartPermit: Send + Sync {
    async fn still_wanted(&self) -> bool;
}
