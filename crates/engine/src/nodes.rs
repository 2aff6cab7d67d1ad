//! Heartbeats, and the adoption of what dead nodes leave behind.

use std::sync::Arc;

use pinfold_lifecycle::{NodeId, Request, Timestamp};
use pinfold_store::{NodeSeen, StoreError};

use crate::apply::Input;
use crate::engine::Inner;
use crate::{ApplyError, Fate};

/// The heartbeat of a node that has said good-bye.
const GONE: Timestamp = Timestamp(i64::MIN);

impl Inner {
    pub(crate) async fn keep_company(self: Arc<Self>) {
        loop {
            if let Err(error) = self.clone().beat().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "a heartbeat was missed");
            }
            self.clock.sleep_until(self.clock.now().after_ms(self.config.heartbeat_ms)).await;
        }
    }

    async fn beat(self: Arc<Self>) -> Result<(), StoreError> {
        self.store.beat(self.census.me(self.node), self.clock.now()).await?;
        self.resume_own().await?;
        self.adopt_the_dead().await?;
        self.clear_queue().await
    }

    /// Work that was committed for this node and not begun: its commit's answer was lost, or its caller was.
    async fn resume_own(self: &Arc<Self>) -> Result<(), StoreError> {
        let now = self.clock.now();
        for effect in self.store.effects_of(self.node).await? {
            if effect.duty.deadline > now {
                self.resume(effect);
            }
        }
        Ok(())
    }

    /// Before anybody looks for bodies: one that went with its host is not to be called lost.
    pub(crate) async fn adopt_what_a_restart_left(self: &Arc<Self>) -> Result<(), StoreError> {
        for seen in self.store.nodes().await? {
            if self.fate_of(&seen) == Fate::DeadByRestart {
                self.adopt_all(seen.node.id, true).await?;
            }
        }
        Ok(())
    }

    async fn adopt_the_dead(self: &Arc<Self>) -> Result<(), StoreError> {
        for seen in self.store.nodes().await? {
            match self.fate_of(&seen) {
                Fate::Alive => {}
                Fate::Dead => self.adopt_all(seen.node.id, false).await?,
                Fate::DeadByRestart => self.adopt_all(seen.node.id, true).await?,
            }
        }
        // Its last write may have come after its good-bye, or while others took it for dead.
        for forgotten in self.store.forgotten_nodes().await? {
            self.adopt_all(forgotten, false).await?;
        }
        Ok(())
    }

    fn fate_of(&self, seen: &NodeSeen) -> Fate {
        if seen.node.id == self.node {
            return Fate::Alive;
        }
        match self.census.fate_of(seen, self.clock.now(), self.config.dead_after_ms) {
            // It has left in order, whether its process is still there or not.
            Fate::Alive if seen.heartbeat_at == GONE => Fate::Dead,
            fate => fate,
        }
    }

    async fn adopt_all(self: &Arc<Self>, dead: NodeId, rebooted: bool) -> Result<(), StoreError> {
        for id in self.store.left_by(dead).await? {
            let adopt = Input::Ask(Request::Adopt { dead, rebooted });
            match self.clone().apply(id, adopt, Vec::new()).await {
                Ok(()) | Err(ApplyError::Missing) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(sandbox_id = %id, dead = %dead, error, "an adoption waits");
                }
            }
        }
        self.store.leave(dead).await?;
        Ok(())
    }

    /// The others need not wait for this node's heartbeat to grow old.
    pub(crate) async fn say_goodbye(&self) -> Result<(), StoreError> {
        if !self.store.leave(self.node).await? {
            self.store.beat(self.census.me(self.node), GONE).await?;
        }
        Ok(())
    }
}
