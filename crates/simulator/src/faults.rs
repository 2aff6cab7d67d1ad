//! Faults beside those of the provider: nodes crash, pause and restart, instances die, the disk fills up, the clock
//! jumps, the host reboots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pinfold_engine::Clock;

use crate::nodes::{NodeSlot, Shared};

#[derive(Clone, Copy)]
enum FaultKind {
    Crash,
    Pause,
    Shutdown,
    InstanceDies,
    DiskFull,
    DiskFails,
    ClockJumps,
    HostRestarts,
    Repair,
}

/// A kind that is listed more often occurs more often.
const FAULT_KINDS: [FaultKind; 16] = [
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Pause,
    FaultKind::Pause,
    FaultKind::Pause,
    FaultKind::Shutdown,
    FaultKind::InstanceDies,
    FaultKind::InstanceDies,
    FaultKind::DiskFull,
    FaultKind::DiskFails,
    FaultKind::ClockJumps,
    FaultKind::HostRestarts,
    FaultKind::Repair,
    FaultKind::Repair,
    FaultKind::Repair,
];

pub(crate) struct FaultInjector {
    pub(crate) shared: Arc<Shared>,
    pub(crate) slots: Arc<Vec<NodeSlot>>,
}

impl FaultInjector {
    /// Injects this many faults. Each run prefers a few kinds.
    pub(crate) async fn inject(&self, count: u64, up_to_ms: u64) {
        let random = &self.shared.random;
        let preferred: Vec<_> = (0..3).filter_map(|_| random.one_of(&FAULT_KINDS)).collect();
        for _ in 0..count {
            tokio::time::sleep(Duration::from_millis(random.below(up_to_ms))).await;
            let kind =
                if random.happens(600) { random.one_of(&preferred) } else { random.one_of(&FAULT_KINDS) };
            match kind.unwrap_or(FaultKind::Repair) {
                FaultKind::Crash => self.crash_one(),
                FaultKind::Pause => self.pause_or_resume_one(),
                FaultKind::Shutdown => self.shut_down_one().await,
                FaultKind::InstanceDies => self.kill_instance(),
                FaultKind::DiskFull => self.toggle_disk_full(),
                FaultKind::DiskFails => self.set_disk_fault_rate(),
                FaultKind::ClockJumps => self.jump(),
                FaultKind::HostRestarts => self.reboot(),
                FaultKind::Repair => self.restart_stopped_nodes().await,
            }
        }
    }

    /// Ends all faults and starts all nodes.
    pub(crate) async fn end_faults(&self) {
        self.shared.checker.trace(|| "all faults end".into());
        self.shared.provider_faults.end_faults();
        self.shared.disk.full.store(false, Ordering::Relaxed);
        self.shared.disk.faults_per_mille.store(0, Ordering::Relaxed);
        for slot in self.slots.iter() {
            match slot.running() {
                Some(running) => running.gate.end_faults(),
                None => slot.start().await,
            }
        }
    }

    fn some_slot(&self) -> Option<&NodeSlot> {
        let index = usize::try_from(self.shared.random.below(self.slots.len() as u64)).unwrap_or(0);
        self.slots.get(index)
    }

    /// Crashes a node at once, or between two of its next steps.
    fn crash_one(&self) {
        let Some(slot) = self.some_slot() else { return };
        if self.shared.random.happens(300) {
            return slot.crash();
        }
        if let Some(running) = slot.running() {
            running.gate.crash_in(self.shared.random.between(1, 200));
        }
    }

    /// Pauses a node between two of its next steps, or resumes it if it is paused.
    fn pause_or_resume_one(&self) {
        let Some(running) = self.some_slot().and_then(NodeSlot::running) else {
            return;
        };
        let node = running.engine.node();
        if running.gate.is_paused() {
            self.shared.checker.trace(|| format!("node {node} resumes"));
            running.gate.resume();
        } else {
            self.shared.checker.trace(|| format!("node {node} pauses soon"));
            running.gate.pause_in(self.shared.random.between(1, 60));
        }
    }

    async fn shut_down_one(&self) {
        if let Some(slot) = self.some_slot() {
            let shutting_down = tokio::time::timeout(Duration::from_secs(5), slot.shut_down());
            // A paused node cannot shut down, so it is killed.
            let _ = shutting_down.await;
        }
    }

    async fn restart_stopped_nodes(&self) {
        for slot in self.slots.iter() {
            if slot.running().is_none() {
                slot.crash();
                let starting = tokio::time::timeout(Duration::from_secs(5), slot.start());
                let _ = starting.await;
            }
        }
    }

    fn kill_instance(&self) {
        let there = self.shared.world.instances(self.shared.clock.now());
        if let Some(physical) = self.shared.random.one_of(&there) {
            self.shared.checker.trace(|| format!("instance {:?} dies", physical.instance));
            self.shared.world.kill_instance(physical.instance, self.shared.random.happens(500));
        }
    }

    fn toggle_disk_full(&self) {
        let full = !self.shared.disk.full.fetch_not(Ordering::Relaxed);
        self.shared.checker.trace(|| format!("the disk is {}", if full { "full" } else { "no longer full" }));
    }

    fn set_disk_fault_rate(&self) {
        let faults = self.shared.random.one_of(&[0, 20, 200]).unwrap_or(0);
        self.shared.disk.faults_per_mille.store(faults, Ordering::Relaxed);
    }

    fn jump(&self) {
        let ahead = i64::try_from(self.shared.random.below(90_000)).unwrap_or(0);
        let ms = if self.shared.random.happens(700) { ahead } else { -ahead / 10 };
        self.shared.checker.trace(|| format!("the clock jumps by {ms} ms"));
        self.shared.clock.jump(ms);
        self.shared.checker.clock_was_set_back(u64::try_from(-ms).unwrap_or(0));
    }

    fn reboot(&self) {
        self.shared.checker.trace(|| "the host reboots".into());
        for slot in self.slots.iter() {
            slot.crash();
        }
        self.shared.world.reboot();
        self.shared.registry.reboot();
    }
}
