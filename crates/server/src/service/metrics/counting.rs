//! The history, counted. It is read on from where anybody has counted to, and what was found is written together with
//! the new place, so that each fact is counted once, however many servers do it and whenever they are killed.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_engine::{AdmitError, RunError};
use pinfold_lifecycle::{Life, Record, SandboxId, Timestamp, Used};
use pinfold_metrics::{AgentLabel, AgentTypes, OTHER, Sums, Told, fold};
use pinfold_store::{
    Count, CreateError, HistoryRow, MINUTE_MS, Measures, Row, Seq, Store, StoreError, step_of,
};
use tokio::sync::Mutex;

use crate::{Rules, Service};

/// Facts that are counted in one transaction.
const AT_ONCE: usize = 1_000;
/// How far back the beginning of something is looked for.
const LOOK_BACK: usize = 1_000;

/// What counting goes by.
pub(in crate::service) struct Counting {
    pub(super) agent_types: AgentTypes,
    /// One at a time: another would only find that it was too late.
    turn: Mutex<()>,
}

impl Counting {
    pub(in crate::service) fn of(rules: &Rules) -> Self {
        let agents = rules.profiles.iter().filter(|(_, profile)| profile.is_agent);
        Self { agent_types: AgentTypes::known(agents.map(|(name, _)| name)), turn: Mutex::default() }
    }
}

impl Service {
    /// Counts what has happened since somebody last did, and what this process has seen.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        self.count_history().await?;
        self.count_what_was_seen().await
    }

    /// Only facts, which many servers may count.
    pub(crate) async fn count_history(&self) -> Result<(), StoreError> {
        let _turn = self.counting.turn.lock().await;
        let store = &self.host.store;
        loop {
            let from = store.counted_to().await?;
            let page = store.history(None, from, AT_ONCE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            let to = last.seq;
            let minutes = self.count_page(&page).await?;
            // Where somebody else was quicker, it is read on from there.
            store.count(Count { span: Some((from, to)), minutes }).await?;
            if page.len() < AT_ONCE {
                return Ok(());
            }
        }
    }

    /// What only this process knows.
    pub(crate) async fn count_what_was_seen(&self) -> Result<(), StoreError> {
        let seen = self.host.meter.take();
        if seen.is_empty() {
            return Ok(());
        }
        let minutes = BTreeMap::from([(step_of(self.now(), MINUTE_MS), seen.0)]);
        let counted = self.host.store.count(Count { span: None, minutes: minutes.clone() }).await;
        if counted.is_err() {
            minutes.into_values().for_each(|sums| self.host.meter.give_back(&Sums(sums)));
        }
        counted.map(drop)
    }

    /// Somebody was told that there is no room.
    pub(in crate::service) fn note_refusal(&self, error: &AdmitError) {
        match error {
            AdmitError::Create(CreateError::Scarce(scarcity)) => self.host.meter.refused(scarcity.word()),
            AdmitError::NoRoom(short) => self.host.meter.refused(short.word()),
            AdmitError::Waited(in_vain) => self.note_refusal(&in_vain.why),
            AdmitError::Create(_) | AdmitError::PlaceExists { .. } => {}
        }
    }

    pub(in crate::service) fn note_refused_run(&self, error: &RunError) {
        if let RunError::Create(error) = error {
            self.note_refusal(error);
        }
    }

    /// Writes down how things stand, once in a minute, whoever does it.
    pub(crate) async fn sample(&self) -> Result<(), StoreError> {
        let now = self.now();
        let standing = self.standing().await?;
        self.host.store.sample(now, standing.gauges()).await.map(drop)
    }

    async fn count_page(
        &self,
        page: &[HistoryRow],
    ) -> Result<BTreeMap<Timestamp, pinfold_store::Sums>, StoreError> {
        let mut minutes: BTreeMap<Timestamp, Sums> = BTreeMap::new();
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
        minutes: &mut BTreeMap<Timestamp, Sums>,
    ) -> Result<(), StoreError> {
        let own = || page.iter().filter(|row| row.sandbox == sandbox);
        let first = own().next().map_or(Seq::LATEST, |row| row.seq);
        let last = own().next_back().map_or(Seq::default(), |row| row.seq);
        let rows = self.host.store.records_up_to(sandbox, last, LOOK_BACK + own().count()).await?;
        let known = rows.iter().take_while(|row| row.seq < first).count();
        let records: Vec<Record> = rows.into_iter().map(|row| row.record).collect();
        let (agent_type, used) = self.what_is_recorded(sandbox).await?;
        for (place, record) in records.iter().enumerate().skip(known) {
            let sums = minutes.entry(step_of(record.at, MINUTE_MS)).or_default();
            fold(sums, &Told { record, earlier: &records[..place], agent_type: &agent_type, used });
        }
        Ok(())
    }

    /// Whose it is, and what it used. What is forgotten already is somebody's.
    async fn what_is_recorded(&self, sandbox: SandboxId) -> Result<(AgentLabel, Option<Used>), StoreError> {
        let types = &self.counting.agent_types;
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
