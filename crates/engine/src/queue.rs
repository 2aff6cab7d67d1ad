//! The admission queue: requests wait for room instead of being refused. Entries are rows in the store, each
//! owned by the node that took the request. One loop per node reads the positions and wakes the waiting
//! requests; a request whose turn it is tries again, and the transaction decides.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pinfold_lifecycle::{QueueId, Timestamp};
use pinfold_store::{
    CreateError, EnqueueError, NewQueueEntry, QueueOutcome, QueuePosition, QueueRow, StoreError,
};
use tokio::sync::Notify;

use crate::change_notifier::{ChangeListener, Channel};
use crate::create::{Admitted, CreateRequest};
use crate::engine::{Engine, Inner};
use crate::{AdmitError, QueueWaitEnded};

/// Minimum interval between two reads of the queue, however often the store changes.
const MIN_READ_INTERVAL_MS: u64 = 20;

/// The queue id of a create request, and how long it may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueRequest {
    pub id: QueueId,
    pub(crate) requested_at: Timestamp,
    pub(crate) until: Timestamp,
}

impl QueueRequest {
    /// May wait for so long from now on. The attempt to be admitted at once is part of it.
    #[must_use]
    pub fn new(id: QueueId, now: Timestamp, wait_ms: u64) -> Self {
        Self { id, requested_at: now, until: now.after_ms(wait_ms) }
    }
}

/// Waiting requests of this node, and the positions last read.
#[derive(Default)]
pub(crate) struct QueueWaiters {
    waiting_here: AtomicUsize,
    wakeup: Notify,
    positions: Mutex<Arc<Vec<QueuePosition>>>,
    /// Notified when positions were read. It wakes requests in the order in which they wait, which tokio's `watch` does
    /// not: the simulator has to replay it.
    positions_read: Arc<Channel>,
}

impl QueueWaiters {
    fn set_positions(&self, positions: Vec<QueuePosition>) {
        *self.positions.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(positions);
        self.positions_read.notify();
    }

    fn positions(&self) -> Arc<Vec<QueuePosition>> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Engine {
    /// All queue entries in order, each with what it waits for.
    pub async fn queue_positions(&self) -> Result<Vec<QueuePosition>, StoreError> {
        self.inner.store.queue_positions(self.inner.config.admission, self.inner.clock.now()).await
    }

    /// One entry, waiting or ended. None: no such entry is recorded.
    pub async fn queue_entry(&self, id: QueueId) -> Result<Option<QueueRow>, StoreError> {
        self.inner.store.queue_entry(id).await
    }

    /// Cancels a queue entry. False: it has ended already.
    pub async fn leave_queue(&self, id: QueueId) -> Result<bool, StoreError> {
        let ended =
            self.inner.store.end_queue_entry(id, QueueOutcome::Cancelled, self.inner.clock.now()).await?;
        self.inner.queue.wakeup.notify_one();
        Ok(ended)
    }
}

/// Cancels the queue entry when a waiting request is dropped.
struct QueueGuard {
    inner: Arc<Inner>,
    id: QueueId,
    is_done: bool,
}

impl QueueGuard {
    fn begin(inner: &Arc<Inner>, id: QueueId) -> Self {
        inner.queue.waiting_here.fetch_add(1, Ordering::Relaxed);
        Self { inner: inner.clone(), id, is_done: false }
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        self.inner.queue.waiting_here.fetch_sub(1, Ordering::Relaxed);
        if self.is_done {
            return;
        }
        let (inner, id) = (self.inner.clone(), self.id);
        // Without a runtime the process is exiting, and the entry expires with its node.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { inner.end_entry(id, QueueOutcome::Cancelled).await });
        }
    }
}

