//! What an engine does, as spans: they begin and end with the facts that are committed, so that outcome and cause are
//! those of the record. Whoever asked is the parent, since a wish is committed in the task of whoever has it. What a
//! command is called with, what it says and why something failed in words is no part of them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use opentelemetry::trace::{SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use pinfold_engine::{Onlooker, Reconcile, ReconcileError, ReconcileReport};
use pinfold_lifecycle::{
    Cause, ExecutionId, Fact, Lease, Life, Outcome, OutcomeKind, Record, Sandbox, SandboxId,
};
use pinfold_metrics::word;

use super::Spans;
use super::spans::{Tracing, cause, outcome, sandbox, whole};

/// That are under way. Where another process ends what was begun here, this one never hears of it: the oldest goes.
const MOST: usize = 4_096;

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

/// What has begun and not ended.
#[derive(Default)]
pub(super) struct Open(BTreeMap<Operation, (SystemTime, Context)>);

impl Open {
    pub(super) fn context_of(&self, operation: Operation) -> Option<Context> {
        self.0.get(&operation).map(|(_, context)| context.clone())
    }

    fn put(&mut self, operation: Operation, began: SystemTime, context: Context) {
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, (began, _))| *began).map(|(operation, _)| *operation);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(operation, (began, context));
    }
}

impl Onlooker for Spans {
    fn committed(&self, sandbox: &Sandbox, records: &[Record]) {
        let Some(tracing) = self.tracing() else { return };
        let mut open = tracing.open();
        let mut turn = Turn { tracing, open: &mut open, sandbox, freed: false };
        records.iter().for_each(|record| turn.take_in(record));
    }

    fn compared(&self, how: Reconcile, took_ms: u64, found: Result<&ReconcileReport, &ReconcileError>) {
        let Some(tracing) = self.tracing() else { return };
        let mut attributes = vec![KeyValue::new("pinfold.dry_run", how == Reconcile::DryRun)];
        if let Ok(report) = found {
            let numbers = [
                ("pinfold.reconcile.records", report.records),
                ("pinfold.reconcile.bodies", report.bodies),
                ("pinfold.reconcile.bodies_without_record", report.bodies_without_record.len()),
                ("pinfold.reconcile.records_without_body", report.records_without_body.len()),
            ];
            attributes.extend(numbers.map(|(name, number)| KeyValue::new(name, whole(number as u64))));
        }
        tracing.tell_past("reconcile", took_ms, found.is_ok(), attributes);
    }
}

/// The facts of one commit, in their order.
struct Turn<'a> {
    tracing: &'a Tracing,
    open: &'a mut Open,
    /// As it is after all of them.
    sandbox: &'a Sandbox,
    /// Its body is proven gone by an earlier one.
    freed: bool,
}

impl Turn<'_> {
    fn take_in(&mut self, record: &Record) {
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
            Fact::EndMoved { .. }
            | Fact::LaunchBegan { .. }
            | Fact::Launched { .. }
            | Fact::TryFailed { .. }
            | Fact::NextTryWaits { .. }
            | Fact::WorkAccepted { .. }
            | Fact::RestartAsked { .. }
            | Fact::StopFailed { .. }
            | Fact::LookedInQuarantine { .. }
            | Fact::Attested { .. }
            | Fact::StrayFound { .. }
            | Fact::BecameUnhealthy { .. }
            | Fact::BecameHealthy
            | Fact::InDoubt { .. }
            | Fact::UnexpectedBodies { .. }
            | Fact::Reconciled { .. }
            | Fact::Adopted { .. }
            | Fact::KeptAlive { .. }
            | Fact::ForgetAsked
            | Fact::ExecutionEnding { .. }
            | Fact::LateAnswer { .. } => {}
        }
    }

    /// From the pool it comes ready.
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
                let told = if receipt.attested.is_some() { "attested" } else { "gone" };
                self.end(stop, told, Some(*cause), Status::Unset);
            }
            // Another body is to follow.
            Life::Wanted | Life::Ending { .. } => self.end(stop, "gone", None, Status::Unset),
        }
    }

    /// What is under way goes on.
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

    fn executed(&mut self, execution: ExecutionId, came_to: &Outcome) {
        let exec = Operation::Exec(execution);
        if let (Some((_, context)), Some(code)) = (self.open.0.get(&exec), came_to.exit_code) {
            context.span().set_attribute(KeyValue::new("pinfold.exit_code", i64::from(code)));
        }
        // A cancel is somebody's wish, and a code of its own is the command's business.
        let status = match came_to.kind {
            OutcomeKind::Exited | OutcomeKind::Cancelled => Status::Unset,
            OutcomeKind::Failed | OutcomeKind::TimedOut | OutcomeKind::Lost => {
                Status::error(word(&came_to.cause))
            }
        };
        self.end(exec, word(&came_to.kind), Some(came_to.cause), status);
    }

    fn end(
        &mut self,
        operation: Operation,
        told: impl Into<std::borrow::Cow<'static, str>>,
        of: Option<Cause>,
        status: Status,
    ) {
        let Some((_, context)) = self.open.0.remove(&operation) else { return };
        let span = context.span();
        span.set_attribute(outcome(told));
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
    fn what_is_never_heard_of_again_makes_room() {
        let mut open = Open::default();
        let at = |second: u64| UNIX_EPOCH + Duration::from_secs(second);

        for number in 0..(MOST as u64 + 2) {
            // Ids grow with time, as a rule; here they do not.
            let id = SandboxId(u128::from(u64::MAX - number));
            open.put(Operation::Create(id), at(number), Context::new());
        }

        assert_eq!(open.0.len(), MOST);
        let has = |number: u64| {
            open.context_of(Operation::Create(SandboxId(u128::from(u64::MAX - number)))).is_some()
        };
        assert!(!has(0) && !has(1) && has(2));
    }
}
