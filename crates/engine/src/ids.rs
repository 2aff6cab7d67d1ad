//! Where fresh ids come from.

use pinfold_lifecycle::Timestamp;

pub trait Ids: Send + Sync + 'static {
    /// 128 bits that nobody had before, and that sort by time.
    fn fresh(&self, now: Timestamp) -> u128;
}

/// Version 7 UUIDs.
#[derive(Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn fresh(&self, now: Timestamp) -> u128 {
        let random = uuid::Uuid::now_v7().as_u128();
        let time = u128::from(u64::try_from(now.0).unwrap_or(0)) << 80;
        time | (random & ((1 << 80) - 1))
    }
}
