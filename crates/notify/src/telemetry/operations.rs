//! Spans of engine operations. They begin and end with committed facts, so that outcome and cause match the record.
//! The current context at commit is the parent, since the requesting task commits. Command lines, output and error
//! texts are never attributes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use opentelemetry::trace::{SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use pinfold_engine::{ReconcileError, ReconcileMode, ReconcileReport};
use pinfold_lifecycle::{
    Cause, ExecutionId, Fact, Lease, Life, Outcome, OutcomeKind, Record, Sandbox, SandboxId,
};
use pinfold_metrics::word;

use super::Spans;
use super::spans::{Tracing, cause, outcome, sandbox, to_i64};

/// Limit of open spans. If another process ends an operation, this one never hears of it, so the oldest is dropped.
const MAX_OPEN: usize = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Create(SandboxId),
    Stop(SandboxId),
    Exec(ExecutionId),
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Stop(_) => "stop",
            Self::Exec(_) => "exec",
        }
    }
}

/// Operations that have begun and not ended.
#[derive(Default)]
pub(super) struct OpenOperations(BTreeMap<Operation, (SystemTime, Context)>);

impl OpenOperations {
    pub(super) fn context_of(&self, operation: Operation) -> Option<Context> {
        self.0.get(&operation).map(|(_, context)| context.clone())
    }

    fn put(&mut self, operation: Operation, began: SystemTime, context: Context) {
        if self.0.len() >= MAX_OPEN {
            let oldest = self.0.iter().min_by_key(|(_, (began, _))| *began).map(|(operation, _)| *operation);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(operation, (began, context));
    }
}

impl Spans {
    /// The spans that this commit begins or ends.
    pub fn committed(&self, sandbox: &Sandbox, records: &[Record]) {
        let Some(tracing) = self.tracing() else { return };
        let mut open = tracing.open();
        let mut spans = CommitSpans { tracing, open: &mut open, sandbox, freed: false };
        records.iter().for_each(|record| spans.add(record));
    }

    /// The span of a comparison of records with instances.
    pub fn compared(
        &self,
        how: ReconcileMode,
        took_ms: u64,
        found: Result<&ReconcileReport, &ReconcileError>,
    ) {
        let Some(tracing) = self.tracing() else { return };
        let mut attributes = vec![KeyValue::new("pinfold.dry_run", how == ReconcileMode::DryRun)];
        if let Ok(report) = found {
            let numbers = [
                ("pinfold.reconcile.records", report.records),
                ("pinfold.reconcile.instances", report.instances),
                ("pinfold.reconcile.instances_without_record", report.instances_without_record.len()),
                ("pinfold.reconcile.records_without_instance", report.records_without_instance.len()),
            ];
            attributes.extend(numbers.map(|(name, number)| KeyValue::new(name, to_i64(number as u64))));
        }
        tracing.record_past("reconcile", took_ms, found.is_ok(), attributes);
    }
}

/// Handles the facts of one commit in order.
struct CommitSpans<'a> {
    tracing: &'a Tracing,
    open: &'a mut OpenOperations,
    /// The sandbox after the commit.
    sandbox: &'a Sandbox,
    /// An earlier fact of this commit proved its instance gone.
    freed: bool,
}

