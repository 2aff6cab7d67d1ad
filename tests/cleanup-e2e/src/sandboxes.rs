//! All sandboxes of a run, and the time that passes until the first scheduled cleanup.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use pinfold_api::CleanupRun;
use pinfold_engine::Clock;
use pinfold_lifecycle::{Cause, SandboxId};

use crate::fixture::{Fixture, RunningServer};

/// How many are working, and how many are stuck in each of the four ways.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub working: usize,
    pub stuck_per_kind: usize,
}

impl Counts {
    #[must_use]
    pub fn stuck(self) -> usize {
        4 * self.stuck_per_kind
    }
}

pub struct Sandboxes {
    pub working: Vec<SandboxId>,
    /// The cause that cleanup must end each with.
    pub stuck: BTreeMap<SandboxId, Cause>,
}

const WORKING: &str = "while :; do echo at work; sleep 2; done";
/// No output, but it uses CPU time, so it is working.
const COMPUTING: &str = "while :; do :; done";
const SILENT: &str = "exec sleep 100000";

/// Sandboxes created in parallel.
const AT_ONCE: usize = 8;
/// How long before the cleanup the server evaluates alerts: longer than rules that must hold for minutes.
const WATCHED_MS: u64 = 400_000;
/// Step between two evaluations: less than a busy machine may delay something.
const STEP_MS: u64 = 25_000;
/// Longest time for any step.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Creates all of them. Advances the clock meanwhile.
pub async fn create_sandboxes(fixture: &Fixture, size: Counts) -> Result<Sandboxes> {
    // The one that computes is created last: it takes CPU time from the others.
    let others = create_many(1..size.working, |_| fixture.create_running(WORKING)).await?;
    let failing = create_many(0..size.stuck_per_kind, |_| fixture.create_with_failing_probes()).await?;
    fixture.probe_failing(&failing).await?;
    let mut stuck: BTreeMap<_, _> = failing.into_iter().map(|id| (id, Cause::ProbeFailed)).collect();
    let never_ready =
        create_many(0..size.stuck_per_kind, |number| fixture.create_never_launched(number as u128 + 1))
            .await?;
    stuck.extend(never_ready.into_iter().map(|id| (id, Cause::StartDeadline)));
    let overdue = create_many(0..size.stuck_per_kind, |_| fixture.create_overdue()).await?;
    stuck.extend(overdue.into_iter().map(|id| (id, Cause::MaxLife)));
    let silent = create_many(0..size.stuck_per_kind.div_ceil(2), |_| fixture.create_running(SILENT)).await?;
    stuck.extend(silent.into_iter().map(|id| (id, Cause::Inactivity)));
    let idle = create_many(0..size.stuck_per_kind / 2, |_| fixture.create_idle()).await?;
    stuck.extend(idle.into_iter().map(|id| (id, Cause::Idle)));
    let mut working = vec![fixture.create_running(COMPUTING).await?];
    working.extend(others);
    ensure!(stuck.len() == size.stuck() && working.len() == size.working, "wrong number of sandboxes");
    Ok(Sandboxes { working, stuck })
}

async fn create_many<F>(numbers: std::ops::Range<usize>, make: impl Fn(usize) -> F) -> Result<Vec<SandboxId>>
where
    F: Future<Output = Result<SandboxId>>,
{
    stream::iter(numbers).map(make).buffer_unordered(AT_ONCE).try_collect().await
}

impl Sandboxes {
    /// Advances the clock to shortly before the first cleanup, and starts the server.
    pub async fn age(&self, fixture: &Fixture) -> Result<RunningServer> {
        let (now, watched_from) =
            (fixture.clock.now(), fixture.first_cleanup_at.0.saturating_sub_unsigned(WATCHED_MS));
        let ms = watched_from.checked_sub(now.0).and_then(|ms| u64::try_from(ms).ok());
        fixture.clock.advance(ms.context("setup took too long: the first cleanup is due")?);
        fixture.wait_until_nothing_due().await?;
        let (since, signs) = (fixture.clock.now(), stream::iter(self.working.clone()).skip(1));
        signs
            .map(|id| fixture.wait_for_activity(id, since))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let server = fixture.start_server().await?;
        while fixture.first_cleanup_at.ms_since(fixture.clock.now()) > STEP_MS {
            server.wait_for_alert_evaluation(fixture).await?;
            fixture.clock.advance(STEP_MS);
            fixture.wait_until_nothing_due().await?;
        }
        server.wait_for_alert_evaluation(fixture).await?;
        Ok(server)
    }
}

impl Fixture {
    /// Waits until every due deadline was enforced.
    async fn wait_until_nothing_due(&self) -> Result<()> {
        let host = self.service.host();
        let wait = async {
            while host.store.next_deadline().await?.is_some_and(|next| next <= host.clock.now()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(TIMEOUT, wait).await.context("a due deadline was not enforced in time")?
    }

    /// Advances the clock to the first cleanup, and waits for its end.
    pub async fn wait_for_first_cleanup(&self, server: &RunningServer) -> Result<CleanupRun> {
        self.clock.advance(self.first_cleanup_at.ms_since(self.clock.now()));
        let wait = async {
            loop {
                let runs = server.client.cleanup_runs(10).await?;
                ensure!(runs.len() <= 1, "more than one cleanup: {runs:?}");
                if let Some(run) = runs.into_iter().find(|run| run.ended_at.is_some()) {
                    return Ok(run);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.context("no cleanup ran")?
    }
}

impl RunningServer {
    /// Waits until alerts were evaluated on the current state.
    pub async fn wait_for_alert_evaluation(&self, fixture: &Fixture) -> Result<()> {
        // Timestamps sort as text.
        let mut seen = pinfold_service::rfc3339(fixture.clock.now());
        let wait = async {
            // An evaluation is published before its alerts are stored: they are stored by the next but one.
            for _ in 0..3 {
                loop {
                    let evaluated_at = self.client.alerts(None).await?.evaluated_at;
                    if evaluated_at > seen {
                        seen = evaluated_at;
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(TIMEOUT, wait).await.context("alerts were not evaluated in time")?
    }
}
