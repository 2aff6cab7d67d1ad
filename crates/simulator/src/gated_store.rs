//! The store behind one node's gate. Writes fail at random, and every successful commit is checked.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_lifecycle::{AdmissionLimits, Guards, SandboxId, Shape};
use pinfold_store::{
    CallKind, Change, ClaimError, CommitError, CreateError, Created, FillError, NewSandbox, PoolClaim, Row,
    SandboxFilter, Store, StoreCall, StoreError, StoreLayer, Version,
};

use crate::checker::Checker;
use crate::gate::Gate;
use crate::random::Random;

/// Faults of the disk, shared by all nodes.
#[derive(Default)]
pub(crate) struct DiskFaults {
    pub(crate) full: AtomicBool,
    pub(crate) faults_per_mille: AtomicU64,
}

pub(crate) struct GatedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) disk: Arc<DiskFaults>,
    pub(crate) random: Random,
    pub(crate) checker: Arc<Checker>,
    pub(crate) guards: Guards,
}

enum DiskFault {
    None,
    NotWritten(StoreError),
    /// Written, but an error is returned.
    WrittenWithError,
}

impl GatedStore {
    /// Reads do not fail.
    fn next_fault(&self, call: StoreCall) -> DiskFault {
        if call.kind() == CallKind::Read {
            return DiskFault::None;
        }
        if self.disk.full.load(Ordering::Relaxed) {
            return DiskFault::NotWritten(StoreError::DiskFull { source: "the disk is full".into() });
        }
        if !self.random.happens(self.disk.faults_per_mille.load(Ordering::Relaxed)) {
            return DiskFault::None;
        }
        match self.random.below(3) {
            0 => DiskFault::NotWritten(StoreError::Busy {
                holder: None,
                source: "the database is locked".into(),
            }),
            1 => DiskFault::NotWritten(outcome_unknown()),
            _ => DiskFault::WrittenWithError,
        }
    }

    /// Guards are not stored. A run without a guard must remove it from every policy it reads.
    fn apply_guards(&self, mut row: Row) -> Row {
        if let Row::Readable(stored) = &mut row {
            Arc::make_mut(&mut stored.policy).guards = self.guards;
        }
        row
    }
}

fn outcome_unknown() -> StoreError {
    StoreError::OutcomeUnknown { source: "the disk failed".into() }
}

#[async_trait]
impl StoreLayer for GatedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn around<T: Send, E: From<StoreError> + Send>(
        &self,
        call: StoreCall,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        self.gate.pass().await;
        let answer = match self.next_fault(call) {
            DiskFault::None => work.await,
            DiskFault::NotWritten(error) => Err(error.into()),
            DiskFault::WrittenWithError => work.await.and_then(|_| Err(outcome_unknown().into())),
        };
        self.gate.pass().await;
        answer
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let (transition, policy) = (new.transition.clone(), new.policy.clone());
        self.around(StoreCall::Create, async {
            let created = self.inner.create(new, limits).await?;
            if let Created::New(_) = created {
                self.checker.committed(&transition, Some(policy));
            }
            Ok(created)
        })
        .await
    }

    async fn fill_pool(
        &self,
        new: NewSandbox,
        size: u64,
        limits: AdmissionLimits,
    ) -> Result<Version, FillError> {
        let (transition, policy) = (new.transition.clone(), new.policy.clone());
        self.around(StoreCall::FillPool, async {
            let version = self.inner.fill_pool(new, size, limits).await?;
            self.checker.committed(&transition, Some(policy));
            Ok(version)
        })
        .await
    }

    async fn claim(&self, claim: PoolClaim) -> Result<Created, ClaimError> {
        let (transition, policy) = (claim.change.transition.clone(), claim.policy.clone());
        self.around(StoreCall::Claim, async {
            let created = self.inner.claim(claim).await?;
            if let Created::New(_) = created {
                self.checker.claimed(&transition, &policy);
                self.checker.committed(&transition, Some(policy));
            }
            Ok(created)
        })
        .await
    }

    async fn pool_members(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.around(StoreCall::PoolMembers, self.inner.pool_members(shape, after, limit)).await?;
        Ok(rows.into_iter().map(|row| self.apply_guards(row)).collect())
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        let transition = change.transition.clone();
        self.around(StoreCall::Commit, async {
            let version = self.inner.commit(change).await?;
            self.checker.committed(&transition, None);
            Ok(version)
        })
        .await
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        let row = self.around(StoreCall::Load, self.inner.load(id)).await?;
        Ok(row.map(|row| self.apply_guards(row)))
    }

    async fn list(
        &self,
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.around(StoreCall::List, self.inner.list(filter, after, limit)).await?;
        Ok(rows.into_iter().map(|row| self.apply_guards(row)).collect())
    }
}
