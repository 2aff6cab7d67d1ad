//! Instances: their ids, discovery, and the permit to start one.

use async_trait::async_trait;
use pinfold_lifecycle::{Generation, SandboxId};
use serde::{Deserialize, Serialize};

/// One instance of a sandbox. With the store's instance id it forms the name of every physical resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    pub sandbox: SandboxId,
    pub generation: Generation,
}

/// Every resource on the host that carries our name, wanted or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    pub found: Vec<Found>,
    /// Names that observation like ours and cannot be parsed. They are reported and never touched.
    pub unreadable: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub instance: InstanceId,
    /// All parts exist and the keeper answers.
    pub whole: bool,
}

/// Says whether a launch is still wanted.
///
/// A launch first creates its marker, then checks the permit, and starts processes last and only while its
/// marker exists. A stop is committed first and then removes markers. So in any order, either the stop finds
/// the marker or the launch is refused, however late it resumes.
#[async_trait]
pub trait StartPermit: Send + Sync {
    async fn still_wanted(&self) -> bool;
}
