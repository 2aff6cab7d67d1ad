//! Waits for output of one sandbox: by inotify, with a slow poll in case a notification is missed, or by a fast poll where
//! inotify is not available.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_provider::OutputWatch;

use super::directory_watch::{DirectoryWatch, DirectoryWatcher};

/// Fallback poll interval, in case a notification is missed.
const FALLBACK_POLL: Duration = Duration::from_secs(2);
/// Poll interval where inotify is not available.
const UNWATCHED_POLL: Duration = Duration::from_millis(20);

pub(super) struct SandboxWatch {
    watcher: Arc<DirectoryWatcher>,
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

impl SandboxWatch {
    pub(super) fn new(watcher: Arc<DirectoryWatcher>, directory: PathBuf) -> Self {
        Self { watcher, directory, state: WatchState::Missing }
    }
}

#[async_trait]
impl OutputWatch for SandboxWatch {
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
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("outputs");
        let mut output = SandboxWatch::new(Arc::default(), directory.clone());
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
        let home = tempfile::tempdir().unwrap();
        let mut output = SandboxWatch::new(Arc::default(), home.path().to_path_buf());
        output.mark_seen();
        let begun = Instant::now();

        output.changed().await;

        assert!(begun.elapsed() >= FALLBACK_POLL);
    }
}
