//! The alerts that these sandboxes must raise, by the documented rules.

use pinfold_lifecycle::Cause;

use crate::alerts::{AlertKey, ReportedAlerts};
use crate::sandboxes::Sandboxes;

/// Thresholds of active sandboxes.
const ACTIVE_HIGH: usize = 50;
const LEAK: usize = 20;

impl ReportedAlerts {
    /// Before the cleanup all sandboxes exist.
    #[must_use]
    pub fn expected_before_cleanup(sandboxes: &Sandboxes) -> Self {
        let mut fired = count_alerts(active_before(sandboxes));
        fired.extend(resolved_by_cleanup(sandboxes));
        Self { firing: fired.clone(), resolved: Vec::new(), fired }.sorted()
    }

    /// After the cleanup: silent and never started sandboxes have ended, each with a timeout event.
    #[must_use]
    pub fn expected_after_cleanup(sandboxes: &Sandboxes) -> Self {
        let (before, after) = (count_alerts(active_before(sandboxes)), count_alerts(sandboxes.working.len()));
        let mut timeouts = event_alerts(sandboxes, Cause::Inactivity, "timeout");
        timeouts.extend(event_alerts(sandboxes, Cause::StartDeadline, "timeout"));
        let mut resolved: Vec<_> = before.iter().filter(|it| !after.contains(it)).cloned().collect();
        resolved.extend(resolved_by_cleanup(sandboxes));
        let mut fired = before;
        fired.extend(resolved_by_cleanup(sandboxes));
        fired.extend(timeouts.clone());
        let mut firing = after;
        firing.extend(timeouts);
        Self { fired, resolved, firing }.sorted()
    }
}

/// Alerts about missed deadlines and failing probes, which the cleanup resolves.
fn resolved_by_cleanup(sandboxes: &Sandboxes) -> Vec<AlertKey> {
    let mut all = event_alerts(sandboxes, Cause::MaxLife, "stuck");
    all.extend([AlertKey::all("sandbox_stuck"), AlertKey::all("status_disagrees_with_probe")]);
    all
}

fn count_alerts(active: usize) -> Vec<AlertKey> {
    let leak = (active > LEAK).then(|| AlertKey::all("sandbox_leak_detected"));
    let high = (active > ACTIVE_HIGH).then(|| AlertKey::all("sandbox_active_high"));
    leak.into_iter().chain(high).collect()
}

/// All but those that were never launched.
fn active_before(sandboxes: &Sandboxes) -> usize {
    sandboxes.working.len() + sandboxes.stuck.values().filter(|cause| **cause != Cause::StartDeadline).count()
}

fn event_alerts(sandboxes: &Sandboxes, stuck_by: Cause, event: &str) -> Vec<AlertKey> {
    let those = sandboxes.stuck.iter().filter(|(_, cause)| **cause == stuck_by);
    let about = |id: String| AlertKey { name: "sandbox_event".into(), subject: Some((event.into(), id)) };
    those.map(|(id, _)| about(id.to_string())).collect()
}
