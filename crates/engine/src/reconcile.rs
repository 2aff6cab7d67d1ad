//! Reconciliation: compares all instances on the host with the leases and applies the differences to the
//! lifecycle. Its snapshot is outdated when it is read, so it decides nothing itself; it only triggers
//! observations and stops.

use std::collections::BTreeSet;
use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Event, Evidence, Generation, Lease, Policy, Request, SandboxId, Spec, lease_orphan,
};
use pinfold_provider::{DiscoverError, Discovered, Found, InstanceId, Suspect};
use pinfold_store::{AdmissionTerms, CreateError, NewSandbox, Row, SandboxFilter, StoreError, StoredSandbox};

use crate::ApplyError;
use crate::apply::Input;
use crate::engine::{Inner, PAGE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileMode {
    /// Only report what would be done.
    DryRun,
    Repair,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReconcileReport {
    pub instances: usize,
    pub records: usize,
    /// Instances without a lease. On repair they are leased and stopped.
    pub instances_without_record: Vec<InstanceId>,
    /// Live records without a complete instance. On repair they are observed.
    pub records_without_instance: Vec<SandboxId>,
    /// Rows that cannot be read. On repair they are quarantined.
    pub unreadable_records: Vec<SandboxId>,
    /// Instance names that cannot be parsed. They are reported and never touched.
    pub unreadable_names: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("could not lease an orphaned instance")]
    Lease(#[from] CreateError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Inner {
    pub(crate) async fn reconcile_loop(self: Arc<Self>) {
        loop {
            if let Err(error) = self.clone().reconcile(ReconcileMode::Repair).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "reconciliation failed, retrying at the next interval"
                );
            }
            self.clock.sleep_until(self.clock.now().after_ms(self.config.reconcile_every_ms)).await;
        }
    }

    /// Observes an instance as soon as the provider notices that it looks broken.
    pub(crate) async fn suspect_loop(self: Arc<Self>) {
        loop {
            let Suspect { instance, why } = self.provider.next_suspect().await;
            let doubt = Input::Fact(Event::Doubted { why });
            self.clone().apply_with_retry(instance.sandbox, doubt).await;
        }
    }

    pub(crate) async fn reconcile(
        self: Arc<Self>,
        mode: ReconcileMode,
    ) -> Result<ReconcileReport, ReconcileError> {
        let began_at = self.clock.now();
        let report = self.compare(mode).await;
        if let Some(observer) = self.observer.get() {
            observer.compared(mode, self.clock.now().ms_since(began_at), report.as_ref());
        }
        report
    }

    async fn compare(self: &Arc<Self>, mode: ReconcileMode) -> Result<ReconcileReport, ReconcileError> {
        let Discovered { found, unreadable } = self.provider.discover().await?;
        let mut report = ReconcileReport {
            instances: found.len(),
            unreadable_names: unreadable,
            ..ReconcileReport::default()
        };
        let whole: BTreeSet<InstanceId> =
            found.iter().filter(|found| found.whole).map(|found| found.instance).collect();
        // Records first: the orphans leased below must not be among them.
        self.reconcile_records(&whole, mode, &mut report).await?;
        for Found { instance, .. } in &found {
            self.reconcile_instance(*instance, mode, &mut report).await?;
        }
        Ok(report)
    }

    async fn reconcile_instance(
        self: &Arc<Self>,
        instance: InstanceId,
        mode: ReconcileMode,
        report: &mut ReconcileReport,
    ) -> Result<(), ReconcileError> {
        let leased = match self.store.load(instance.sandbox).await? {
            Some(Row::Readable(stored)) => stored.sandbox.lease.may_have_instance(),
            Some(Row::Unreadable(_)) => true,
            None => false,
        };
        // The deadlines, observations and stops of a leased sandbox cover all its generations.
        if leased || !self.is_present(instance).await {
            return Ok(());
        }
        report.instances_without_record.push(instance);
        if mode == ReconcileMode::Repair {
            tracing::warn!(sandbox_id = %instance.sandbox, generation = instance.generation.0, "orphaned sandbox");
            self.lease_orphan_instance(instance).await?;
        }
        Ok(())
    }

    /// Observes again: the snapshot may be older than the end of the lease.
    async fn is_present(&self, instance: InstanceId) -> bool {
        let is_it = |generation: Generation| generation == instance.generation;
        match self.provider.observe(instance.sandbox).await {
            Evidence::Present(instances) => instances.iter().any(|seen| is_it(seen.generation)),
            Evidence::Absent(_) | Evidence::Unknown { .. } => false,
        }
    }

    async fn lease_orphan_instance(self: &Arc<Self>, instance: InstanceId) -> Result<(), ReconcileError> {
        let orphan = Input::Request(Request::LeaseStray { generation: instance.generation });
        match self.clone().apply(instance.sandbox, orphan, Vec::new()).await {
            Ok(()) | Err(ApplyError::Refused(_)) => return Ok(()),
            Err(ApplyError::Missing) => {}
            Err(error) => return Err(error.into()),
        }
        let policy = Arc::new(Policy::default());
        let transition = lease_orphan(instance.sandbox, instance.generation, self.context(&policy));
        let new = NewSandbox {
            transition,
            spec: Arc::new(Spec::default()),
            policy,
            key: None,
            admission: AdmissionTerms::default(),
            commands: Vec::new(),
        };
        match self.insert(new, AdmissionLimits::default()).await {
            Ok(_) | Err(CreateError::Exists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all pages: a row not read is not missing.
    async fn reconcile_records(
        self: &Arc<Self>,
        whole: &BTreeSet<InstanceId>,
        mode: ReconcileMode,
        report: &mut ReconcileReport,
    ) -> Result<(), ReconcileError> {
        let mut after = None;
        loop {
            let page = self.store.list(SandboxFilter::Leased, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id());
            report.records += page.len();
            for row in page {
                self.reconcile_record(&row, whole, mode, report).await?;
            }
        }
    }

    async fn reconcile_record(
        self: &Arc<Self>,
        row: &Row,
        whole: &BTreeSet<InstanceId>,
        mode: ReconcileMode,
        report: &mut ReconcileReport,
    ) -> Result<(), ReconcileError> {
        let event = match row {
            Row::Unreadable(unreadable) => {
                report.unreadable_records.push(unreadable.id);
                Event::TimePassed
            }
            Row::Readable(stored) if lacks_instance(stored, whole) => {
                report.records_without_instance.push(stored.sandbox.id);
                Event::Doubted { why: "no complete instance of its generation was discovered".into() }
            }
            Row::Readable(_) => return Ok(()),
        };
        if mode == ReconcileMode::Repair {
            match self.clone().apply(row.id(), Input::Fact(event), Vec::new()).await {
                Ok(()) | Err(ApplyError::Missing) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn lacks_instance(stored: &StoredSandbox, whole: &BTreeSet<InstanceId>) -> bool {
    let sandbox = &stored.sandbox;
    let own = InstanceId { sandbox: sandbox.id, generation: sandbox.generation() };
    matches!(sandbox.lease, Lease::Live(_)) && !whole.contains(&own)
}
