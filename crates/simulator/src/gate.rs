//! The gate that every call of a node to the outside passes, before and after. A node is paused or crashed at
//! its gate, so that either can come between any two steps.

use std::future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Gate {
    crashed: AtomicBool,
    paused: AtomicBool,
    opened: Notify,
    fell: Notify,
    steps: AtomicU64,
    /// The step that is the last one, and the one before which it falls asleep. Zero: none is.
    last_step: AtomicU64,
    sleepy_step: AtomicU64,
}

impl Gate {
    /// One step. It never comes back for a node that has crashed.
    pub(crate) async fn pass(&self) {
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let last = self.last_step.load(Ordering::Relaxed);
        if last != 0 && step >= last {
            self.crash();
        }
        let sleepy = self.sleepy_step.load(Ordering::Relaxed);
        if sleepy != 0 && step >= sleepy {
            self.sleepy_step.store(0, Ordering::Relaxed);
            self.paused.store(true, Ordering::Relaxed);
        }
        loop {
            if self.crashed.load(Ordering::Relaxed) {
                future::pending::<()>().await;
            }
            let opened = self.opened.notified();
            if !self.paused.load(Ordering::Relaxed) {
                return;
            }
            opened.await;
        }
    }

    pub(crate) fn crash(&self) {
        self.crashed.store(true, Ordering::Relaxed);
        self.fell.notify_waiters();
    }

    pub(crate) fn crash_in(&self, steps: u64) {
        self.last_step.store(self.steps.load(Ordering::Relaxed) + steps, Ordering::Relaxed);
    }

    pub(crate) fn pause_in(&self, steps: u64) {
        self.sleepy_step.store(self.steps.load(Ordering::Relaxed) + steps, Ordering::Relaxed);
    }

    /// Nothing more happens to this node.
    pub(crate) fn calm_down(&self) {
        self.last_step.store(0, Ordering::Relaxed);
        self.sleepy_step.store(0, Ordering::Relaxed);
        self.resume();
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::Relaxed)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(crate) fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
        self.opened.notify_waiters();
    }

    pub(crate) async fn fallen(&self) {
        loop {
            let fell = self.fell.notified();
            if self.has_crashed() {
                return;
            }
            fell.await;
        }
    }
}