impl Inner {
    /// Reads queue positions after every change and at the poll interval, while any request waits here.
    pub(crate) async fn queue_loop(self: Arc<Self>) {
        let mut changes = self.changes.listen_to_all();
        loop {
            if self.queue.waiting_here.load(Ordering::Relaxed) == 0 {
                self.queue.wakeup.notified().await;
            }
            changes.catch_up();
            let read_at = self.clock.now();
            match self.store.queue_positions(self.config.admission, self.clock.now()).await {
                Ok(positions) => self.queue.set_positions(positions),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "reading the queue failed, retrying"
                    );
                }
            }
            let again = self.clock.now().after_ms(self.config.poll_ms);
            tokio::select! {
                biased;
                () = self.queue.wakeup.notified() => {}
                () = changes.changed() => self.clock.sleep_until(read_at.after_ms(MIN_READ_INTERVAL_MS)).await,
                () = self.clock.sleep_until(again) => {}
            }
        }
    }

    /// Waits for room and takes it. `first` is the reason the request was not admitted at once.
    pub(crate) async fn wait_in_queue(
        self: &Arc<Self>,
        wanted: &CreateRequest,
        queue: QueueRequest,
        first: AdmitError,
    ) -> Result<Admitted, AdmitError> {
        let mut positions_read = ChangeListener::to(self.queue.positions_read.clone(), None);
        // Before `enqueue`: a request dropped during that write may still have an entry.
        let mut guard = QueueGuard::begin(self, queue.id);
        if let Err(error) = self.enqueue_request(wanted, queue).await {
            guard.is_done = !matches!(error, AdmitError::Create(CreateError::Store(_)));
            return Err(error);
        }
        self.queue.wakeup.notify_one();
        let (mut why, mut position, mut wake_at) = (first, None, queue.until);
        loop {
            tokio::select! {
                biased;
                () = positions_read.changed() => {}
                () = self.clock.sleep_until(wake_at) => {}
            }
            let mut keep_waiting = false;
            if self.clock.now() < queue.until {
                positions_read.catch_up();
                let positions = self.queue.positions();
                match positions.iter().find(|own| own.entry.new.id == queue.id) {
                    Some(own) if own.wait_reason.is_none() => {
                        position = Some(own.position);
                        match self.create_or_claim(wanted, Some(queue)).await {
                            Err(error) if error.is_no_room() => {
                                (why, keep_waiting) = (error, true);
                            }
                            Err(AdmitError::Create(CreateError::NotQueued { .. })) => {}
                            Err(error) => {
                                self.end_entry(queue.id, QueueOutcome::Refused).await;
                                guard.is_done = true;
                                return Err(error);
                            }
                            Ok(admitted) => {
                                // A request answered by its idempotency key still has its queue entry.
                                if let Admitted::Existing(id) = admitted {
                                    self.end_entry(queue.id, QueueOutcome::Admitted(id)).await;
                                }
                                guard.is_done = true;
                                return Ok(admitted);
                            }
                        }
                    }
                    Some(own) => (position, keep_waiting) = (Some(own.position), true),
                    None => {}
                }
            } else {
                self.end_entry(queue.id, QueueOutcome::Expired).await;
                // If the store cannot be written, retry after the poll interval.
                wake_at = self.clock.now().after_ms(self.config.poll_ms);
            }
            if keep_waiting {
                continue;
            }
            if let Some(end) = self.outcome_of(queue.id).await? {
                guard.is_done = true;
                let waited_ms = self.clock.now().ms_since(queue.requested_at);
                let ended = QueueWaitEnded { end, waited_ms, position, why: Box::new(why) };
                return Err(AdmitError::Waited(ended));
            }
        }
    }

    async fn enqueue_request(&self, wanted: &CreateRequest, queue: QueueRequest) -> Result<(), AdmitError> {
        let new = NewQueueEntry {
            id: queue.id,
            owner_node: self.node,
            requested_at: queue.requested_at,
            deadline: queue.until,
            demand: wanted.spec.demand(),
            quotas: self.config.quotas.of(&wanted.spec),
            requested_by: wanted.spec.requested_by.as_ref().map(|requester| requester.token),
            name: wanted.spec.name.clone(),
        };
        match self.store.enqueue(new, self.config.admission).await {
            Ok(()) => Ok(()),
            Err(EnqueueError::NeverFits(scarcity)) => Err(CreateError::AdmissionRefused(scarcity).into()),
            Err(EnqueueError::Store(unknown @ StoreError::OutcomeUnknown { .. })) => {
                match self.store.queue_entry(queue.id).await.map_err(CreateError::Store)? {
                    Some(_) => Ok(()),
                    None => Err(CreateError::Store(unknown).into()),
                }
            }
            Err(EnqueueError::Store(error)) => Err(CreateError::Store(error).into()),
            Err(EnqueueError::Exists { id }) => Err(AdmitError::QueueIdExists { id }),
        }
    }

    /// None: still guard.
    async fn outcome_of(&self, id: QueueId) -> Result<Option<QueueOutcome>, AdmitError> {
        match self.store.queue_entry(id).await {
            Ok(Some(entry)) => Ok(entry.outcome.map(|(_, end)| end)),
            Ok(None) => Ok(Some(QueueOutcome::Cancelled)),
            Err(error) => Err(CreateError::Store(error).into()),
        }
    }

    /// If this fails, the entry ends by its deadline.
    async fn end_entry(&self, id: QueueId, end: QueueOutcome) {
        if let Err(error) = self.store.end_queue_entry(id, end, self.clock.now()).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(entry = %id, error, "could not end a queue entry, it expires at its deadline");
        }
    }

    /// Expires entries past their deadline or of dead nodes.
    pub(crate) async fn expire_queue_entries(&self) -> Result<(), StoreError> {
        if !self.store.is_queue_empty().await? {
            self.store.expire_queue_entries(self.clock.now()).await?;
        }
        Ok(())
    }
}
