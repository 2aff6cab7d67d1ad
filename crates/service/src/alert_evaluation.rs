//! Evaluation of alerts: a loop evaluates all of them every few seconds and commits new states together with the
//! notifications to send. `pinfold-alerts` has the rules, `pinfold-notify` sends the notifications.

mod cleanup_history;
mod evaluate;
mod measure;
mod recent_history;

use std::sync::{Mutex, PoisonError};

use pinfold_alerts::AlertInputs;
use pinfold_lifecycle::Timestamp;

use recent_history::RecentHistory;

pub(crate) use evaluate::evaluate_loop;

/// Alert state of this process. Everything durable is in the store.
#[derive(Default)]
pub(crate) struct AlertRuntime {
    recent: tokio::sync::Mutex<RecentHistory>,
    snapshot: Mutex<Option<AlertSnapshot>>,
}

/// The values of the last evaluation.
#[derive(Debug, Clone)]
pub(crate) struct AlertSnapshot {
    pub(crate) at: Timestamp,
    pub(crate) inputs: AlertInputs,
}

impl AlertRuntime {
    fn remember(&self, snapshot: AlertSnapshot) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    pub(crate) fn last_snapshot(&self) -> Option<AlertSnapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
