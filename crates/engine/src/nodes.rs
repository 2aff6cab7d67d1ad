//! Heartbeats, and adoption of dead nodes' sandboxes.

use std::sync::Arc;

use pinfold_lifecycle::{NodeId, Request, Timestamp};
use pinfold_store::{RegisteredNode, StoreError};

use crate::apply::Input;
use crate::engine::Inner;
use crate::{ApplyError, Liveness};

/// Heartbeat value of a node that shut down in order.
const GONE: Timestamp = Timestamp(i64::MIN);

impl Inner {
    pub(crate) async fn heartbeat_loop(self: Arc<Self>) {
        loop {
            if let Err(error) = self.clone().beat().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "heartbeat failed, retrying");
            }
            self.clock.sleep_until(self.clock.now().after_ms(self.config.heartbeat_ms)).await;
        }
    }

    async fn beat(self: Arc<Self>) -> Result<(), StoreError> {
        self.store.heartbeat(self.liveness.this_node(self.node), self.clock.now()).await?;
        self.resume_own_effects().await?;
        self.adopt_dead_nodes().await?;
        self.expire_queue_entries().await
    }

    /// Resumes effects committed for this node and not started, because the commit's outcome was unknown or its
    /// caller was dropped.
    async fn resume_own_effects(self: &Arc<Self>) -> Result<(), StoreError> {
        let now = self.clock.now();
        for effect in self.store.effects_of_node(self.node).await? {
            if effect.pending.deadline > now {
                self.resume(effect);
            }
        }
        Ok(())
    }

    /// Runs before reconciliation: an instance that ended with its host must not be recorded as lost.
    pub(crate) async fn adopt_after_reboot(self: &Arc<Self>) -> Result<(), StoreError> {
        for seen in self.store.nodes().await? {
            if self.liveness_of(&seen) == Liveness::DeadByReboot {
                self.adopt_all(seen.node.id, true).await?;
            }
        }
        Ok(())
    }

    async fn adopt_dead_nodes(self: &Arc<Self>) -> Result<(), StoreError> {
        for seen in self.store.nodes().await? {
            match self.liveness_of(&seen) {
                Liveness::Alive => {}
                Liveness::Dead => self.adopt_all(seen.node.id, false).await?,
                Liveness::DeadByReboot => self.adopt_all(seen.node.id, true).await?,
            }
        }
        // A node's last write may come after it unregistered, or after it was taken for dead.
        for forgotten in self.store.unregistered_nodes().await? {
            self.adopt_all(forgotten, false).await?;
        }
        Ok(())
    }

    fn liveness_of(&self, seen: &RegisteredNode) -> Liveness {
        if seen.node.id == self.node {
            return Liveness::Alive;
        }
        match self.liveness.liveness_of(seen, self.clock.now(), self.config.dead_after_ms) {
            // It shut down in order, whether or not its process still exists.
            Liveness::Alive if seen.heartbeat_at == GONE => Liveness::Dead,
            liveness => liveness,
        }
    }

    async fn adopt_all(self: &Arc<Self>, dead: NodeId, rebooted: bool) -> Result<(), StoreError> {
        for id in self.store.sandboxes_of_node(dead).await? {
            let adopt = Input::Request(Request::Adopt { dead, rebooted });
            match self.clone().apply(id, adopt, Vec::new()).await {
                Ok(()) | Err(ApplyError::Missing) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(sandbox_id = %id, dead = %dead, error, "adoption failed, retrying with the next heartbeat");
                }
            }
        }
        self.store.remove_node(dead).await?;
        Ok(())
    }

    /// Unregisters this node, so that others need not wait for its heartbeat to expire.
    pub(crate) async fn unregister(&self) -> Result<(), StoreError> {
        if !self.store.remove_node(self.node).await? {
            self.store.heartbeat(self.liveness.this_node(self.node), GONE).await?;
        }
        Ok(())
    }
}
