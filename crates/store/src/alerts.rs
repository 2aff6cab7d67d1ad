//! Alerts: the state of each, their history, and the notices that are still to be delivered. The store treats states and
//! notices as text; the server knows what they mean.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;

use crate::StoreError;

/// The alerts of all servers of one store. Durability is that of [`crate::Store`]; numbers of records and deliveries
/// grow in commit order and are never reused.
#[async_trait]
pub trait AlertStore: Send + Sync + 'static {
    async fn alert_states(&self) -> Result<Vec<AlertRow>, StoreError>;

    /// Writes all of the change, or nothing if one of the states has another version by now. Returns whether it wrote.
    async fn change_alerts(&self, change: AlertChange) -> Result<bool, StoreError>;

    /// The history of one alert or of all before a number, the latest first.
    async fn alert_history(
        &self,
        of: Option<String>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AlertRecord>, StoreError>;

    /// The deliveries before a number, the latest first.
    async fn deliveries(&self, before: Option<i64>, limit: usize) -> Result<Vec<Delivery>, StoreError>;

    /// Claims the deliveries that are due for a target. No other claim gets them until this one expires or ends.
    async fn claim_deliveries(&self, claim: DeliveryClaim) -> Result<Vec<Delivery>, StoreError>;

    /// When the next unclaimed delivery for a target is due.
    async fn next_delivery(&self, target: &str) -> Result<Option<Timestamp>, StoreError>;

    /// Writes the result of an attempt. A success is final even if its claim has expired; a failure counts only for
    /// the current claim. Returns whether it was written.
    async fn finish_delivery(&self, result: DeliveryResult) -> Result<bool, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRow {
    pub name: String,
    /// Grows with every change; 0 for an alert that was never written.
    pub version: i64,
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertChange {
    /// With the versions at which they were read.
    pub states: Vec<AlertRow>,
    pub records: Vec<NewAlertRecord>,
    pub deliveries: Vec<NewDelivery>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAlertRecord {
    pub at: Timestamp,
    pub name: String,
    pub entry: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRecord {
    pub seq: i64,
    pub record: NewAlertRecord,
}

/// A notice that is to be sent to one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// The same in every attempt, so that the receiver can recognise a repeated notice.
    pub id: String,
    pub at: Timestamp,
    pub name: String,
    /// The receiver, and how it is reached.
    pub target: String,
    pub notice: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub seq: i64,
    pub new: NewDelivery,
    pub attempts: u32,
    pub state: DeliveryState,
    /// The result of the last attempt, as text.
    pub last_result: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// Not due before this time.
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
    /// Unique for each claim.
    pub claim_id: String,
    pub target: String,
    pub now: Timestamp,
    pub until: Timestamp,
    pub limit: usize,
}

/// The result of one attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryResult {
    pub id: String,
    pub claim_id: String,
    pub state: DeliveryState,
    pub result: String,
}
