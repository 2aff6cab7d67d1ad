//! The gate of a node. Every call of the node to the outside passes it, before and after, and the node is paused or
//! crashed at it. So both can occur between any two steps.

use std::future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Gate {
    crashed: AtomicBool,
    paused: AtomicBool,
    resume_notify: Notify,
    crash_notify: Notify,
    steps: AtomicU64,
    /// The step before which the node crashes, and the one before which it pauses. Zero: none.
    crash_step: AtomicU64,
    pause_step: AtomicU64,
}

impl Gate {
    /// One step. It never returns for a crashed node.
    pub(crate) async fn pass(&self) {
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let last = self.crash_step.load(Ordering::Relaxed);
        if last != 0 && step >= last {
            self.crash();
        }
        let pause_at = self.pause_step.load(Ordering::Relaxed);
        if pause_at != 0 && step >= pause_at {
            self.pause_step.store(0, Ordering::Relaxed);
            self.paused.store(true, Ordering::Relaxed);
        }
        loop {
            if self.crashed.load(Ordering::Relaxed) {
                future::pending::<()>().await;
            }
            let resume_notify = self.resume_notify.notified();
            if !self.paused.load(Ordering::Relaxed) {
                return;
            }
            resume_notify.await;
        }
    }

    pub(crate) fn crash(&self) {
        self.crashed.store(true, Ordering::Relaxed);
        self.crash_notify.notify_waiters();
    }

    pub(crate) fn crash_in(&self, steps: u64) {
        self.crash_step.store(self.steps.load(Ordering::Relaxed) + steps, Ordering::Relaxed);
    }

    pub(crate) fn pause_in(&self, steps: u64) {
        self.pause_step.store(self.steps.load(Ordering::Relaxed) + steps, Ordering::Relaxed);
    }

    /// Cancels planned crashes and pauses, and resumes the node.
    pub(crate) fn end_faults(&self) {
        self.crash_step.store(0, Ordering::Relaxed);
        self.pause_step.store(0, Ordering::Relaxed);
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
        self.resume_notify.notify_waiters();
    }

    pub(crate) async fn wait_for_crash(&self) {
        loop {
            let crash_notify = self.crash_notify.notified();
            if self.has_crashed() {
                return;
            }
            crash_notify.await;
        }
    }
}
