//! Stops an instance: asks it to terminate, kills it, and verifies that nothing is left.

use std::time::Duration;

use pinfold_backoff::Backoff;
use pinfold_keeper_wire::{Request, Response};
use pinfold_lifecycle::{Finding, Generation, Receipt, ReceiptCheck, ResourceUsage, StopOutcome, Timestamp};
use pinfold_provider::InstanceId;

use crate::blocking::run_blocking;
use crate::cgroup::Cgroups;
use crate::cgroup_record;
use crate::control::query;
use crate::observe;
use crate::paths::InstancePaths;
use crate::provider::LinuxProvider;
use crate::teardown::{Teardown, wait_for_devices};
use crate::usage::{FINAL_USAGE_TIMEOUT, KeeperUsage, keeper_usage, merge};

/// Poll interval while executions terminate.
const POLL_PAUSES: Backoff = Backoff::from_ms(2, 20).growing_by_half();

/// Stop of one instance and of all earlier generations of its sandbox.
struct Stop {
    instance: InstanceId,
    paths: InstancePaths,
    cgroups: Cgroups,
    targets: Vec<(InstanceId, Teardown, KeeperUsage)>,
    /// Later generations, which this stop must not touch.
    later: Vec<InstanceId>,
}

impl LinuxProvider {
    pub(crate) async fn stop_instances(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        self.launches_in_flight.wait_until_none(instance.sandbox).await;
        let instances = match self.instances_of(instance.sandbox).await {
            Ok(instances) => instances,
            Err(error) => return StopOutcome::Unknown { why: format!("could not list instances: {error}") },
        };
        let (targets, later): (Vec<_>, Vec<_>) =
            instances.into_iter().partition(|found| found.generation <= instance.generation);
        let mut stop = Stop {
            instance,
            paths: self.data_paths.of(instance),
            cgroups: self.cgroups.clone(),
            targets: Vec::new(),
            later,
        };
        targets.iter().for_each(|found| self.keepers.forget(*found));
        for found in targets.iter().filter(|_| grace_ms > 0) {
            self.terminate_gracefully(&self.data_paths.of(*found), grace_ms).await;
        }
        let pending_kill = self.kill_batcher.register();
        // Ask the keeper for its figures first: files in memory and counters kept by the keeper are lost at its end.
        for found in targets {
            let teardown = self.teardown(self.data_paths.of(found));
            let keeper_figures = if pending_kill.is_batched {
                pending_kill.kill(kill(teardown.clone())).await
            } else {
                keeper_usage(&teardown.paths, FINAL_USAGE_TIMEOUT).await
            };
            stop.targets.push((found, teardown, keeper_figures));
        }
        let _removal_permit = pending_kill.wait_for_removal().await;
        match run_blocking(move || Ok(stop.end())).await {
            Ok(Ok(stopped)) => StopOutcome::Gone(Box::new(stopped.receipt(instance.generation, self.now()))),
            Ok(Err(outcome)) => outcome,
            Err(error) => StopOutcome::Unknown { why: error.to_string() },
        }
    }

    pub(crate) fn teardown(&self, paths: InstancePaths) -> Teardown {
        Teardown { paths, cgroups: self.cgroups.clone(), ids: self.ids.clone() }
    }

    /// Sends SIGTERM to all executions and waits up to the grace period; the rest is killed afterwards.
    async fn terminate_gracefully(&self, paths: &InstancePaths, grace_ms: u64) {
        let end = tokio::time::Instant::now() + Duration::from_millis(grace_ms);
        if query(paths, &Request::Terminate).await.is_err() {
            return;
        }
        let mut backoff = POLL_PAUSES;
        while tokio::time::Instant::now() < end {
            match query(paths, &Request::List).await {
                Ok(Response::Executions(executions)) if executions.iter().any(|e| e.ended.is_none()) => {}
                Ok(_) | Err(_) => return,
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }
}

/// Kills an instance and waits shortly for its keeper. Errors are ignored here: the teardown meets them again and
/// reports them.
async fn kill(teardown: Teardown) -> KeeperUsage {
    let keeper_figures = keeper_usage(&teardown.paths, FINAL_USAGE_TIMEOUT).await;
    let _reported_by_teardown = tokio::task::spawn_blocking(move || teardown.kill()).await;
    keeper_figures
}

/// Result of a stop after which nothing is left.
struct Stopped {
    used: Option<ResourceUsage>,
    freed_bytes: u64,
    checks: Vec<ReceiptCheck>,
}

impl Stop {
    /// Tears the instances down and verifies their absence.
    fn end(self) -> Result<Stopped, StopOutcome> {
        let (mut used, mut groups, mut freed_bytes) = (None, None, 0);
        for (found, teardown, keeper_figures) in self.targets {
            let failed = |error| StopOutcome::Unknown {
                why: format!("could not stop an instance of {}: {error}", found.sandbox),
            };
            let in_memory =
                if teardown.paths.storage.exists() { 0 } else { keeper_figures.disk_bytes.unwrap_or(0) };
            let ended = match teardown.end() {
                Ok(ended) => ended,
                Err(error) if found == self.instance => {
                    let left = describe_leftovers(&self.paths, &self.cgroups, &error);
                    return Err(left.unwrap_or_else(|| failed(error)));
                }
                Err(error) => return Err(failed(error)),
            };
            freed_bytes += in_memory + ended.freed_bytes;
            if found == self.instance {
                used = Some(merge(&ended.usage, &keeper_figures));
                groups = Some(ended.groups);
            } else {
                // The final checks cover only the requested generation.
                wait_for_devices(&teardown.paths.storage).map_err(failed)?;
            }
        }
        if let Some(later) = self.later.first() {
            return Err(StopOutcome::StillPresent { what: format!("generation {}", later.generation.0) });
        }
        // An instance that was gone before has no cgroup record, so its cgroups are searched for.
        let groups = groups.map_or_else(|| cgroup_record::open_cgroups(&self.cgroups, &self.paths), Ok);
        let mut checks = observe::checks(&self.paths, &groups);
        if checks.iter().any(|check| check.kind == "devices" && check.result == Finding::Present) {
            // An earlier attempt removed the file and crashed before its loop device was released.
            let _checked_again = wait_for_devices(&self.paths.storage);
            checks = observe::checks(&self.paths, &groups);
        }
        for check in &checks {
            let what = || format!("{}: {}", check.kind, check.detail.as_deref().unwrap_or_default());
            match check.result {
                Finding::Absent => {}
                Finding::Present => return Err(StopOutcome::StillPresent { what: what() }),
                Finding::Unknown => return Err(StopOutcome::Unknown { why: what() }),
            }
        }
        Ok(Stopped { used, freed_bytes, checks })
    }
}

/// Describes what is seen to be left of an instance that could not be torn down.
fn describe_leftovers(
    paths: &InstancePaths,
    cgroups: &Cgroups,
    error: &std::io::Error,
) -> Option<StopOutcome> {
    let checks = observe::checks(paths, &cgroup_record::open_cgroups(cgroups, paths));
    let left = checks.into_iter().find(|check| check.result == Finding::Present)?;
    let what = format!("{}: {} ({error})", left.kind, left.detail.unwrap_or_default());
    Some(StopOutcome::StillPresent { what })
}

impl Stopped {
    fn receipt(self, generation: Generation, verified_at: Timestamp) -> Receipt {
        let Stopped { used, freed_bytes, checks } = self;
        Receipt { generation, verified_at, checks, freed_bytes, used, attested: None }
    }
}
