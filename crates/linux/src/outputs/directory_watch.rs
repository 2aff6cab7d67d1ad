//! Notification of writes in a directory by inotify, instead of polling. The process uses one inotify descriptor,
//! since closing one takes the kernel milliseconds, and one watch channel per directory.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The inotify descriptor of this process. It is opened on first use.
#[derive(Default)]
pub(super) struct DirectoryWatcher {
    inotify: Mutex<Option<Arc<Inotify>>>,
}

struct Inotify {
    shared: Arc<WatchTable>,
    reader_task: AbortHandle,
}

struct WatchTable {
    inotify: AsyncFd<OwnedFd>,
    subscribers: Mutex<HashMap<i32, watch::Sender<()>>>,
}

/// A subscription to one directory. Writes between two waits are not lost.
pub(super) struct DirectoryWatch {
    inotify: Arc<Inotify>,
    descriptor: i32,
    changed: watch::Receiver<()>,
}

impl DirectoryWatcher {
    /// Watches a directory. None: it does not exist yet. An error: the kernel's inotify limit is reached.
    pub(super) fn watch(&self, directory: &Path) -> io::Result<Option<DirectoryWatch>> {
        let inotify = self.open()?;
        // Held over both steps, so that a concurrent drop cannot remove the watch that is being added.
        let mut subscribers = inotify.shared.lock();
        let written = WatchFlags::CREATE | WatchFlags::MODIFY;
        let descriptor = match add_watch(inotify.shared.inotify.get_ref(), directory, written) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let changed = subscribers.entry(descriptor).or_insert_with(|| watch::Sender::new(())).subscribe();
        drop(subscribers);
        Ok(Some(DirectoryWatch { inotify, descriptor, changed }))
    }

    fn open(&self) -> io::Result<Arc<Inotify>> {
        let mut open = self.inotify.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*open {
            return Ok(open.clone());
        }
        #[expect(deprecated, reason = "the descriptor is owned here and closed once")]
        let inotify = AsyncFd::new(init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)?;
        let shared = Arc::new(WatchTable { inotify, subscribers: Mutex::default() });
        let reading = shared.clone();
        let reader_task = tokio::spawn(async move { reading.read_loop().await }).abort_handle();
        Ok(open.insert(Arc::new(Inotify { shared, reader_task })).clone())
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        self.reader_task.abort();
    }
}

impl WatchTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, watch::Sender<()>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_loop(&self) {
        // An error here means that the runtime shuts down.
        while let Ok(mut ready) = self.inotify.readable().await {
            self.dispatch_events();
            ready.clear_ready();
        }
    }

    /// Handles all pending inotify events.
    fn dispatch_events(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(self.inotify.get_ref(), &mut buffer);
        while let Ok(event) = events.next() {
            let mut subscribers = self.lock();
            // The kernel dropped events: notify every subscriber.
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                subscribers.values().for_each(|subscriber| subscriber.send_modify(|()| {}));
            } else if let Some(subscriber) = subscribers.get(&event.wd()) {
                subscriber.send_replace(());
            }
            // The directory is gone, and its watch descriptor with it.
            if event.events().contains(ReadFlags::IGNORED) {
                subscribers.remove(&event.wd());
            }
        }
    }
}

impl DirectoryWatch {
    /// Marks all writes so far as seen. Call it before reading.
    pub(super) fn mark_seen(&mut self) {
        self.changed.mark_unchanged();
    }

    /// Waits for a write since the last one seen. Waits forever once the directory is gone.
    pub(super) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for DirectoryWatch {
    fn drop(&mut self) {
        let mut subscribers = self.inotify.shared.lock();
        let is_last =
            subscribers.get(&self.descriptor).is_some_and(|subscriber| subscriber.receiver_count() <= 1);
        if is_last {
            subscribers.remove(&self.descriptor);
            // The kernel has removed the watch of a deleted directory already.
            let _ = remove_watch(self.inotify.shared.inotify.get_ref(), self.descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn every_subscriber_sees_a_write_made_before_it_waits() {
        let (directory, watches) = (tempfile::tempdir().unwrap(), DirectoryWatcher::default());
        let mut one = watches.watch(directory.path()).unwrap().unwrap();
        let mut other = watches.watch(directory.path()).unwrap().unwrap();

        fs::write(directory.path().join("a"), "text").unwrap();

        tokio::time::timeout(SOON, one.changed()).await.unwrap();
        tokio::time::timeout(SOON, other.changed()).await.unwrap();
    }

    #[tokio::test]
    async fn the_watch_of_a_directory_is_removed_with_its_last_subscriber() {
        let (directory, watches) = (tempfile::tempdir().unwrap(), DirectoryWatcher::default());
        let one = watches.watch(directory.path()).unwrap().unwrap();
        let mut other = watches.watch(directory.path()).unwrap().unwrap();
        let shared = one.inotify.shared.clone();

        drop(one);
        fs::write(directory.path().join("a"), "text").unwrap();
        tokio::time::timeout(SOON, other.changed()).await.unwrap();
        drop(other);

        assert!(shared.lock().is_empty());
        let mut again = watches.watch(directory.path()).unwrap().unwrap();
        fs::write(directory.path().join("b"), "text").unwrap();
        tokio::time::timeout(SOON, again.changed()).await.unwrap();
    }

    #[tokio::test]
    async fn a_missing_or_deleted_directory_is_not_an_error() {
        let (directory, watches) = (tempfile::tempdir().unwrap(), DirectoryWatcher::default());
        assert!(watches.watch(&directory.path().join("nothing")).unwrap().is_none());
        let mut watch = watches.watch(directory.path()).unwrap().unwrap();
        let shared = watch.inotify.shared.clone();

        drop(directory);
        let looking = async {
            while !shared.lock().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, looking).await.unwrap();

        watch.mark_seen();
        drop(watch);
        assert!(shared.lock().is_empty());
    }
}
