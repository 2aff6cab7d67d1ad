//! Waiting for room instead of being refused: a place in the store's queue, seen to by the node that was asked. One
//! loop reads who is next and tells those who wait here; whoever fits tries, and the transaction decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinfold_lifecycle::{PlaceId, Timestamp};
use pinfold_store::{CreateError, JoinError, NewPlace, Place, PlaceEnd, Standing, StoreError};
use tokio::sync::{Notify, watch};

use crate::claim::{Provided, Wanted};
use crate::engine::{Engine, Inner};
use crate::{AdmitError, NotAdmitted};

/// However much changes, those who wait are told so many milliseconds apart at the soonest.
const BETWEEN_READS_MS: u64 = 20;

/// How long somebody would wait, and under which id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueAsk {
    pub id: PlaceId,
    pub until: Timestamp,
}

/// Those who wait here, and what they are told.
#[derive(Default)]
pub(crate) struct Line {
    here: AtomicUsize,
    arrived: Notify,
    told: watch::Sender<Arc<Vec<Standing>>>,
}

impl Engine {
    /// Those who wait for room, in their order, with what each waits for.
    pub async fn line(&self) -> Result<Vec<Standing>, StoreError> {
        self.inner.store.line(self.inner.config.admission, self.inner.clock.now()).await
    }

    /// One who waits or has waited. None: nobody knows of it any more.
    pub async fn place(&self, id: PlaceId) -> Result<Option<Place>, StoreError> {
        self.inner.store.place(id).await
    }

    /// Takes somebody out of the queue; says whether it waited.
    pub async fn leave_queue(&self, id: PlaceId) -> Result<bool, StoreError> {
        let ended = self.inner.store.end_place(id, PlaceEnd::Cancelled, self.inner.clock.now()).await?;
        self.inner.line.arrived.notify_one();
        Ok(ended)
    }
}

/// Whoever stops waiting before it is let in leaves the queue.
struct Waiting {
    inner: Arc<Inner>,
    id: PlaceId,
    is_over: bool,
}

impl Waiting {
    fn begin(inner: &Arc<Inner>, id: PlaceId) -> Self {
        inner.line.here.fetch_add(1, Ordering::Relaxed);
        Self { inner: inner.clone(), id, is_over: false }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inner.line.here.fetch_sub(1, Ordering::Relaxed);
        if self.is_over {
            return;
        }
        let (inner, id) = (self.inner.clone(), self.id);
        // Without a runtime the process is about to end, and its node with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { inner.end_place(id, PlaceEnd::Cancelled).await });
        }
    }
}

