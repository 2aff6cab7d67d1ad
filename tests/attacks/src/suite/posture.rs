//! Compares every process inside with its exact expected state: one more descriptor, mount, capability or name
//! fails.

mod expected;
mod hidden;
mod observed;

use std::sync::Arc;

use pinfold_keeper_wire::DisabledGuard;

use crate::fixture::{Fixture, standard_limits};
use crate::host_targets::HostTargets;
use expected::Check;

/// One line per kind, with the differences.
pub(crate) async fn all(targets: &Arc<HostTargets>) -> Vec<(String, Vec<String>)> {
    let mut lines = Vec::new();
    match check_posture(targets, Vec::new()).await {
        Ok(found) => lines.extend(found),
        Err(why) => lines.push(("real sandbox".to_owned(), vec![why])),
    }
    lines.push(("each check fails where it should".to_owned(), notices(targets).await));
    lines
}

async fn check_posture(
    targets: &Arc<HostTargets>,
    disabled_guards: Vec<DisabledGuard>,
) -> Result<Vec<(String, Vec<String>)>, String> {
    let fixture = Fixture::start_with_hostile(targets, |_| disabled_guards, standard_limits()).await?;
    let observed = observed::observe(&fixture).await;
    let found = observed.map(|observed| {
        let line = |(name, check): &(&str, Check)| ((*name).to_owned(), check(&fixture, &observed));
        expected::CHECKS.iter().map(line).collect()
    });
    fixture.end().await?;
    found
}

/// Proves the checks: each must fail in a sandbox with exactly that guard disabled.
async fn notices(targets: &Arc<HostTargets>) -> Vec<String> {
    let canary = match Fixture::prepare(targets) {
        Ok(fixture) => fixture,
        Err(why) => return vec![why],
    };
    let wrong = [
        (DisabledGuard::LeakedDirectory(canary.canary()), "descriptors of an execution"),
        (DisabledGuard::LeakedDirectory(canary.canary()), "descriptors of the keeper"),
        (DisabledGuard::LeakedVariable("x".to_owned()), "environment"),
        (DisabledGuard::InheritableCapabilitiesKept, "capabilities"),
        (DisabledGuard::Capability(1 << 21), "capabilities"),
        (DisabledGuard::NewPrivilegesGranted, "no new privileges, filters"),
        (DisabledGuard::HostLimits, "limits"),
        (DisabledGuard::KeeperReadable, "visible parts of the keeper"),
        (DisabledGuard::HostNetwork, "namespaces"),
        (DisabledGuard::MaskedPathsVisible, "mounts"),
        (DisabledGuard::SetuidHonoured, "mounts"),
        (DisabledGuard::HostDirectory(canary.canary()), "mounts"),
        (DisabledGuard::HostInodes, "mounts"),
    ];
    let mut faults = Vec::new();
    for (weakness, name) in wrong {
        let shown = format!("{weakness:?}");
        match check_posture(targets, vec![weakness]).await {
            Ok(lines) if lines.iter().any(|(line, found)| line == name && !found.is_empty()) => {}
            Ok(_) => faults.push(format!("`{name}` does not detect {shown}")),
            Err(why) => faults.push(format!("{shown}: {why}")),
        }
    }
    faults
}