impl CommitSpans<'_> {
    fn add(&mut self, record: &Record) {
        let (create, stop) = (Operation::Create(self.sandbox.id), Operation::Stop(self.sandbox.id));
        match &record.fact {
            Fact::Created | Fact::Pooled => self.created(record),
            Fact::BecameReady { .. } => self.end(create, "ready", None, Status::Unset),
            Fact::StartFailed { cause, .. } => self.note(create, "start_failed", *cause),
            Fact::EndDecided { cause } => {
                self.end(create, "ended", Some(*cause), Status::error(word(cause)));
                if !self.freed {
                    self.begin(stop, record);
                }
            }
            Fact::StopBegan { .. } => self.begin(stop, record),
            Fact::LeaseFreed { .. } => self.freed(),
            Fact::Ended { cause } => self.end(stop, "gone", Some(*cause), Status::Unset),
            Fact::Quarantined { .. } => self.end(stop, "quarantined", None, Status::error("quarantined")),
            Fact::ExecutionQueued { execution } => self.begin(Operation::Exec(*execution), record),
            Fact::ExecutionStarted { execution } => self.started(*execution),
            Fact::ExecutionEnded { execution, outcome } => self.executed(*execution, outcome),
            Fact::DeadlineUpdated { .. }
            | Fact::LaunchBegan { .. }
            | Fact::Launched { .. }
            | Fact::AttemptFailed { .. }
            | Fact::RetryScheduled { .. }
            | Fact::WorkAccepted { .. }
            | Fact::RestartRequested { .. }
            | Fact::StopFailed { .. }
            | Fact::ObservedInQuarantine { .. }
            | Fact::Attested { .. }
            | Fact::StrayFound { .. }
            | Fact::BecameUnhealthy { .. }
            | Fact::BecameHealthy
            | Fact::InDoubt { .. }
            | Fact::UnexpectedInstances { .. }
            | Fact::Reconciled { .. }
            | Fact::Adopted { .. }
            | Fact::KeptAlive { .. }
            | Fact::ForgetRequested
            | Fact::FilesPut { .. }
            | Fact::ExecutionEnding { .. }
            | Fact::ExecutionCollecting { .. }
            | Fact::LateAnswer { .. } => {}
        }
    }

    /// A sandbox from the warm pool is ready at once.
    fn created(&mut self, record: &Record) {
        let create = Operation::Create(self.sandbox.id);
        self.begin(create, record);
        if matches!(self.sandbox.lease, Lease::Live(_)) {
            self.end(create, "ready", None, Status::Unset);
        }
    }

    fn freed(&mut self) {
        self.freed = true;
        let stop = Operation::Stop(self.sandbox.id);
        match &self.sandbox.life {
            Life::Ended { cause, receipt, .. } => {
                let outcome_name = if receipt.attested.is_some() { "attested" } else { "gone" };
                self.end(stop, outcome_name, Some(*cause), Status::Unset);
            }
            // Another instance will follow.
            Life::Wanted | Life::Ending { .. } => self.end(stop, "gone", None, Status::Unset),
        }
    }

    /// Starts a span unless the operation has one already.
    fn begin(&mut self, operation: Operation, record: &Record) {
        if self.open.0.contains_key(&operation) {
            return;
        }
        let mut attributes = vec![sandbox(self.sandbox.id)];
        match operation {
            Operation::Create(_) => {
                let is_pooled = matches!(record.fact, Fact::Pooled);
                attributes.push(KeyValue::new("pinfold.pooled", is_pooled));
            }
            Operation::Exec(id) => attributes.push(KeyValue::new("pinfold.execution.id", id.to_string())),
            Operation::Stop(_) => {}
        }
        let began = self.tracing.clock.end_of(record.at);
        let parent = Context::current();
        let context = self.tracing.begin(operation.name(), SpanKind::Internal, &parent, began, attributes);
        self.open.put(operation, began, context);
    }

    fn note(&self, operation: Operation, event: &'static str, of: Cause) {
        if let Some((_, context)) = self.open.0.get(&operation) {
            context.span().add_event_with_timestamp(event, self.tracing.clock.now(), vec![cause(of)]);
        }
    }

    fn started(&self, execution: ExecutionId) {
        if let Some((_, context)) = self.open.0.get(&Operation::Exec(execution)) {
            context.span().add_event_with_timestamp("started", self.tracing.clock.now(), Vec::new());
        }
    }

    fn executed(&mut self, execution: ExecutionId, outcome_of: &Outcome) {
        let exec = Operation::Exec(execution);
        if let (Some((_, context)), Some(code)) = (self.open.0.get(&exec), outcome_of.exit_code) {
            context.span().set_attribute(KeyValue::new("pinfold.exit_code", i64::from(code)));
        }
        // A cancelled execution and a nonzero exit code are not errors of the operation.
        let status = match outcome_of.kind {
            OutcomeKind::Exited | OutcomeKind::Cancelled => Status::Unset,
            OutcomeKind::Failed | OutcomeKind::TimedOut | OutcomeKind::Lost => {
                Status::error(word(&outcome_of.cause))
            }
        };
        self.end(exec, word(&outcome_of.kind), Some(outcome_of.cause), status);
    }

    fn end(
        &mut self,
        operation: Operation,
        outcome_name: impl Into<std::borrow::Cow<'static, str>>,
        of: Option<Cause>,
        status: Status,
    ) {
        let Some((_, context)) = self.open.0.remove(&operation) else { return };
        let span = context.span();
        span.set_attribute(outcome(outcome_name));
        if let Some(of) = of {
            span.set_attribute(cause(of));
        }
        span.set_status(status);
        span.end_with_timestamp(self.tracing.clock.now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_oldest_open_operation_is_dropped_at_the_limit() {
        let mut open = OpenOperations::default();
        let at = |second: u64| UNIX_EPOCH + Duration::from_secs(second);

        for number in 0..(MAX_OPEN as u64 + 2) {
            // Ids normally grow with time; here they do not.
            let id = SandboxId(u128::from(u64::MAX - number));
            open.put(Operation::Create(id), at(number), Context::new());
        }

        assert_eq!(open.0.len(), MAX_OPEN);
        let has = |number: u64| {
            open.context_of(Operation::Create(SandboxId(u128::from(u64::MAX - number)))).is_some()
        };
        assert!(!has(0) && !has(1) && has(2));
    }
}
