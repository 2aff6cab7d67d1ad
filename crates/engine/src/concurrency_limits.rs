//! Semaphores per kind of provider call, so that many launches never delay a stop.

use pinfold_lifecycle::EffectKind;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Config;

pub(crate) struct ConcurrencyLimits {
    launches: Semaphore,
    stops: Semaphore,
    instance_calls: Semaphore,
}

impl ConcurrencyLimits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            launches: Semaphore::new(config.launches),
            stops: Semaphore::new(config.stops),
            instance_calls: Semaphore::new(config.instance_calls),
        }
    }

    /// A permit for an instance call, if one is free.
    pub(crate) fn try_acquire_call(&self) -> Option<SemaphorePermit<'_>> {
        self.instance_calls.try_acquire().ok()
    }

    /// Waits for a permit for this effect. Watching an execution costs nothing and needs none. Collecting artifacts
    /// may take long: it must not delay other calls, and its deadline leaves no time to wait for them.
    pub(crate) async fn acquire(&self, kind: EffectKind) -> Option<SemaphorePermit<'_>> {
        let semaphore = match kind {
            EffectKind::Launch => &self.launches,
            EffectKind::Stop { .. } | EffectKind::Kill { .. } => &self.stops,
            EffectKind::Probe
            | EffectKind::Ping
            | EffectKind::Observe
            | EffectKind::Extend { .. }
            | EffectKind::PutFiles { .. }
            | EffectKind::Exec { .. } => &self.instance_calls,
            EffectKind::Watch { .. } | EffectKind::Collect { .. } => return None,
        };
        semaphore.acquire().await.ok()
    }
}
