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
    watches: &'a Watches,
    outputs: PathBuf,
    output: Output,
}

enum Output {
    NotThereYet,
    Watched(Watch),
    /// The kernel refuses.
    Untold,
}

impl Service {
    pub(super) fn news_of(&self, sandbox: SandboxId) -> News<'_> {
        News {
            changes: self.host.engine.listen(sandbox),
            watches: &self.host.watches,
            outputs: self.host.provider.outputs().join(sandbox.to_string()),
            output: Output::NotThereYet,
        }
    }
}

impl News<'_> {
    /// To be called before each look: what comes after it is told.
    pub(super) fn catch_up(&mut self) {
        self.changes.catch_up();
        match &mut self.output {
            // It is made before the sandbox is ready, and that is told by the engine.
            Output::NotThereYet => {
                self.output = match self.watches.listen(&self.outputs) {
                    Ok(None) => Output::NotThereYet,
                    Ok(Some(watch)) => Output::Watched(watch),
                    Err(error) => {
                        tracing::warn!(%error, "output is looked for again and again: nobody tells of it");
                        Output::Untold
                    }
                };
            }
            Output::Watched(watch) => watch.catch_up(),
            Output::Untold => {}
        }
    }

    /// Waits until there may be more than at the last look.
    pub(super) async fn come(&mut self) {
        let Self { changes, output, .. } = self;
        let written = async {
            match output {
                Output::Watched(watch) => watch.written().await,
                Output::NotThereYet => tokio::time::sleep(ANYWAY).await,
                Output::Untold => tokio::time::sleep(UNTOLD).await,
            }
        };
        tokio::select! {
            () = changes.changed() => {}
            () = written => {}
            () = tokio::time::sleep(ANYWAY) => {}
        }
    }
}
