//! The deadline loop: sleeps until the next deadline row is due, and notices changes made by other processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{Effect, EffectKind, Event, Fence, SandboxId, Timestamp};
use pinfold_provider::InstanceId;
use pinfold_store::{DueSandbox, Row, Seq, StoreError, StoredSandbox};

use crate::ApplyError;
use crate::apply::Input;
use crate::engine::Inner;
use crate::prefetch::InstanceCall;

/// Overdue sandboxes handled per round.
const BATCH: usize = 256;

impl Inner {
    pub(crate) async fn deadline_loop(self: Arc<Self>) {
        let mut seen = Seq::LATEST;
        loop {
            if let Err(error) = self.clone().tick(&mut seen).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "deadline loop failed, retrying");
            }
            let next = self.clock.now().after_ms(self.config.poll_ms).min(self.next_own_deadline().await);
            self.armed_for.store(next.0, Ordering::Relaxed);
            tokio::select! {
                biased;
                () = self.timer.notified() => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    /// The next deadline in the future. Past deadlines belong to another node that still has time to enforce
    /// them, or just failed here: the poll interval covers both.
    async fn next_own_deadline(&self) -> Timestamp {
        let now = self.clock.now();
        match self.store.next_deadline().await {
            Ok(Some(deadline)) if deadline > now => deadline,
            Ok(_) | Err(_) => Timestamp(i64::MAX),
        }
    }

    async fn tick(self: Arc<Self>, seen: &mut Seq) -> Result<(), StoreError> {
        self.enforce_deadlines().await?;
        let changes = self.store.changes(*seen).await?;
        *seen = changes.up_to;
        self.row_cache.forget_up_to(changes.up_to);
        for id in changes.sandboxes {
            self.changes.notify(id);
            self.drop_settled_effects(id).await?;
        }
        Ok(())
    }

    async fn enforce_deadlines(self: &Arc<Self>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let waited_long = |due: &DueSandbox| due.deadline.after_ms(self.config.owner_slack_ms) <= now;
        let due = self.store.due(now, BATCH).await?.into_iter();
        let ours = due.filter(|due| due.owner == self.node || waited_long(due));
        // Concurrently, so that they share a commit.
        stream::iter(ours).for_each_concurrent(BATCH, |due| self.clone().enforce(due)).await;
        Ok(())
    }

    async fn enforce(self: Arc<Self>, due: DueSandbox) {
        let (cached, input) = self.deadline_input(due.id).await;
        match self.apply_to(cached, due.id, input, Vec::new()).await {
            Ok(()) | Err(ApplyError::Missing) => {}
            // One failure does not hold up the others.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(sandbox_id = %due.id, error, "enforcing a deadline failed, retrying");
            }
        }
    }

    /// If only a routine ping is due, it runs before the commit, so that deadline and result share one commit.
    async fn deadline_input(&self, id: SandboxId) -> (Option<StoredSandbox>, Input) {
        let passed = Input::Fact(Event::TimePassed);
        let Ok(stored) = self.readable(id).await else {
            return (None, passed);
        };
        let ping = match self.decide(&stored, passed.clone()) {
            Ok(Some(transition)) if transition.records.is_empty() => match transition.effects[..] {
                [Effect { kind: EffectKind::Ping, generation, .. }] => {
                    Some(InstanceId { sandbox: id, generation })
                }
                _ => None,
            },
            Ok(_) | Err(_) => None,
        };
        let input = match (ping, self.limits.try_acquire_call()) {
            (Some(instance), Some(_permit)) => {
                self.prefetch(instance, Event::TimePassed, InstanceCall::Ping).await
            }
            (_, _) => passed,
        };
        (Some(*stored), input)
    }

    /// Drops effects of this node that another process made obsolete.
    async fn drop_settled_effects(&self, id: SandboxId) -> Result<(), StoreError> {
        if !self.effect_tasks.concern(id) {
            return Ok(());
        }
        match self.store.load(id).await? {
            Some(Row::Readable(stored)) => {
                let sandbox = &stored.sandbox;
                self.effect_tasks.drop_obsolete(id, sandbox.last_fence, &sandbox.effects());
            }
            Some(Row::Unreadable(_)) => {}
            // The record was deleted: no effect is pending.
            None => {
                self.effect_tasks.drop_obsolete(id, Fence(u64::MAX), &[]);
                self.prefetches.drop_obsolete(id, &[]);
            }
        }
        Ok(())
    }
}
