//! All of them together, and the time that passes until cleanup has its turn.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use pinfold_api::CleanupRun;
use pinfold_engine::Clock;
use pinfold_lifecycle::{Cause, SandboxId};
use pinfold_store::Store;

use crate::ground::{Ground, Served};

/// How many are at work, and how many are stuck in each of the four ways.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub at_work: usize,
    pub of_each: usize,
}

impl Size {
    #[must_use]
    pub fn stuck(self) -> usize {
        4 * self.of_each
    }
}

pub struct Crowd {
    pub at_work: Vec<SandboxId>,
    /// What each is to be ended for.
    pub stuck: BTreeMap<SandboxId, Cause>,
}

const WORKING: &str = "while :; do echo at work; sleep 2; done";
/// It says nothing for as long as it likes, and is at work all the same.
const COMPUTING: &str = "while :; do :; done";
const SILENT: &str = "exec sleep 100000";

/// Made side by side.
const AT_ONCE: usize = 8;
/// For so long before the turn the server looks whether there is anything to alert somebody for: long enough for what
/// has to last some minutes.
const WATCHED_MS: u64 = 400_000;
/// At one look nothing is later than a busy machine may be.
const STEP_MS: u64 = 25_000;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Makes all of them. Time passes meanwhile.
pub async fn gather(ground: &Ground, size: Size) -> Result<Crowd> {
    // The one that computes comes last: it leaves less to the others.
    let others = many(1..size.at_work, |_| ground.running(WORKING)).await?;
    let sick = many(0..size.of_each, |_| ground.sick()).await?;
    ground.ask_the_sick(&sick).await?;
    let mut stuck: BTreeMap<_, _> = sick.into_iter().map(|id| (id, Cause::ProbeFailed)).collect();
    let never_ready = many(0..size.of_each, |number| ground.never_ready(number as u128 + 1)).await?;
    stuck.extend(never_ready.into_iter().map(|id| (id, Cause::StartDeadline)));
    let overdue = many(0..size.of_each, |_| ground.overdue()).await?;
    stuck.extend(overdue.into_iter().map(|id| (id, Cause::MaxLife)));
    let silent = many(0..size.of_each.div_ceil(2), |_| ground.running(SILENT)).await?;
    stuck.extend(silent.into_iter().map(|id| (id, Cause::Inactivity)));
    let idle = many(0..size.of_each / 2, |_| ground.doing_nothing()).await?;
    stuck.extend(idle.into_iter().map(|id| (id, Cause::Idle)));
    let mut at_work = vec![ground.running(COMPUTING).await?];
    at_work.extend(others);
    ensure!(stuck.len() == size.stuck() && at_work.len() == size.at_work, "not as many as there should be");
    Ok(Crowd { at_work, stuck })
}

async fn many<F>(numbers: std::ops::Range<usize>, make: impl Fn(usize) -> F) -> Result<Vec<SandboxId>>
where
    F: Future<Output = Result<SandboxId>>,
{
    stream::iter(numbers).map(make).buffer_unordered(AT_ONCE).try_collect().await
}

impl Crowd {
    /// Lets everybody grow old, and the server begin to watch over them.
    pub async fn grow_old(&self, ground: &Ground) -> Result<Served> {
        let (now, watched_from) =
            (ground.clock.now(), ground.first_turn_at.0.saturating_sub_unsigned(WATCHED_MS));
        let ms = watched_from.checked_sub(now.0).and_then(|ms| u64::try_from(ms).ok());
        ground.clock.move_by(ms.context("it took so long that the first turn is near")?);
        ground.nothing_is_due().await?;
        let (since, signs) = (ground.clock.now(), stream::iter(self.at_work.clone()).skip(1));
        signs.map(|id| ground.sign_of_life(id, since)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let served = ground.serve().await?;
        while ground.first_turn_at.ms_since(ground.clock.now()) > STEP_MS {
            served.look(ground).await?;
            ground.clock.move_by(STEP_MS);
            ground.nothing_is_due().await?;
        }
        served.look(ground).await?;
        Ok(served)
    }
}

impl Ground {
    /// Waits until every deadline that somebody knows of is seen to.
    async fn nothing_is_due(&self) -> Result<()> {
        let host = self.service.host();
        let look = async {
            while host.store.next_deadline().await?.is_some_and(|next| next <= host.clock.now()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, look).await.context("something is not seen to")?
    }

    /// Waits for the first turn of cleanup, and for its end.
    pub async fn first_turn(&self, served: &Served) -> Result<CleanupRun> {
        self.clock.move_by(self.first_turn_at.ms_since(self.clock.now()));
        let look = async {
            loop {
                let runs = served.client.cleanup_runs(10).await?;
                ensure!(runs.len() <= 1, "more than one turn: {runs:?}");
                if let Some(run) = runs.into_iter().find(|run| run.ended_at.is_some()) {
                    return Ok(run);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.context("there was no turn")?
    }
}

impl Served {
    /// Waits until alerts have been evaluated by what is the case now.
    pub async fn look(&self, ground: &Ground) -> Result<()> {
        // Moments are written so that the later one is the greater text.
        let mut seen = pinfold_server::service::moment(ground.clock.now());
        let look = async {
            // What was seen is told before what follows from it is written: the next look but one comes after that.
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
        tokio::time::timeout(PATIENCE, look).await.context("nobody evaluates alerts")?
    }
}
