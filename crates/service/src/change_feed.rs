//! Notification that a sandbox may have new data: from the engine about committed changes, and from the kernel about
//! written output. Streams wait for it instead of polling.

use std::path::PathBuf;
use std::time::Duration;

use pinfold_engine::ChangeListener;
use pinfold_lifecycle::SandboxId;

use super::Service;
use crate::directory_watch::{DirectoryWatch, DirectoryWatcher};

/// Fallback poll interval, in case a notification is missed.
pub(super) const FALLBACK_POLL: Duration = Duration::from_secs(2);
/// Poll interval where inotify is not available.
const UNWATCHED_POLL: Duration = Duration::from_millis(20);

pub(super) struct ChangeFeed<'a> {
    changes: ChangeListener,
    output: OutputWatch<'a>,
}

/// The output directory of a sandbox's executions.
struct OutputWatch<'a> {
    watcher: &'a DirectoryWatcher,
    directory: PathBuf,
    state: WatchState,
}

enum WatchState {
    /// The directory does not exist yet. It is created before the sandbox is ready, which the engine announces.
    Missing,
    Active(DirectoryWatch),
    /// inotify is not available.
    Unavailable,
}

impl Service {
    pub(super) fn change_feed(&self, sandbox: SandboxId) -> ChangeFeed<'_> {
        let directory = self.host.linux.outputs().join(sandbox.to_string());
        let output = OutputWatch { watcher: &self.host.watcher, directory, state: WatchState::Missing };
        ChangeFeed { changes: self.host.engine.listen(sandbox), output }
    }
}

impl ChangeFeed<'_> {
    /// Marks all changes so far as seen. Call it before each read, so that later changes are noticed.
    pub(super) fn mark_seen(&mut self) {
        self.changes.catch_up();
        self.output.mark_seen();
    }

    /// Waits until there may be new data.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = self.changes.changed() => {}
            () = self.output.changed() => {}
        }
    }
}

impl OutputWatch<'_> {
    fn mark_seen(&mut self) {
        match &mut self.state {
            WatchState::Missing => {
                self.state = match self.watcher.watch(&self.directory) {
                    Ok(None) => WatchState::Missing,
                    Ok(Some(watch)) => WatchState::Active(watch),
                    Err(error) => {
                        tracing::warn!(%error, "inotify is not available, polling for output");
                        WatchState::Unavailable
                    }
                };
            }
            WatchState::Active(watch) => watch.mark_seen(),
            WatchState::Unavailable => {}
        }
    }

    async fn changed(&mut self) {
        let poll = match self.state {
            WatchState::Unavailable => UNWATCHED_POLL,
            WatchState::Missing | WatchState::Active(_) => FALLBACK_POLL,
        };
        let notified = async {
            match &mut self.state {
                WatchState::Active(watch) => watch.changed().await,
                WatchState::Missing | WatchState::Unavailable => std::future::pending().await,
            }
        };
        tokio::select! {
            () = notified => {}
            () = tokio::time::sleep(poll) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::Instant;

    use super::*;

    // The clock is paused while any task can run, so a notified task sees no time pass.
    #[tokio::test(start_paused = true)]
    async fn written_output_is_noticed_without_polling() {
        let (home, watcher) = (tempfile::tempdir().unwrap(), DirectoryWatcher::default());
        let directory = home.path().join("outputs");
        let mut output =
            OutputWatch { watcher: &watcher, directory: directory.clone(), state: WatchState::Missing };
        output.mark_seen();
        fs::create_dir(&directory).unwrap();
        // The engine has announced that the sandbox is ready.
        output.mark_seen();
        let begun = Instant::now();

        for text in ["one", "two"] {
            fs::write(directory.join("execution.0.log"), text).unwrap();
            output.changed().await;
            output.mark_seen();
        }

        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_write_the_fallback_poll_returns() {
        let (home, watcher) = (tempfile::tempdir().unwrap(), DirectoryWatcher::default());
        let directory = home.path().to_path_buf();
        let mut output = OutputWatch { watcher: &watcher, directory, state: WatchState::Missing };
        output.mark_seen();
        let begun = Instant::now();

        output.changed().await;

        assert!(begun.elapsed() >= FALLBACK_POLL);
    }
}
