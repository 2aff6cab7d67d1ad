//! Creates single sandboxes: working, or stuck in one of the four ways. Only cleanup ends any of them.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use pinfold_engine::CreateRequest;
use pinfold_lifecycle::{
    Command, Context, Evidence, Execution, ExecutionKind, ExecutionLimits, ExecutionState, Lease, Limits,
    Policy, ProcessObservation, SandboxId, Spec, Timestamp, Verdict, create,
};
use pinfold_store::{AdmissionTerms, NewSandbox, Row, StoredSandbox};

use crate::fixture::{DAY, Fixture, MINUTE, STALLED_NODE};

/// Longest time for one step.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Probe interval of sandboxes whose probes fail.
const PROBE_EVERY_MS: u64 = 4 * MINUTE;

fn long_deadlines() -> Policy {
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

impl Fixture {
    async fn create_live(&self, policy: Policy) -> Result<SandboxId> {
        let limits = Limits { memory_mb: Some(32), ..Limits::default() };
        let ask = CreateRequest {
            spec: Spec { limits, ..Spec::default() }.into(),
            policy: policy.into(),
            ..CreateRequest::default()
        };
        let id = self.service.host().engine.create(ask).await?;
        self.wait_until(id, |stored| matches!(stored.sandbox.lease, Lease::Live(_))).await?;
        Ok(id)
    }

    pub(crate) async fn create_running(&self, script: &str) -> Result<SandboxId> {
        let id = self.create_live(long_deadlines()).await?;
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = Command { argv, ..Command::default() };
        let engine = &self.service.host().engine;
        engine.execute(id, command, ExecutionKind::Run, ExecutionLimits::default(), true).await?;
        let runs = |execution: &Execution| matches!(execution.state, ExecutionState::Running { .. });
        self.wait_until(id, |stored| stored.sandbox.executions.iter().any(runs)).await?;
        Ok(id)
    }

    pub(crate) async fn create_idle(&self) -> Result<SandboxId> {
        self.create_live(long_deadlines()).await
    }

    /// Owned by a node that never launches it.
    pub(crate) async fn create_never_launched(&self, number: u128) -> Result<SandboxId> {
        let (id, policy, host) = (SandboxId(number), long_deadlines(), self.service.host());
        let ctx = Context { now: host.clock.now(), node: STALLED_NODE, policy: &policy };
        let new = NewSandbox {
            transition: create(id, ctx),
            spec: Arc::new(Spec::default()),
            policy: Arc::new(policy.clone()),
            key: None,
            commands: Vec::new(),
            admission: AdmissionTerms::default(),
        };
        host.store.create(new, *host.engine.admission()).await?;
        Ok(id)
    }

    /// Its deadline was deleted from the row, so that the engine never enforces it.
    pub(crate) async fn create_overdue(&self) -> Result<SandboxId> {
        let id = self.create_live(Policy { max_life_ms: 20 * MINUTE, ..long_deadlines() }).await?;
        let rows = rusqlite::Connection::open(self.store_file())?;
        rows.busy_timeout(TIMEOUT)?;
        let update = format!("UPDATE sandboxes SET next_deadline = NULL WHERE id = '{id}'");
        ensure!(rows.execute(&update, [])? == 1, "{id} has no row");
        Ok(id)
    }

    /// Its probes fail.
    pub(crate) async fn create_with_failing_probes(&self) -> Result<SandboxId> {
        let id = self.create_live(Policy { probe_every_ms: PROBE_EVERY_MS, ..long_deadlines() }).await?;
        self.failing_probes.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Ok(id)
    }

    /// Advances the clock until all of these were probed.
    pub(crate) async fn probe_failing(&self, all: &[SandboxId]) -> Result<()> {
        self.clock.advance(PROBE_EVERY_MS + MINUTE);
        for id in all {
            let unhealthy = |stored: &StoredSandbox| match &stored.sandbox.lease {
                Lease::Live(live) => matches!(live.health.verdict, Verdict::Unhealthy { .. }),
                _ => false,
            };
            self.wait_until(*id, unhealthy).await?;
        }
        Ok(())
    }

    /// Waits until its execution shows activity after `since`.
    pub(crate) async fn wait_for_activity(&self, id: SandboxId, since: Timestamp) -> Result<()> {
        let is_later = |seen: &ProcessObservation| match seen {
            ProcessObservation::Running { last_activity_at } => self.clock.aged(*last_activity_at) >= since,
            ProcessObservation::Ended(_) => false,
        };
        let wait = async {
            loop {
                if let Evidence::Present(instances) = self.service.host().provider.observe(id).await
                    && instances
                        .iter()
                        .flat_map(|instance| &instance.executions)
                        .any(|it| is_later(&it.process))
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.with_context(|| format!("{id} shows no activity"))
    }

    pub async fn stored(&self, id: SandboxId) -> Result<StoredSandbox> {
        match self.service.host().store.load(id).await? {
            Some(Row::Readable(stored)) => Ok(*stored),
            other => anyhow::bail!("{id}: {other:?}"),
        }
    }

    async fn wait_until(&self, id: SandboxId, like_this: impl Fn(&StoredSandbox) -> bool) -> Result<()> {
        let wait = async {
            while !like_this(&self.stored(id).await?) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        };
        tokio::time::timeout(TIMEOUT, wait).await.with_context(|| format!("{id} took too long"))?
    }
}
