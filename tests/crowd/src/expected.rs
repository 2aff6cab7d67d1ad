//! Which alerts a crowd is expected to raise, by their rules as they are written down for users.

use pinfold_lifecycle::Cause;

use crate::alerts::{About, Alerts};
use crate::crowd::Crowd;

/// More than that many active ones at once, and for some minutes.
const ACTIVE_HIGH: usize = 50;
const LEAK: usize = 20;

impl Alerts {
    /// All of them are there, and none is seen to.
    #[must_use]
    pub fn expected_before_the_turn(crowd: &Crowd) -> Self {
        let mut fired = too_many(active_before(crowd));
        fired.extend(over_after_the_turn(crowd));
        Self { firing: fired.clone(), resolved: Vec::new(), fired }.in_order()
    }

    /// Work that had fallen silent has come to its end, and what never started, and that is told of each.
    #[must_use]
    pub fn expected_after_the_turn(crowd: &Crowd) -> Self {
        let (before, after) = (too_many(active_before(crowd)), too_many(crowd.at_work.len()));
        let mut timeouts = each(crowd, Cause::Inactivity, "timeout");
        timeouts.extend(each(crowd, Cause::StartDeadline, "timeout"));
        let mut resolved: Vec<_> = before.iter().filter(|it| !after.contains(it)).cloned().collect();
        resolved.extend(over_after_the_turn(crowd));
        let mut fired = before;
        fired.extend(over_after_the_turn(crowd));
        fired.extend(timeouts.clone());
        let mut firing = after;
        firing.extend(timeouts);
        Self { fired, resolved, firing }.in_order()
    }
}

/// Past deadlines, and probes that fail.
fn over_after_the_turn(crowd: &Crowd) -> Vec<About> {
    let mut all = each(crowd, Cause::MaxLife, "stuck");
    all.extend([About::all("sandbox_stuck"), About::all("status_disagrees_with_probe")]);
    all
}

fn too_many(active: usize) -> Vec<About> {
    let leak = (active > LEAK).then(|| About::all("sandbox_leak_detected"));
    let high = (active > ACTIVE_HIGH).then(|| About::all("sandbox_active_high"));
    leak.into_iter().chain(high).collect()
}

/// All but those that were never launched.
fn active_before(crowd: &Crowd) -> usize {
    crowd.at_work.len() + crowd.stuck.values().filter(|cause| **cause != Cause::StartDeadline).count()
}

fn each(crowd: &Crowd, stuck_by: Cause, event: &str) -> Vec<About> {
    let those = crowd.stuck.iter().filter(|(_, cause)| **cause == stuck_by);
    let about = |id: String| About { name: "sandbox_event".into(), subject: Some((event.into(), id)) };
    those.map(|(id, _)| about(id.to_string())).collect()
}
