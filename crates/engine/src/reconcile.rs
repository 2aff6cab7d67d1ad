//! Compares every physical thing that carries our mark with the leases, and feeds the difference to the
//! lifecycle. It decides nothing by itself: a snapshot is old when it is read, so it only raises questions.

use std::collections::BTreeSet;
use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Event, Evidence, Generation, Lease, Policy, Request, SandboxId, Spec, lease_orphan,
};
use pinfold_provider::{DiscoverError, Discovered, Found, InstanceId};
use pinfold_store::{Bid, CreateError, Filter, NewSandbox, Row, StoreError, Stored};

use crate::ApplyError;
use crate::apply::Input;
use crate::engine::{Inner, PAGE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconcile {
    /// Only say what would be done.
    DryRun,
    Repair,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReconcileReport {
    pub bodies: usize,
    pub records: usize,
    /// Bodies without a lease: they are leased, to be stopped.
    pub bodies_without_record: Vec<InstanceId>,
    /// Live records without a whole body of their own: they are looked at closely.
    pub records_without_body: Vec<SandboxId>,
    /// Rows that cannot be read: they are quarantined.
    pub unreadable_records: Vec<SandboxId>,
    /// Marks that cannot be read: they are left alone.
    pub unreadable_marks: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("could not lease an orphan")]
    Lease(#[from] CreateError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Inner {
    pub(crate) async fn keep_reconciled(self: Arc<Self>) {
        loop {
            if let Err(error) = self.clone().reconcile(Reconcile::Repair).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "reconciling failed");
            }
            self.clock.sleep_until(self.clock.now().after_ms(self.config.reconcile_every_ms)).await;
        }
    }

    pub(crate) async fn reconcile(
        self: Arc<Self>,
        how: Reconcile,
    ) -> Result<ReconcileReport, ReconcileError> {
        let began_at = self.clock.now();
        let report = self.compare(how).await;
        if let Some(onlooker) = self.onlooker.get() {
            onlooker.compared(how, self.clock.now().ms_since(began_at), report.as_ref());
        }
        report
    }

    async fn compare(self: &Arc<Self>, how: Reconcile) -> Result<ReconcileReport, ReconcileError> {
        let Discovered { found, unreadable } = self.provider.discover().await?;
        let mut report = ReconcileReport {
            bodies: found.len(),
            unreadable_marks: unreadable,
            ..ReconcileReport::default()
        };
        let whole: BTreeSet<InstanceId> =
            found.iter().filter(|found| found.whole).map(|found| found.body).collect();
        // The records first: strays that are leased below are none of them.
        self.reconcile_records(&whole, how, &mut report).await?;
        for Found { body, .. } in &found {
            self.reconcile_body(*body, how, &mut report).await?;
        }
        Ok(report)
    }

    async fn reconcile_body(
        self: &Arc<Self>,
        body: InstanceId,
        how: Reconcile,
        report: &mut ReconcileReport,
    ) -> Result<(), ReconcileError> {
        let leased = match self.store.load(body.sandbox).await? {
            Some(Row::Readable(stored)) => stored.sandbox.lease.may_have_a_body(),
            Some(Row::Unreadable(_)) => true,
            None => false,
        };
        // A leased sandbox's own deadlines, looks and stops cover all its generations.
        if leased || !self.is_there(body).await {
            return Ok(());
        }
        report.bodies_without_record.push(body);
        if how == Reconcile::Repair {
            tracing::warn!(sandbox_id = %body.sandbox, generation = body.generation.0, "orphaned sandbox");
            self.lease_stray(body).await?;
        }
        Ok(())
    }

    /// A fresh look: the snapshot may be older than the lease's end.
    async fn is_there(&self, body: InstanceId) -> bool {
        let is_it = |generation: Generation| generation == body.generation;
        match self.provider.observe(body.sandbox).await {
            Evidence::Present(bodies) => bodies.iter().any(|seen| is_it(seen.generation)),
            Evidence::Absent(_) | Evidence::Unknown { .. } => false,
        }
    }

    async fn lease_stray(self: &Arc<Self>, body: InstanceId) -> Result<(), ReconcileError> {
        let stray = Input::Ask(Request::LeaseStray { generation: body.generation });
        match self.clone().apply(body.sandbox, stray, Vec::new()).await {
            Ok(()) | Err(ApplyError::Refused(_)) => return Ok(()),
            Err(ApplyError::Missing) => {}
            Err(error) => return Err(error.into()),
        }
        let policy = Arc::new(Policy::default());
        let transition = lease_orphan(body.sandbox, body.generation, self.context(&policy));
        let new = NewSandbox {
            transition,
            spec: Arc::new(Spec::default()),
            policy,
            key: None,
            bid: Bid::default(),
            commands: Vec::new(),
        };
        match self.insert(new, AdmissionLimits::default()).await {
            Ok(_) | Err(CreateError::Exists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// In pages, to the end: what was not read is not missing.
    async fn reconcile_records(
        self: &Arc<Self>,
        whole: &BTreeSet<InstanceId>,
        how: Reconcile,
        report: &mut ReconcileReport,
    ) -> Result<(), ReconcileError> {
        let mut after = None;
        loop {
            let page = self.store.list(Filter::Leased, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id());
            report.records += page.len();
            for row in page {
                self.reconcile_record(&row, whole, how, report).await?;
            }
        }
    }

    async fn reconcile_record(
        self: &Arc<Self>,
        row: &Row,
        whole: &BTreeSet<InstanceId>,
        how: Reconcile,
        report: &mut ReconcileReport,
    ) -> Result<(), ReconcileError> {
        let event = match row {
            Row::Unreadable(unreadable) => {
                report.unreadable_records.push(unreadable.id);
                Event::TimePassed
            }
            Row::Readable(stored) if lacks_body(stored, whole) => {
                report.records_without_body.push(stored.sandbox.id);
                Event::Doubted { why: "no whole body of its generation was discovered".into() }
            }
            Row::Readable(_) => return Ok(()),
        };
        if how == Reconcile::Repair {
            match self.clone().apply(row.id(), Input::Fact(event), Vec::new()).await {
                Ok(()) | Err(ApplyError::Missing) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn lacks_body(stored: &Stored, whole: &BTreeSet<InstanceId>) -> bool {
    let sandbox = &stored.sandbox;
    let own = InstanceId { sandbox: sandbox.id, generation: sandbox.generation() };
    matches!(sandbox.lease, Lease::Live(_)) && !whole.contains(&own)
}
