//! Being told when something is written in a directory, instead of looking again and again: one descriptor of the
//! kernel's for the whole process, since to close one takes it milliseconds, and a bell for each directory that
//! somebody listens to.

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

/// Nothing is opened before somebody listens.
#[derive(Default)]
pub(crate) struct Watches {
    open: Mutex<Option<Arc<Open>>>,
}

struct Open {
    shared: Arc<Shared>,
    ringer: AbortHandle,
}

struct Shared {
    told: AsyncFd<OwnedFd>,
    bells: Mutex<HashMap<i32, watch::Sender<()>>>,
}

/// One who listens to a directory. What is written while it does not wait is not lost.
pub(crate) struct Watch {
    open: Arc<Open>,
    number: i32,
    bell: watch::Receiver<()>,
}

impl Watches {
    /// None: there is no such directory yet. An error: the kernel has no more of these to give.
    pub(crate) fn listen(&self, directory: &Path) -> io::Result<Option<Watch>> {
        let open = self.open()?;
        // Held over both, so that nobody takes down what is just being put up.
        let mut bells = open.shared.lock();
        let written = WatchFlags::CREATE | WatchFlags::MODIFY;
        let number = match add_watch(open.shared.told.get_ref(), directory, written) {
            Ok(number) => number,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let bell = bells.entry(number).or_insert_with(|| watch::Sender::new(())).subscribe();
        drop(bells);
        Ok(Some(Watch { open, number, bell }))
    }

    fn open(&self) -> io::Result<Arc<Open>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*open {
            return Ok(open.clone());
        }
        #[expect(deprecated, reason = "the descriptor is its own, and nobody else closes it")]
        let told = AsyncFd::new(init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)?;
        let shared = Arc::new(Shared { told, bells: Mutex::default() });
        let ringing = shared.clone();
        let ringer = tokio::spawn(async move { ringing.ring_on().await }).abort_handle();
        Ok(open.insert(Arc::new(Open { shared, ringer })).clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.ringer.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, watch::Sender<()>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ring_on(&self) {
        // An error here is the runtime's end.
        while let Ok(mut ready) = self.told.readable().await {
            self.ring();
            ready.clear_ready();
        }
    }

    /// For all that the kernel has told so far.
    fn ring(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut told = Reader::new(self.told.get_ref(), &mut buffer);
        while let Ok(event) = told.next() {
            let mut bells = self.lock();
            // Too much at once to tell of each: whoever listens looks.
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                bells.values().for_each(|bell| bell.send_modify(|()| {}));
            } else if let Some(bell) = bells.get(&event.wd()) {
                bell.send_replace(());
            }
            // The directory is gone, and its number with it.
            if event.events().contains(ReadFlags::IGNORED) {
                bells.remove(&event.wd());
            }
        }
    }
}

impl Watch {
    /// Whoever is about to look sees all that was told so far.
    pub(crate) fn catch_up(&mut self) {
        self.bell.mark_unchanged();
    }

    /// Waits for something to be written since the last that was told of. Where the directory is gone, nothing is any
    /// more.
    pub(crate) async fn written(&mut self) {
        if self.bell.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut bells = self.open.shared.lock();
        let is_last = bells.get(&self.number).is_some_and(|bell| bell.receiver_count() <= 1);
        if is_last {
            bells.remove(&self.number);
            // What is gone already needs no taking down.
            let _ = remove_watch(self.open.shared.told.get_ref(), self.number);
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
    async fn whoever_listens_is_told_of_what_is_written_also_before_the_wait() {
        let (directory, watches) = (tempfile::tempdir().unwrap(), Watches::default());
        let mut one = watches.listen(directory.path()).unwrap().unwrap();
        let mut other = watches.listen(directory.path()).unwrap().unwrap();

        fs::write(directory.path().join("a"), "text").unwrap();

        tokio::time::timeout(SOON, one.written()).await.unwrap();
        tokio::time::timeout(SOON, other.written()).await.unwrap();
    }

    #[tokio::test]
    async fn the_bell_of_a_directory_is_taken_down_with_its_last_listener() {
        let (directory, watches) = (tempfile::tempdir().unwrap(), Watches::default());
        let one = watches.listen(directory.path()).unwrap().unwrap();
        let mut other = watches.listen(directory.path()).unwrap().unwrap();
        let shared = one.open.shared.clone();

        drop(one);
        fs::write(directory.path().join("a"), "text").unwrap();
        tokio::time::timeout(SOON, other.written()).await.unwrap();
        drop(other);

        assert!(shared.lock().is_empty());
        let mut again = watches.listen(directory.path()).unwrap().unwrap();
        fs::write(directory.path().join("b"), "text").unwrap();
        tokio::time::timeout(SOON, again.written()).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_not_there_or_goes_away_is_no_error() {
        let (directory, watches) = (tempfile::tempdir().unwrap(), Watches::default());
        assert!(watches.listen(&directory.path().join("nothing")).unwrap().is_none());
        let mut watch = watches.listen(directory.path()).unwrap().unwrap();
        let shared = watch.open.shared.clone();

        drop(directory);
        let looking = async {
            while !shared.lock().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, looking).await.unwrap();

        watch.catch_up();
        drop(watch);
        assert!(shared.lock().is_empty());
    }
}
