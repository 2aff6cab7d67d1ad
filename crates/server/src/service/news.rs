//! Hearing that there may be more to read of a sandbox: from the engine, which knows what was decided, and from the
//! kernel, which knows what was written. Who follows something looks when it is told to, and not before.

use std::path::PathBuf;
use std::time::Duration;

use pinfold_engine::Listener;
use pinfold_lifecycle::SandboxId;

use super::Service;
use crate::watches::{Watch, Watches};

/// How often is looked although nobody told, for whatever nobody thought of.
pub(super) const ANYWAY: Duration = Duration::from_secs(2);
/// The same where the kernel does not tell of what is written.
const UNTOLD: Duration = Duration::from_millis(20);

pub(super) struct News<'a> {
    changes: Listener,
    output: Output<'a>,
}

/// What executions of a sandbox write.
struct Output<'a> {
    watches: &'a Watches,
    directory: PathBuf,
    watched: Watched,
}

enum Watched {
    /// The directory is made before the sandbox is ready, and that is told by the engine.
    NotYet,
    Yes(Watch),
    /// The kernel refuses.
    No,
}

impl Service {
    pub(super) fn news_of(&self, sandbox: SandboxId) -> News<'_> {
        let directory = self.host.provider.outputs().join(sandbox.to_string());
        let output = Output { watches: &self.host.watches, directory, watched: Watched::NotYet };
        News { changes: self.host.engine.listen(sandbox), output }
    }
}

impl News<'_> {
    /// To be called before each look: what comes after it is told.
    pub(super) fn catch_up(&mut self) {
        self.changes.catch_up();
        self.output.catch_up();
    }

    /// Waits until there may be more than at the last look.
    pub(super) async fn come(&mut self) {
        tokio::select! {
            () = self.changes.changed() => {}
            () = self.output.written() => {}
        }
    }
}

impl Output<'_> {
    fn catch_up(&mut self) {
        match &mut self.watched {
            Watched::NotYet => {
                self.watched = match self.watches.listen(&self.directory) {
                    Ok(None) => Watched::NotYet,
                    Ok(Some(watch)) => Watched::Yes(watch),
                    Err(error) => {
                        tracing::warn!(%error, "output is looked for again and again: nobody tells of it");
                        Watched::No
                    }
                };
            }
            Watched::Yes(watch) => watch.catch_up(),
            Watched::No => {}
        }
    }

    async fn written(&mut self) {
        let look = match self.watched {
            Watched::No => UNTOLD,
            Watched::NotYet | Watched::Yes(_) => ANYWAY,
        };
        let told = async {
            match &mut self.watched {
                Watched::Yes(watch) => watch.written().await,
                Watched::NotYet | Watched::No => std::future::pending().await,
            }
        };
        tokio::select! {
            () = told => {}
            () = tokio::time::sleep(look) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::Instant;

    use super::*;

    // Time stands still for as long as anything else can happen, so whoever was told has not waited at all.
    #[tokio::test(start_paused = true)]
    async fn what_is_written_is_told_without_looking_for_it() {
        let (home, watches) = (tempfile::tempdir().unwrap(), Watches::default());
        let directory = home.path().join("outputs");
        let mut output = Output { watches: &watches, directory: directory.clone(), watched: Watched::NotYet };
        output.catch_up();
        fs::create_dir(&directory).unwrap();
        // The engine has told that it is ready.
        output.catch_up();
        let begun = Instant::now();

        for text in ["one", "two"] {
            fs::write(directory.join("execution.0.log"), text).unwrap();
            output.written().await;
            output.catch_up();
        }

        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nothing_is_written_it_is_looked_all_the_same_but_seldom() {
        let (home, watches) = (tempfile::tempdir().unwrap(), Watches::default());
        let directory = home.path().to_path_buf();
        let mut output = Output { watches: &watches, directory, watched: Watched::NotYet };
        output.catch_up();
        let begun = Instant::now();

        output.written().await;

        assert!(begun.elapsed() >= ANYWAY);
    }
}
