//! Current gauges, from every row that is not settled.

use std::path::Path;
use std::time::Duration;

use pinfold_lifecycle::{Cause, Life, Sandbox, State, status};
use pinfold_metrics::Gauges;
use pinfold_store::{Row, SandboxFilter, StoreError};
use tokio::time::timeout;

use crate::Service;
use crate::stuck::is_stuck;

/// Rows read per query.
const ROWS: usize = 500;
/// Time limit for measuring the host's capacity.
const CAPACITY_TIMEOUT: Duration = Duration::from_secs(2);

impl Service {
    pub(crate) async fn gauges(&self) -> Result<Gauges, StoreError> {
        let now = self.now();
        let store = &self.host.store;
        let capacity =
            timeout(CAPACITY_TIMEOUT, self.host.provider.capacity()).await.ok().and_then(Result::ok);
        let host = capacity.unwrap_or_default();
        let mut gauges = Gauges {
            totals: store.totals().await?,
            limits: *self.host.engine.admission(),
            memory_mb_left: host.memory_mb_left,
            disk_mb_left: host.disk_mb_left,
            processes_left: host.processes_left,
            memory_mb_total: host.memory_mb_total,
            disk_mb_total: host.disk_mb_total,
            processes_total: host.processes_total,
            store_bytes: bytes_in(&self.host.data.join("store")),
            nodes: Some(store.nodes().await?.len() as u64),
            ..Gauges::default()
        };
        let mut after = None;
        loop {
            let rows = store.list(SandboxFilter::Present, after, ROWS).await?;
            for row in &rows {
                match row {
                    Row::Readable(stored) => {
                        gauges.count(status(&stored.sandbox, now, &stored.policy).state);
                        gauges.count_age(now.ms_since(stored.sandbox.created_at));
                        gauges.stuck += u64::from(is_stuck(&stored.sandbox, now));
                        gauges.orphaned += u64::from(is_orphaned(&stored.sandbox));
                    }
                    Row::Unreadable(_) => gauges.count(State::Unknown),
                }
            }
            after = rows.last().map(Row::id);
            if rows.len() < ROWS {
                return Ok(gauges);
            }
        }
    }
}

/// Its instance was found without a lease.
fn is_orphaned(sandbox: &Sandbox) -> bool {
    let ends_as_one = matches!(sandbox.life, Life::Ending { cause: Cause::Orphan, .. });
    !sandbox.is_settled() && (ends_as_one || sandbox.strays > 0)
}

/// The size of the files in a directory. None: not readable.
fn bytes_in(directory: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(directory).ok()?;
    let sizes = entries.map(|entry| entry.and_then(|entry| entry.metadata()).map(|it| it.len()));
    // A file may be removed concurrently.
    Some(sizes.filter_map(Result::ok).sum())
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{
        Context, Generation, NodeId, Policy, SandboxId, Timestamp, create, lease_orphan,
    };

    use super::*;

    const NOON: Timestamp = Timestamp(1_000_000_000);

    fn context(policy: &Policy) -> Context<'_> {
        Context { now: NOON, node: NodeId(1), policy }
    }

    #[test]
    fn an_instance_found_without_a_lease_is_orphaned() {
        let policy = Policy::default();

        let found = lease_orphan(SandboxId(1), Generation(1), context(&policy)).sandbox;

        assert!(is_orphaned(&found));
        assert!(!is_orphaned(&create(SandboxId(2), context(&policy)).sandbox));
    }
}
