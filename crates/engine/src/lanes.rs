//! Bounded concurrency per kind of call to the provider: a rush of launches never holds up a stop.

use pinfold_lifecycle::EffectKind;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Config;

pub(crate) struct Lanes {
    launches: Semaphore,
    stops: Semaphore,
    questions: Semaphore,
}

impl Lanes {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            launches: Semaphore::new(config.launches),
            stops: Semaphore::new(config.stops),
            questions: Semaphore::new(config.questions),
        }
    }

    /// A place for a question, if one is free.
    pub(crate) fn free_place(&self) -> Option<SemaphorePermit<'_>> {
        self.questions.try_acquire().ok()
    }

    /// A place for this work. Waiting for the end of an execution costs nothing and takes none.
    pub(crate) async fn place(&self, work: EffectKind) -> Option<SemaphorePermit<'_>> {
        let lane = match work {
            EffectKind::Launch => &self.launches,
            EffectKind::Stop { .. } | EffectKind::Kill { .. } => &self.stops,
            EffectKind::Probe
            | EffectKind::Ping
            | EffectKind::Look
            | EffectKind::Extend { .. }
            | EffectKind::Exec { .. } => &self.questions,
            EffectKind::Watch { .. } => return None,
        };
        lane.acquire().await.ok()
    }
}
