//! Alerts at work: figures are looked at every few seconds, what follows from them is committed with all that is to be
//! delivered, and each receiver has a carrier of its own, so that one that hangs holds up nobody else.

mod carrier;
mod channels;
mod cleanups;
mod config;
mod email;
mod evaluate;
mod figures;
mod notice;
pub(crate) mod post;
mod slack;
mod tail;
mod targets;
mod webhook;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pinfold_alerts::Figures;
use pinfold_lifecycle::Timestamp;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use config::{AlertsConfig, Hidden, Perseverance, Receivers, Routes, Smtp, SmtpSecurity, Webhook};
pub use targets::{Channel, Target};

pub(crate) use notice::{event, impact, notice, runbook_of, severity};

use crate::Service;
use post::Post;
use tail::Tail;

/// What one process remembers of alerts. All that matters is in the store.
#[derive(Default)]
pub(crate) struct Desk {
    tail: tokio::sync::Mutex<Tail>,
    seen: Mutex<Option<Seen>>,
    /// There is something to deliver.
    wake: Notify,
    post: OnceLock<Post>,
}

/// The figures of the last look.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Timestamp,
    pub(crate) figures: Figures,
}

impl Desk {
    fn remember(&self, seen: Seen) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }

    pub(crate) fn last_seen(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Never ends by itself.
pub(crate) async fn watch(service: Arc<Service>) {
    let mut work = JoinSet::new();
    for target in service.rules().alerts.targets() {
        work.spawn(carrier::carry(service.clone(), target));
    }
    work.spawn(evaluate::keep_looking(service));
    while work.join_next().await.is_some() {}
}
