//! Change notifications per sandbox: immediate for changes of this engine, by polling for those of other
//! processes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::{StoreError, StoredSandbox};
use tokio::sync::Notify;

use crate::engine::Inner;

/// The result of a wait with a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitOutcome<T> {
    Met(T),
    DeadlinePassed,
}

#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("no such sandbox or execution")]
    Missing,
    #[error("the row cannot be read: {why}")]
    Unreadable { why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Default)]
pub(crate) struct ChangeNotifier {
    channels: Mutex<BTreeMap<SandboxId, SandboxChannel>>,
    /// Notified of changes to any sandbox.
    all: Arc<Channel>,
}

/// A channel and its number of listeners. The count is kept apart from the `Arc`, which `notify` also clones
/// for a moment.
#[derive(Default)]
struct SandboxChannel {
    channel: Arc<Channel>,
    listeners: usize,
}

/// Counts notifications, and wakes listeners in the order in which they wait.
#[derive(Default)]
pub(crate) struct Channel {
    count: AtomicU64,
    wakeup: Notify,
}

impl Channel {
    pub(crate) fn notify(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.wakeup.notify_waiters();
    }
}

impl ChangeNotifier {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SandboxId, SandboxChannel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(self: &Arc<Self>, id: SandboxId) -> ChangeListener {
        let mut channels = self.lock();
        let entry = channels.entry(id).or_default();
        entry.listeners += 1;
        ChangeListener::to(entry.channel.clone(), Some((self.clone(), id)))
    }

    pub(crate) fn listen_to_all(&self) -> ChangeListener {
        ChangeListener::to(self.all.clone(), None)
    }

    pub(crate) fn notify(&self, id: SandboxId) {
        let channel = self.lock().get(&id).map(|entry| entry.channel.clone());
        if let Some(channel) = channel {
            channel.notify();
        }
        self.all.notify();
    }
}

/// Reports every change to a sandbox that this process makes or notices. Changes between two waits are not
/// lost.
pub struct ChangeListener {
    channel: Arc<Channel>,
    seen: u64,
    /// The registry that holds a single sandbox's channel. The last listener removes the channel.
    registered_in: Option<(Arc<ChangeNotifier>, SandboxId)>,
}

impl ChangeListener {
    pub(crate) fn to(channel: Arc<Channel>, registered_in: Option<(Arc<ChangeNotifier>, SandboxId)>) -> Self {
        let seen = channel.count.load(Ordering::Acquire);
        Self { channel, seen, registered_in }
    }

    /// Marks all changes so far as seen. Call before reading the row.
    pub fn catch_up(&mut self) {
        self.seen = self.channel.count.load(Ordering::Acquire);
    }

    /// Waits for the next change that was not yet seen.
    pub async fn changed(&mut self) {
        loop {
            // Subscribe before the comparison, so that no notification is lost between comparison and wait.
            let notified = self.channel.wakeup.notified();
            let count = self.channel.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return;
            }
            notified.await;
        }
    }
}

impl Drop for ChangeListener {
    fn drop(&mut self) {
        let Some((notifier, id)) = &self.registered_in else { return };
        let mut channels = notifier.lock();
        if let Some(entry) = channels.get_mut(id) {
            entry.listeners -= 1;
            if entry.listeners == 0 {
                channels.remove(id);
            }
        }
    }
}

impl Inner {
    /// Waits until `met` returns a value, or until the deadline.
    pub(crate) async fn wait_for<T>(
        &self,
        id: SandboxId,
        until: Timestamp,
        mut met: impl FnMut(&StoredSandbox) -> Option<T>,
    ) -> Result<WaitOutcome<T>, WaitError> {
        let mut listener = self.changes.listen(id);
        let mut cached: Option<StoredSandbox> = None;
        let mut judged = None;
        loop {
            listener.catch_up();
            // A cached row may be older than one already judged, when another process wrote in between.
            let stored = match cached.filter(|cached| Some(cached.version) >= judged) {
                Some(stored) => Box::new(stored),
                None => self.readable(id).await?,
            };
            judged = judged.max(Some(stored.version));
            if let Some(found) = met(&stored) {
                return Ok(WaitOutcome::Met(found));
            }
            let now = self.clock.now();
            if until <= now {
                return Ok(WaitOutcome::DeadlinePassed);
            }
            // Every change that this process makes or notices is notified; the poll is a fallback.
            let poll_at = now.after_ms(self.config.heartbeat_ms).min(until);
            tokio::select! {
                biased;
                // A row this engine wrote after the wait began is as good as one read.
                () = listener.changed() => cached = self.row_cache.get(id),
                () = self.clock.sleep_until(poll_at) => cached = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const ONE: SandboxId = SandboxId(1);
    const OTHER: SandboxId = SandboxId(2);

    #[test]
    fn listener_reports_a_change_before_its_wait_once() {
        let notifier = Arc::new(ChangeNotifier::default());
        let (mut of_one, mut of_other) = (notifier.listen(ONE), notifier.listen(OTHER));
        let mut of_all = notifier.listen_to_all();

        notifier.notify(ONE);

        assert!(of_one.changed().now_or_never().is_some());
        assert!(of_all.changed().now_or_never().is_some());
        assert!(of_one.changed().now_or_never().is_none(), "one change is reported once");
        assert!(of_other.changed().now_or_never().is_none(), "the change was to another sandbox");
        notifier.notify(ONE);
        of_one.catch_up();
        assert!(of_one.changed().now_or_never().is_none(), "catch_up marks the change as seen");
    }

    #[test]
    fn channel_is_removed_with_its_last_listener() {
        let notifier = Arc::new(ChangeNotifier::default());
        let (one, other) = (notifier.listen(ONE), notifier.listen(ONE));

        drop(one);
        assert_eq!(notifier.lock().len(), 1);
        drop(other);

        assert!(notifier.lock().is_empty());
    }

    #[test]
    fn channel_is_removed_while_a_notification_holds_it() {
        let notifier = Arc::new(ChangeNotifier::default());
        let listener = notifier.listen(ONE);
        let notifying = listener.channel.clone();

        drop(listener);
        drop(notifying);

        assert!(notifier.lock().is_empty());
    }
}
