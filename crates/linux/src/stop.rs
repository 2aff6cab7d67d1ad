//! How a body ends: asked, made to, and looked for.

use std::time::Duration;

use pinfold_keeper::wire::{Request, Response};
use pinfold_lifecycle::{Finding, Generation, Receipt, ReceiptCheck, StopOutcome, Timestamp, Used};
use pinfold_provider::InstanceId;

use crate::aside::aside;
use crate::cgroup::Cgroups;
use crate::control::ask;
use crate::ending::{Ending, wait_for_devices};
use crate::group_note;
use crate::look;
use crate::places::Places;
use crate::provider::LinuxProvider;
use crate::used::{LAST_WORDS, Told, best_of, told_by_keeper};

/// Between two looks at whether those who were asked to go have gone.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A stop of one body, and of all that came before it.
struct Stopping {
    body: InstanceId,
    places: Places,
    cgroups: Cgroups,
    covered: Vec<(InstanceId, Ending, Told)>,
    /// What it was not asked for, and does not touch.
    later: Vec<InstanceId>,
}

impl LinuxProvider {
    pub(crate) async fn stop_bodies(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        self.under_way.over(body.sandbox).await;
        let bodies = match self.bodies_of(body.sandbox).await {
            Ok(bodies) => bodies,
            Err(error) => return StopOutcome::Unknown { why: format!("could not look for bodies: {error}") },
        };
        let (covered, later): (Vec<_>, Vec<_>) =
            bodies.into_iter().partition(|found| found.generation <= body.generation);
        let mut stopping = Stopping {
            body,
            places: self.grounds.of(body),
            cgroups: self.cgroups.clone(),
            covered: Vec::new(),
            later,
        };
        for found in covered.iter().filter(|_| grace_ms > 0) {
            self.ask_politely(&self.grounds.of(*found), grace_ms).await;
        }
        let dying = self.rush.one_more();
        // Files in memory and what only its keeper counts go with it: nobody can tell them after its end.
        for found in covered {
            let ending = self.ending(self.grounds.of(found));
            let told = if dying.is_among_many {
                dying.kill(kill(ending.clone())).await
            } else {
                told_by_keeper(&ending.places, LAST_WORDS).await
            };
            stopping.covered.push((found, ending, told));
        }
        let _turn = dying.turn().await;
        match aside(move || Ok(stopping.end())).await {
            Ok(Ok(stopped)) => StopOutcome::Gone(Box::new(stopped.receipt(body.generation, self.now()))),
            Ok(Err(outcome)) => outcome,
            Err(error) => StopOutcome::Unknown { why: error.to_string() },
        }
    }

    pub(crate) fn ending(&self, places: Places) -> Ending {
        Ending { places, cgroups: self.cgroups.clone(), ids: self.ids.clone() }
    }

    /// What does not go when it is asked to goes when it is made to.
    async fn ask_politely(&self, places: &Places, grace_ms: u64) {
        let end = tokio::time::Instant::now() + Duration::from_millis(grace_ms);
        if ask(places, &Request::Terminate).await.is_err() {
            return;
        }
        let mut pause = FIRST_PAUSE;
        while tokio::time::Instant::now() < end {
            match ask(places, &Request::List).await {
                Ok(Response::Executions(executions)) if executions.iter().any(|e| e.ended.is_none()) => {}
                Ok(_) | Err(_) => return,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }
}

/// Kills it and waits until its keeper is gone, if that is soon. What goes wrong here goes wrong again, and is told,
/// when it is cleared away.
async fn kill(ending: Ending) -> Told {
    let told = told_by_keeper(&ending.places, LAST_WORDS).await;
    let _told_again = tokio::task::spawn_blocking(move || ending.kill()).await;
    told
}

/// What a stop came to, with nothing left.
struct Stopped {
    used: Option<Used>,
    freed_bytes: u64,
    checks: Vec<ReceiptCheck>,
}

impl Stopping {
    /// Ends them, and then really looks.
    fn end(self) -> Result<Stopped, StopOutcome> {
        let (mut used, mut groups, mut freed_bytes) = (None, None, 0);
        for (found, ending, told) in self.covered {
            let failed =
                |error| StopOutcome::Unknown { why: format!("could not end {}: {error}", found.sandbox) };
            let in_memory = if ending.places.body.exists() { 0 } else { told.disk_bytes.unwrap_or(0) };
            let ended = match ending.end() {
                Ok(ended) => ended,
                Err(error) if found == self.body => {
                    let left = what_is_left(&self.places, &self.cgroups, &error);
                    return Err(left.unwrap_or_else(|| failed(error)));
                }
                Err(error) => return Err(failed(error)),
            };
            freed_bytes += in_memory + ended.freed_bytes;
            if found == self.body {
                used = Some(best_of(&ended.counted, &told));
                groups = Some(ended.groups);
            } else {
                // Nobody looks at it again.
                wait_for_devices(&ending.places.body).map_err(failed)?;
            }
        }
        if let Some(later) = self.later.first() {
            return Err(StopOutcome::StillPresent { what: format!("generation {}", later.generation.0) });
        }
        // One that was gone before has left no note of its groups, and is searched for.
        let groups = groups.map_or_else(|| group_note::groups_of(&self.cgroups, &self.places), Ok);
        let mut checks = look::checks(&self.places, &groups);
        if checks.iter().any(|check| check.kind == "devices" && check.result == Finding::Present) {
            // An earlier try has taken the file away, and was cut short before its device was gone.
            let _looked_at_again = wait_for_devices(&self.places.body);
            checks = look::checks(&self.places, &groups);
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

/// Whoever could not be ended is told by what is seen to be left, as far as that can be seen.
fn what_is_left(places: &Places, cgroups: &Cgroups, error: &std::io::Error) -> Option<StopOutcome> {
    let checks = look::checks(places, &group_note::groups_of(cgroups, places));
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
