//! Notification that a sandbox may have new data: from the engine about committed changes, and from the provider about
//! written output. Streams wait for it instead of polling.

use std::time::Duration;

use pinfold_engine::ChangeListener;
use pinfold_lifecycle::SandboxId;
use pinfold_provider::OutputWatch;

use super::Service;

/// Fallback poll interval, in case a notification is missed.
pub(super) const FALLBACK_POLL: Duration = Duration::from_secs(2);

pub(super) struct ChangeFeed {
    changes: ChangeListener,
    output: Box<dyn OutputWatch>,
}

impl Service {
    pub(super) fn change_feed(&self, sandbox: SandboxId) -> ChangeFeed {
        ChangeFeed {
            changes: self.host.engine.listen(sandbox),
            output: self.host.provider.output().watch(sandbox),
        }
    }
}

impl ChangeFeed {
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
