//! Aggregates history facts into per-minute sums. The sums and the new history position are committed together, so
//! each fact is counted once, however many servers count and whenever they are killed.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_engine::{AdmitError, RunError};
use pinfold_lifecycle::{Life, Record, ResourceUsage, SandboxId, Timestamp};
use pinfold_metrics::{AgentLabel, AgentTypes, Counters, HistoryEntry, OTHER, count_entry};
use pinfold_store::{CountBatch, CreateError, HistoryRow, MINUTE_MS, Row, Seq, StoreError, floor_to_step};
use tokio::sync::Mutex;

use crate::{Service, ServiceConfig};

/// Facts counted per transaction.
const PAGE_ROWS: usize = 1_000;
/// How many earlier records are read to find where something began.
const LOOK_BACK: usize = 1_000;

/// State of the aggregation in this process.
pub(crate) struct MetricsAggregator {
    pub(super) agent_types: AgentTypes,
    /// One aggregation at a time: a concurrent one would only lose the commit.
    lock: Mutex<()>,
}

impl MetricsAggregator {
    pub(crate) fn of(config: &ServiceConfig) -> Self {
        let agents = config.profiles.iter().filter(|(_, profile)| profile.is_agent);
        Self { agent_types: AgentTypes::known(agents.map(|(name, _)| name)), lock: Mutex::default() }
    }
}

impl Service {
    /// Counts new history facts and this process's own counters.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        self.count_history().await?;
        self.flush_meter().await
    }

    /// Counts new history facts. Several servers may do so at once.
    pub(crate) async fn count_history(&self) -> Result<(), StoreError> {
        let _lock = self.aggregator.lock.lock().await;
        let store = &self.host.store;
        loop {
            let from = store.counted_up_to().await?;
            let page = store.history(None, from, PAGE_ROWS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            let to = last.seq;
            let minutes = self.count_page(&page).await?;
            // If another server committed first, the loop continues from its position.
            store.add_counts(CountBatch { history_range: Some((from, to)), minutes }).await?;
            if page.len() < PAGE_ROWS {
                return Ok(());
            }
        }
    }

    /// Writes the counters that only this process has.
    pub(crate) async fn flush_meter(&self) -> Result<(), StoreError> {
        let counters = self.host.meter.take();
        if counters.is_empty() {
            return Ok(());
        }
        let minutes = BTreeMap::from([(floor_to_step(self.now(), MINUTE_MS), counters.0)]);
        let counted =
            self.host.store.add_counts(CountBatch { history_range: None, minutes: minutes.clone() }).await;
        if counted.is_err() {
            minutes.into_values().for_each(|sums| self.host.meter.restore(&Counters(sums)));
        }
        counted.map(drop)
    }

    /// Counts a create that was refused for lack of capacity.
    pub(crate) fn count_refusal(&self, error: &AdmitError) {
        match error {
            AdmitError::Create(CreateError::AdmissionRefused(scarcity)) => {
                self.host.meter.refused(scarcity.word())
            }
            AdmitError::NoRoom(short) => self.host.meter.refused(short.word()),
            AdmitError::Waited(expired) => self.count_refusal(&expired.why),
            AdmitError::Create(_) | AdmitError::QueueIdExists { .. } => {}
        }
    }

    pub(crate) fn count_refused_run(&self, error: &RunError) {
        if let RunError::Create(error) = error {
            self.count_refusal(error);
        }
    }

    /// Samples the gauges once a minute, by whichever server is first.
    pub(crate) async fn sample(&self) -> Result<(), StoreError> {
        let now = self.now();
        let gauges = self.gauges().await?;
        self.host.store.record_gauges(now, gauges.by_name()).await.map(drop)
    }

    async fn count_page(
        &self,
        page: &[HistoryRow],
    ) -> Result<BTreeMap<Timestamp, pinfold_store::CounterValues>, StoreError> {
        let mut minutes: BTreeMap<Timestamp, Counters> = BTreeMap::new();
        let concerned: BTreeSet<_> = page.iter().map(|row| row.sandbox).collect();
        for sandbox in concerned {
            self.count_facts_of(sandbox, page, &mut minutes).await?;
        }
        Ok(minutes.into_iter().map(|(minute, sums)| (minute, sums.0)).collect())
    }

    async fn count_facts_of(
        &self,
        sandbox: SandboxId,
        page: &[HistoryRow],
        minutes: &mut BTreeMap<Timestamp, Counters>,
    ) -> Result<(), StoreError> {
        let own = || page.iter().filter(|row| row.sandbox == sandbox);
        let first = own().next().map_or(Seq::LATEST, |row| row.seq);
        let last = own().next_back().map_or(Seq::default(), |row| row.seq);
        let rows = self.host.store.history_up_to(sandbox, last, LOOK_BACK + own().count()).await?;
        let known = rows.iter().take_while(|row| row.seq < first).count();
        let records: Vec<Record> = rows.into_iter().map(|row| row.record).collect();
        let (agent_type, used) = self.agent_type_and_usage(sandbox).await?;
        for (index, record) in records.iter().enumerate().skip(known) {
            let sums = minutes.entry(floor_to_step(record.at, MINUTE_MS)).or_default();
            count_entry(
                sums,
                &HistoryEntry { record, earlier: &records[..index], agent_type: &agent_type, used },
            );
        }
        Ok(())
    }

    /// The agent type and total usage of a sandbox. A removed sandbox counts as `other`.
    async fn agent_type_and_usage(
        &self,
        sandbox: SandboxId,
    ) -> Result<(AgentLabel, Option<ResourceUsage>), StoreError> {
        let types = &self.aggregator.agent_types;
        Ok(match self.host.store.load(sandbox).await? {
            Some(Row::Readable(stored)) => {
                let used = match &stored.sandbox.life {
                    Life::Ended { receipt, .. } => receipt.used,
                    Life::Wanted | Life::Ending { .. } => None,
                };
                (types.label(stored.spec.agent_type.as_deref()), used)
            }
            Some(Row::Unreadable(_)) | None => (types.label(Some(OTHER)), None),
        })
    }
}
