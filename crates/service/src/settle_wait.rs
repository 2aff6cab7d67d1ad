//! Waits until every leased sandbox is proven working or proven gone.

use std::time::Duration;

use pinfold_engine::{Config, HostLiveness, Liveness, NodeLiveness};
use pinfold_lifecycle::{Lease, NodeId, Verdict};
use pinfold_store::{Row, SandboxFilter};

use super::{Failure, Service};

const POLL_EVERY: Duration = Duration::from_millis(20);
/// Rows read per query.
const ROWS: usize = 500;

impl Service {
    /// The number of unsettled sandboxes, at the latest when the time is up.
    pub(super) async fn wait_until_settled(&self, wait_ms: u64) -> Result<u64, Failure> {
        let liveness = HostLiveness::take().map_err(Failure::internal)?;
        let dead_after_ms = Config::default().dead_after_ms;
        let (clock, me) = (&self.host.clock, self.host.engine.node());
        let until = clock.now().after_ms(wait_ms);
        loop {
            let nodes = self.host.store.nodes().await?;
            let others = nodes.iter().filter(|seen| seen.node.id != me);
            let alive = others
                .filter(|seen| liveness.liveness_of(seen, clock.now(), dead_after_ms) == Liveness::Alive);
            let alive: Vec<_> = alive.map(|seen| seen.node.id).collect();
            let rows = self.leased().await?;
            let unsettled = rows.iter().filter(|row| !is_settled(row, me, &alive)).count();
            if unsettled == 0 || clock.now() >= until {
                return Ok(unsettled as u64);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// All sandboxes whose instance is not proven gone.
    pub(super) async fn leased(&self) -> Result<Vec<Row>, Failure> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.host.store.list(SandboxFilter::Leased, after, ROWS).await?;
            after = page.last().map(Row::id);
            let is_last = page.len() < ROWS;
            rows.extend(page);
            if is_last {
                return Ok(rows);
            }
        }
    }
}

/// Proven working, or owned by another live node.
fn is_settled(row: &Row, me: NodeId, others: &[NodeId]) -> bool {
    match row {
        Row::Readable(stored) if stored.sandbox.owner == me => match &stored.sandbox.lease {
            Lease::Live(live) => live.check.is_none() && live.health.verdict == Verdict::Healthy,
            // The previous instance is proven gone, and the next one has its own deadline.
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
