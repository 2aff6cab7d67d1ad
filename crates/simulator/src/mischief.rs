//! What goes wrong in a run besides the weather: nodes crash, pause and restart, bodies die, the disk fills up,
//! the clock jumps, the host restarts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pinfold_engine::Clock;

use crate::nodes::{Common, Slot};

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    Pause,
    Shutdown,
    BodyDies,
    DiskFull,
    DiskFails,
    ClockJumps,
    HostRestarts,
    Repair,
}

/// The more often a kind stands here, the more often it happens.
const KINDS: [Kind; 16] = [
    Kind::Crash,
    Kind::Crash,
    Kind::Crash,
    Kind::Pause,
    Kind::Pause,
    Kind::Pause,
    Kind::Shutdown,
    Kind::BodyDies,
    Kind::BodyDies,
    Kind::DiskFull,
    Kind::DiskFails,
    Kind::ClockJumps,
    Kind::HostRestarts,
    Kind::Repair,
    Kind::Repair,
    Kind::Repair,
];

pub(crate) struct Mischief {
    pub(crate) common: Arc<Common>,
    pub(crate) slots: Arc<Vec<Slot>>,
}

impl Mischief {
    /// So many misfortunes, then it is over. Each run has its favourites.
    pub(crate) async fn rage(&self, misfortunes: u64, up_to_ms: u64) {
        let chance = &self.common.chance;
        let favourites: Vec<_> = (0..3).filter_map(|_| chance.one_of(&KINDS)).collect();
        for _ in 0..misfortunes {
            tokio::time::sleep(Duration::from_millis(chance.below(up_to_ms))).await;
            let kind = if chance.hits(600) { chance.one_of(&favourites) } else { chance.one_of(&KINDS) };
            match kind.unwrap_or(Kind::Repair) {
                Kind::Crash => self.crash_one(),
                Kind::Pause => self.pause_or_resume_one(),
                Kind::Shutdown => self.shut_one_down().await,
                Kind::BodyDies => self.kill_a_body(),
                Kind::DiskFull => self.fill_or_empty_the_disk(),
                Kind::DiskFails => self.make_the_disk_fail(),
                Kind::ClockJumps => self.jump(),
                Kind::HostRestarts => self.reboot(),
                Kind::Repair => self.restart_what_is_down().await,
            }
        }
    }

    /// Everything works again.
    pub(crate) async fn calm_down(&self) {
        self.common.checker.say(|| "it calms down".into());
        self.common.storm.calm_down();
        self.common.disk.full.store(false, Ordering::Relaxed);
        self.common.disk.faults_per_mille.store(0, Ordering::Relaxed);
        for slot in self.slots.iter() {
            match slot.running() {
                Some(running) => running.gate.calm_down(),
                None => slot.start().await,
            }
        }
    }

    fn some_slot(&self) -> Option<&Slot> {
        let index = usize::try_from(self.common.chance.below(self.slots.len() as u64)).unwrap_or(0);
        self.slots.get(index)
    }

    /// At once, or between two of its next steps.
    fn crash_one(&self) {
        let Some(slot) = self.some_slot() else { return };
        if self.common.chance.hits(300) {
            return slot.crash();
        }
        if let Some(running) = slot.running() {
            running.gate.crash_in(self.common.chance.between(1, 200));
        }
    }

    /// Between two of its next steps; the next time it wakes up.
    fn pause_or_resume_one(&self) {
        let Some(running) = self.some_slot().and_then(Slot::running) else {
            return;
        };
        let node = running.engine.node();
        if running.gate.is_paused() {
            self.common.checker.say(|| format!("node {node} wakes up"));
            running.gate.resume();
        } else {
            self.common.checker.say(|| format!("node {node} falls asleep soon"));
            running.gate.pause_in(self.common.chance.between(1, 60));
        }
    }

    async fn shut_one_down(&self) {
        if let Some(slot) = self.some_slot() {
            let shutting_down = tokio::time::timeout(Duration::from_secs(5), slot.shut_down());
            // A node that is paused cannot say good-bye: it is killed.
            let _ = shutting_down.await;
        }
    }

    async fn restart_what_is_down(&self) {
        for slot in self.slots.iter() {
            if slot.running().is_none() {
                slot.crash();
                let starting = tokio::time::timeout(Duration::from_secs(5), slot.start());
                let _ = starting.await;
            }
        }
    }

    fn kill_a_body(&self) {
        let there = self.common.world.everything(self.common.clock.now());
        if let Some(physical) = self.common.chance.one_of(&there) {
            self.common.checker.say(|| format!("the body {:?} dies", physical.body));
            self.common.world.kill_body(physical.body, self.common.chance.hits(500));
        }
    }

    fn fill_or_empty_the_disk(&self) {
        let full = !self.common.disk.full.fetch_not(Ordering::Relaxed);
        self.common.checker.say(|| format!("the disk is {}", if full { "full" } else { "no longer full" }));
    }

    fn make_the_disk_fail(&self) {
        let faults = self.common.chance.one_of(&[0, 20, 200]).unwrap_or(0);
        self.common.disk.faults_per_mille.store(faults, Ordering::Relaxed);
    }

    fn jump(&self) {
        let ahead = i64::try_from(self.common.chance.below(90_000)).unwrap_or(0);
        let ms = if self.common.chance.hits(700) { ahead } else { -ahead / 10 };
        self.common.checker.say(|| format!("the clock jumps by {ms} ms"));
        self.common.clock.jump(ms);
        self.common.checker.clock_was_set_back(u64::try_from(-ms).unwrap_or(0));
    }

    fn reboot(&self) {
        self.common.checker.say(|| "the host restarts".into());
        for slot in self.slots.iter() {
            slot.crash();
        }
        self.common.world.reboot();
        self.common.roster.reboot();
    }
}
