//! Waiting until everything is proven to work or proven gone.

use std::time::Duration;

use pinfold_engine::{Census, Config, Fate, HostCensus};
use pinfold_lifecycle::{Lease, NodeId, Verdict};
use pinfold_store::{Filter, Row, Store};

use super::{Failure, Service};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Read at a time.
const ROWS: usize = 500;

impl Service {
    /// How many are neither, after that time at the latest.
    pub(super) async fn wait_until_settled(&self, wait_ms: u64) -> Result<u64, Failure> {
        let census = HostCensus::take().map_err(Failure::internal)?;
        let dead_after_ms = Config::default().dead_after_ms;
        let (clock, me) = (&self.host.clock, self.host.engine.node());
        let until = clock.now().after_ms(wait_ms);
        loop {
            let nodes = self.host.store.nodes().await?;
            let others = nodes.iter().filter(|seen| seen.node.id != me);
            let alive = others.filter(|seen| census.fate_of(seen, clock.now(), dead_after_ms) == Fate::Alive);
            let alive: Vec<_> = alive.map(|seen| seen.node.id).collect();
            let rows = self.leased().await?;
            let unsettled = rows.iter().filter(|row| !is_seen_to(row, me, &alive)).count();
            if unsettled == 0 || clock.now() >= until {
                return Ok(unsettled as u64);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Everything whose body is not proven gone.
    pub(super) async fn leased(&self) -> Result<Vec<Row>, Failure> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.host.store.list(Filter::Leased, after, ROWS).await?;
            after = page.last().map(Row::id);
            let is_last = page.len() < ROWS;
            rows.extend(page);
            if is_last {
                return Ok(rows);
            }
        }
    }
}

/// Known to work, or in the care of another process that lives.
fn is_seen_to(row: &Row, me: NodeId, others: &[NodeId]) -> bool {
    match row {
        Row::Readable(stored) if stored.sandbox.owner == me => match &stored.sandbox.lease {
            Lease::Live(live) => live.check.is_none() && live.health.verdict == Verdict::Healthy,
            // The next body has its time, and nothing is left of the last one.
            Lease::LaunchWaiting { .. } => true,
            Lease::Free { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => false,
        },
        Row::Readable(stored) => others.contains(&stored.sandbox.owner),
        Row::Unreadable(_) => false,
    }
}