impl Inner {
    /// Tells those who wait here how they stand, whenever something changes and a few times in a second.
    pub(crate) async fn keep_queue(self: Arc<Self>) {
        let mut changes = self.waiters.listen_to_all();
        loop {
            if self.line.here.load(Ordering::Relaxed) == 0 {
                self.line.arrived.notified().await;
            }
            changes.catch_up();
            let read_at = self.clock.now();
            match self.store.line(self.config.admission, self.clock.now()).await {
                Ok(line) => drop(self.line.told.send_replace(Arc::new(line))),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the queue is not read");
                }
            }
            let again = self.clock.now().after_ms(self.config.poll_ms);
            tokio::select! {
                biased;
                () = self.line.arrived.notified() => {}
                () = changes.changed() => self.clock.sleep_until(read_at.after_ms(BETWEEN_READS_MS)).await,
                () = self.clock.sleep_until(again) => {}
            }
        }
    }

    /// Waits for room, and takes it when it is there. `first` is why it was not let in at once.
    pub(crate) async fn wait_in_queue(
        self: &Arc<Self>,
        wanted: &Wanted,
        queue: QueueAsk,
        first: AdmitError,
    ) -> Result<Provided, AdmitError> {
        let asked_at = self.clock.now();
        let mut told = self.line.told.subscribe();
        // From here on: whoever gives up while its place is written has one all the same.
        let mut waiting = Waiting::begin(self, queue.id);
        if let Err(error) = self.join(wanted, queue, asked_at).await {
            waiting.is_over = !matches!(error, AdmitError::Create(CreateError::Store(_)));
            return Err(error);
        }
        self.line.arrived.notify_one();
        let (mut why, mut position, mut look_at) = (first, None, queue.until);
        loop {
            tokio::select! {
                biased;
                _ = told.changed() => {}
                () = self.clock.sleep_until(look_at) => {}
            }
            let mut still_waits = false;
            if self.clock.now() < queue.until {
                let line = told.borrow_and_update().clone();
                match line.iter().find(|one| one.place.new.id == queue.id) {
                    Some(one) if one.held.is_none() => {
                        position = Some(one.position);
                        match self.provide_now(wanted, Some(queue)).await {
                            Err(error) if error.is_for_want_of_room() => {
                                (why, still_waits) = (error, true);
                            }
                            Err(AdmitError::Create(CreateError::NotWaiting { .. })) => {}
                            Err(error) => {
                                self.end_place(queue.id, PlaceEnd::Refused).await;
                                waiting.is_over = true;
                                return Err(error);
                            }
                            Ok(provided) => {
                                // One that was known by its key has left its place behind.
                                if let Provided::Known(id) = provided {
                                    self.end_place(queue.id, PlaceEnd::Admitted(id)).await;
                                }
                                waiting.is_over = true;
                                return Ok(provided);
                            }
                        }
                    }
                    Some(one) => (position, still_waits) = (Some(one.position), true),
                    None => {}
                }
            } else {
                self.end_place(queue.id, PlaceEnd::Expired).await;
                // A store that cannot be written for now is asked again, and not without end at this very moment.
                look_at = self.clock.now().after_ms(self.config.poll_ms);
            }
            if still_waits {
                continue;
            }
            if let Some(end) = self.end_of(queue.id).await? {
                waiting.is_over = true;
                let waited_ms = self.clock.now().ms_since(asked_at);
                let not = NotAdmitted { end, waited_ms, position, why: Box::new(why) };
                return Err(AdmitError::Waited(not));
            }
        }
    }

    async fn join(&self, wanted: &Wanted, queue: QueueAsk, asked_at: Timestamp) -> Result<(), AdmitError> {
        let new = NewPlace {
            id: queue.id,
            node: self.node,
            asked_at,
            until: queue.until,
            demand: wanted.spec.demand(),
            quotas: self.config.quotas.of(&wanted.spec),
            asked_by: wanted.spec.asked_by.as_ref().map(|asker| asker.token),
            name: wanted.spec.name.clone(),
        };
        match self.store.join(new, self.config.admission).await {
            Ok(()) => Ok(()),
            Err(JoinError::NeverFits(scarcity)) => Err(CreateError::Scarce(scarcity).into()),
            Err(JoinError::Store(unclear @ StoreError::Unclear { .. })) => {
                match self.store.place(queue.id).await.map_err(CreateError::Store)? {
                    Some(_) => Ok(()),
                    None => Err(CreateError::Store(unclear).into()),
                }
            }
            Err(JoinError::Store(error)) => Err(CreateError::Store(error).into()),
            Err(JoinError::Exists { id }) => Err(AdmitError::PlaceExists { id }),
        }
    }

    /// None: it still waits. Where nobody can tell, it is asked again.
    async fn end_of(&self, id: PlaceId) -> Result<Option<PlaceEnd>, AdmitError> {
        match self.store.place(id).await {
            Ok(Some(place)) => Ok(place.end.map(|(_, end)| end)),
            Ok(None) => Ok(Some(PlaceEnd::Cancelled)),
            Err(error) => Err(CreateError::Store(error).into()),
        }
    }

    /// Its deadline ends it in any case.
    async fn end_place(&self, id: PlaceId, end: PlaceEnd) {
        if let Err(error) = self.store.end_place(id, end, self.clock.now()).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(place = %id, error, "a place in the queue ends by its deadline");
        }
    }

    /// Those whose time is up or whose node is gone.
    pub(crate) async fn clear_queue(&self) -> Result<(), StoreError> {
        if !self.store.is_queue_empty().await? {
            self.store.end_overdue(self.clock.now()).await?;
        }
        Ok(())
    }
}
