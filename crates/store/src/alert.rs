//! How far each alert has come, what happened to it, and who is still to be told. Beside [`crate::Store`], which
//! engines use. What a state means is decided elsewhere: here it is text with a name.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;

use crate::StoreError;

/// Where alerts are remembered. The same promises hold as for [`crate::Store`].
#[async_trait]
pub trait Alerts: Send + Sync + 'static {
    async fn alert_states(&self) -> Result<Vec<AlertRow>, StoreError>;

    /// All of it or none: not if somebody has changed one of the states meanwhile. Says whether it was.
    async fn change_alerts(&self, change: AlertChange) -> Result<bool, StoreError>;

    /// What happened, the latest first: before a place, and of one alert or of all.
    async fn alert_history(
        &self,
        of: Option<String>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AlertRecord>, StoreError>;

    /// Who was told what, the latest first, before a place.
    async fn deliveries(&self, before: Option<i64>, limit: usize) -> Result<Vec<Delivery>, StoreError>;

    /// Takes what is due for a target into one's own hands until a moment, or until it is settled. Nobody else gets
    /// it before then.
    async fn claim_deliveries(&self, claim: DeliveryClaim) -> Result<Vec<Delivery>, StoreError>;

    /// When the next one for a target is due that is not in anybody's hands.
    async fn next_delivery(&self, target: &str) -> Result<Option<Timestamp>, StoreError>;

    /// What came of one. One that was delivered is that for good; a failure counts only for who has claimed it.
    async fn settle_delivery(&self, settled: DeliverySettled) -> Result<bool, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRow {
    pub name: String,
    /// Grows with every change; what was never written has 0.
    pub version: i64,
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertChange {
    /// With the versions that they were read with.
    pub states: Vec<AlertRow>,
    pub happened: Vec<AlertHappened>,
    pub deliveries: Vec<NewDelivery>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertHappened {
    pub at: Timestamp,
    pub name: String,
    pub entry: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRecord {
    pub seq: i64,
    pub happened: AlertHappened,
}

/// Somebody is to be told something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// The same in every attempt, so that who gets it twice can tell.
    pub id: String,
    pub at: Timestamp,
    pub name: String,
    /// Whom to tell, and how.
    pub target: String,
    pub notice: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub seq: i64,
    pub new: NewDelivery,
    pub attempts: u32,
    pub state: DeliveryState,
    /// What came of the last attempt, in words.
    pub last: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// Not before this moment.
    Waiting {
        until: Timestamp,
    },
    Delivered {
        at: Timestamp,
    },
    GivenUp {
        at: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// Of this claim alone.
    pub token: String,
    pub target: String,
    pub now: Timestamp,
    pub until: Timestamp,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverySettled {
    pub id: String,
    /// The claim's.
    pub token: String,
    pub state: DeliveryState,
    pub last: String,
}
