//! Sources of fresh ids.

use pinfold_lifecycle::Timestamp;

pub trait Ids: Send + Sync + 'static {
    /// A unique 128-bit number that sorts by time.
    fn fresh(&self, now: Timestamp) -> u128;
}

/// Version 7 UUIDs, on the engine's clock.
#[derive(Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn fresh(&self, now: Timestamp) -> u128 {
        let ms = u64::try_from(now.0).unwrap_or(0);
        let nanos = u32::try_from(ms % 1_000 * 1_000_000).unwrap_or(0);
        uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, ms / 1_000, nanos)).as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_fresh_and_sort_by_the_engines_own_time() {
        let early = RandomIds.fresh(Timestamp(1_000));

        let late = RandomIds.fresh(Timestamp(1_001));

        assert!(early < late);
        assert_ne!(early, RandomIds.fresh(Timestamp(1_000)));
    }
}
