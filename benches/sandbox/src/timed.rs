//! The provider and the store with every call recorded in a timeline.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_bench_report::now;
use pinfold_linux::LinuxProvider;
use pinfold_provider::{Provider, ProviderCall, ProviderLayer, StartError, StartPermit, StartRequest};
use pinfold_store::{Change, CommitError, Store, StoreCall, StoreError, StoreLayer, Version};
use pinfold_store_sqlite::SqliteStore;

use crate::timeline::Timeline;

pub(crate) struct TimedProvider {
    real: Arc<LinuxProvider>,
    timeline: Arc<Timeline>,
}

impl TimedProvider {
    pub(crate) fn new(real: Arc<LinuxProvider>, timeline: Arc<Timeline>) -> Self {
        Self { real, timeline }
    }
}

/// Marks the end of the process's creation and the start of the permit.
struct TimedPermit<'a> {
    real: &'a dyn StartPermit,
    timeline: &'a Timeline,
    begun: std::time::Instant,
    asked: std::sync::Mutex<Option<std::time::Instant>>,
}

#[async_trait]
impl StartPermit for TimedPermit<'_> {
    async fn still_wanted(&self) -> bool {
        self.timeline.record("start: mark, root, groups, birth", self.begun);
        let begun = now();
        let wanted = self.real.still_wanted().await;
        self.timeline.record("start: permit", begun);
        *self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(now());
        wanted
    }
}

#[async_trait]
impl ProviderLayer for TimedProvider {
    fn inner(&self) -> &dyn Provider {
        &*self.real
    }

    async fn around<T: Send>(&self, call: ProviderCall, work: impl Future<Output = T> + Send) -> T {
        let step = match call {
            ProviderCall::Probe => "first probe: control, file, command",
            ProviderCall::Exec => "exec: fork, confine, exec",
            ProviderCall::Wait => "wait: the rest of the command",
            ProviderCall::Stop => "stop: kill, removal, look",
            _ => return work.await,
        };
        self.timeline.time(step, work).await
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        let permit = TimedPermit {
            real: start.permit,
            timeline: &self.timeline,
            begun: now(),
            asked: std::sync::Mutex::default(),
        };
        let started = self.real.start(StartRequest { permit: &permit, ..start }).await;
        let asked = *permit.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(asked) = asked {
            self.timeline.record("start: go, with the world built meanwhile", asked);
        }
        started
    }
}

pub(crate) struct TimedStore {
    real: Arc<SqliteStore>,
    timeline: Arc<Timeline>,
}

impl TimedStore {
    pub(crate) fn new(real: Arc<SqliteStore>, timeline: Arc<Timeline>) -> Self {
        Self { real, timeline }
    }
}

/// Named after the first record of a commit.
fn name_of(change: &Change) -> String {
    let fact = change.transition.records.first().map(|record| format!("{:?}", record.fact));
    let fact = fact.as_deref().and_then(|fact| fact.split([' ', '{', '(']).next());
    format!("commit {}", fact.unwrap_or("with no record"))
}

#[async_trait]
impl StoreLayer for TimedStore {
    fn inner(&self) -> &dyn Store {
        &*self.real
    }

    async fn around<T: Send, E: From<StoreError> + Send>(
        &self,
        call: StoreCall,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let step = match call {
            StoreCall::Create => "commit Created",
            StoreCall::Load => "each read of its row",
            _ => return work.await,
        };
        self.timeline.time(step, work).await
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        self.timeline.time(name_of(&change), self.real.commit(change)).await
    }
}
