//! Single sandboxes: at work, or stuck in one of the ways to be. Nothing but the cleanup ends any of them.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use pinfold_engine::CreateAsk;
use pinfold_lifecycle::{
    Command, Context, Evidence, Execution, ExecutionKind, ExecutionLimits, ExecutionState, Lease, Limits,
    Policy, SandboxId, Seen, Spec, Timestamp, Verdict, create,
};
use pinfold_provider::Provider;
use pinfold_store::{Bid, NewSandbox, Row, Store, Stored};

use crate::ground::{DAY, Ground, MINUTE, SLEEPER};

/// How long one thing may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the unhealthy are asked how they are.
const PROBE_EVERY_MS: u64 = 4 * MINUTE;

fn patient() -> Policy {
    Policy {
        start_ms: 10 * DAY,
        unhealthy_age_ms: 10 * DAY,
        probe_every_ms: 10 * DAY,
        evidence_ms: 10 * DAY,
        idle_ms: None,
        max_life_ms: 10 * DAY,
        ..Policy::default()
    }
}

impl Ground {
    async fn live(&self, policy: Policy) -> Result<SandboxId> {
        let limits = Limits { memory_mb: Some(32), ..Limits::default() };
        let ask = CreateAsk { spec: Spec { limits, ..Spec::default() }, policy, key: None, queue: None };
        let id = self.service.host().engine.create(ask).await?;
        self.until(id, |stored| matches!(stored.sandbox.lease, Lease::Live(_))).await?;
        Ok(id)
    }

    pub(crate) async fn running(&self, script: &str) -> Result<SandboxId> {
        let id = self.live(patient()).await?;
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = Command { argv, ..Command::default() };
        let engine = &self.service.host().engine;
        engine.execute(id, command, ExecutionKind::Run, ExecutionLimits::default(), true).await?;
        let runs = |execution: &Execution| matches!(execution.state, ExecutionState::Running { .. });
        self.until(id, |stored| stored.sandbox.executions.iter().any(runs)).await?;
        Ok(id)
    }

    pub(crate) async fn doing_nothing(&self) -> Result<SandboxId> {
        self.live(patient()).await
    }

    /// Somebody was to launch it and never did.
    pub(crate) async fn never_ready(&self, number: u128) -> Result<SandboxId> {
        let (id, policy, host) = (SandboxId(number), patient(), self.service.host());
        let ctx = Context { now: host.clock.now(), node: SLEEPER, policy: &policy };
        let new = NewSandbox {
            transition: create(id, ctx),
            spec: Arc::new(Spec::default()),
            policy: Arc::new(policy.clone()),
            key: None,
            commands: Vec::new(),
            bid: Bid::default(),
        };
        host.store.create(new, *host.engine.admission()).await?;
        Ok(id)
    }

    /// Its end has a time that nobody is going to notice.
    pub(crate) async fn overdue(&self) -> Result<SandboxId> {
        let id = self.live(Policy { max_life_ms: 20 * MINUTE, ..patient() }).await?;
        let rows = rusqlite::Connection::open(self.store_file())?;
        rows.busy_timeout(PATIENCE)?;
        let forgotten = format!("UPDATE sandboxes SET next_deadline = NULL WHERE id = '{id}'");
        ensure!(rows.execute(&forgotten, [])? == 1, "{id} has no row");
        Ok(id)
    }

    /// It is going to fail its probes.
    pub(crate) async fn sick(&self) -> Result<SandboxId> {
        let id = self.live(Policy { probe_every_ms: PROBE_EVERY_MS, ..patient() }).await?;
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Ok(id)
    }

    /// Moves time until all of these have been asked how they are.
    pub(crate) async fn ask_the_sick(&self, all: &[SandboxId]) -> Result<()> {
        self.clock.move_by(PROBE_EVERY_MS + MINUTE);
        for id in all {
            let unhealthy = |stored: &Stored| match &stored.sandbox.lease {
                Lease::Live(live) => matches!(live.health.verdict, Verdict::Unhealthy { .. }),
                _ => false,
            };
            self.until(*id, unhealthy).await?;
        }
        Ok(())
    }

    /// Waits until its work has written something since then.
    pub(crate) async fn sign_of_life(&self, id: SandboxId, since: Timestamp) -> Result<()> {
        let is_later = |seen: &Seen| match seen {
            Seen::Running { last_activity_at } => self.clock.aged(*last_activity_at) >= since,
            Seen::Ended(_) => false,
        };
        let look = async {
            loop {
                if let Evidence::Present(bodies) = self.service.host().provider.observe(id).await
                    && bodies.iter().flat_map(|body| &body.executions).any(|it| is_later(&it.seen))
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.with_context(|| format!("{id} gives no sign of life"))
    }

    pub async fn stored(&self, id: SandboxId) -> Result<Stored> {
        match self.service.host().store.load(id).await? {
            Some(Row::Readable(stored)) => Ok(*stored),
            other => anyhow::bail!("{id}: {other:?}"),
        }
    }

    async fn until(&self, id: SandboxId, like_this: impl Fn(&Stored) -> bool) -> Result<()> {
        let look = async {
            while !like_this(&self.stored(id).await?) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, look).await.with_context(|| format!("{id} took too long"))?
    }
}
