//! Deadlines are rows; this loop sleeps until the next one is due. It also notices what other processes change.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{Effect, EffectKind, Event, Fence, SandboxId, Timestamp};
use pinfold_provider::InstanceId;
use pinfold_store::{Due, Row, Seq, StoreError, Stored};

use crate::ApplyError;
use crate::apply::Input;
use crate::engine::Inner;
use crate::questions::Question;

/// How many overdue sandboxes are taken at a time.
const BATCH: usize = 256;

impl Inner {
    pub(crate) async fn keep_time(self: Arc<Self>) {
        let mut seen = Seq::LATEST;
        loop {
            if let Err(error) = self.clone().tick(&mut seen).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "the timer tries again");
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

    /// What the timer sleeps until, at the latest. A deadline that is past belongs to another node that still
    /// has time to see to it, or failed just now: the poll comes back to it.
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
        *seen = changes.seen;
        self.known.forget_up_to(changes.seen);
        for id in changes.sandboxes {
            self.waiters.ring(id);
            self.drop_what_others_settled(id).await?;
        }
        Ok(())
    }

    async fn enforce_deadlines(self: &Arc<Self>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let waited_long = |due: &Due| due.deadline.after_ms(self.config.owner_slack_ms) <= now;
        let due = self.store.due(now, BATCH).await?.into_iter();
        let ours = due.filter(|due| due.owner == self.node || waited_long(due));
        // Side by side, so that they share a commit.
        stream::iter(ours).for_each_concurrent(BATCH, |due| self.clone().enforce(due)).await;
        Ok(())
    }

    async fn enforce(self: Arc<Self>, due: Due) {
        let (known, input) = self.let_time_pass(due.id).await;
        match self.apply_to(known, due.id, input, Vec::new()).await {
            Ok(()) | Err(ApplyError::Missing) => {}
            // One that fails does not hold up the others.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(sandbox_id = %due.id, error, "a deadline waits");
            }
        }
    }

    /// Where nothing but a routine ping is due, it is asked before that is written, and is one commit with its answer.
    async fn let_time_pass(&self, id: SandboxId) -> (Option<Stored>, Input) {
        let passed = Input::Fact(Event::TimePassed);
        let Ok(stored) = self.readable(id).await else {
            return (None, passed);
        };
        let ping = match self.decide(&stored, passed.clone()) {
            Ok(Some(transition)) if transition.records.is_empty() => match transition.effects[..] {
                [Effect { work: EffectKind::Ping, generation, .. }] => {
                    Some(InstanceId { sandbox: id, generation })
                }
                _ => None,
            },
            Ok(_) | Err(_) => None,
        };
        let input = match (ping, self.lanes.free_place()) {
            (Some(body), Some(_place)) => self.raise(body, Event::TimePassed, Question::Ping).await,
            (_, _) => passed,
        };
        (Some(*stored), input)
    }

    /// Work of this node that another process has made pointless.
    async fn drop_what_others_settled(&self, id: SandboxId) -> Result<(), StoreError> {
        if !self.errands.concern(id) {
            return Ok(());
        }
        match self.store.load(id).await? {
            Some(Row::Readable(stored)) => {
                let sandbox = &stored.sandbox;
                self.errands.drop_obsolete(id, sandbox.last_ticket, &sandbox.effects());
            }
            Some(Row::Unreadable(_)) => {}
            // It is forgotten, and nobody waits for any answer.
            None => {
                self.errands.drop_obsolete(id, Fence(u64::MAX), &[]);
                self.questions.drop_obsolete(id, &[]);
            }
        }
        Ok(())
    }
}
