//! The harness of one conformance case: a fixture, a provider and the steps that cases share.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinfold_lifecycle::{
    Command, Evidence, ExecutionId, ExecutionLimits, Finding, Generation, InstanceObservation, Outcome,
    ProcessObservation, Receipt, SandboxId, StopOutcome, Timestamp,
};

use super::permit::Granted;
use super::{Fixture, TestCommand, WAIT_TIMEOUT};
use crate::{ExecError, ExecRequest, Found, InstanceId, Provider, StartError, StartPermit, StartRequest};

/// Later than the end of every case.
const LATER_MS: u64 = 3_600_000;
const GRACE_MS: u64 = 100;
const POLL: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(super) struct Harness {
    pub(super) fixture: Arc<dyn Fixture>,
    pub(super) provider: Arc<dyn Provider>,
    /// All instance ids used, so that they can be stopped.
    used: Arc<Mutex<Vec<InstanceId>>>,
}

impl Harness {
    pub(super) fn new(fixture: Arc<dyn Fixture>) -> Self {
        Self { provider: fixture.provider(), fixture, used: Arc::default() }
    }

    /// The same environment with a new provider handle, like another process.
    pub(super) fn another_process(&self) -> Self {
        Self { provider: self.fixture.provider(), ..self.clone() }
    }

    /// Stops what is left, as far as the provider can.
    pub(super) async fn clear(&self) {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for instance in used {
            // The case's own panic is the report; one from here would hide it.
            let _ = tokio::time::timeout(WAIT_TIMEOUT, self.provider.stop(instance, 0)).await;
        }
    }

    /// The first instance id of a new sandbox. It does not exist yet.
    pub(super) fn fresh_instance(&self) -> InstanceId {
        let sandbox = self.fixture.fresh_sandbox();
        self.instance(sandbox, 1)
    }

    pub(super) fn instance(&self, sandbox: SandboxId, generation: u64) -> InstanceId {
        let instance = InstanceId { sandbox, generation: Generation(generation) };
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(instance);
        instance
    }

    pub(super) fn later(&self) -> Timestamp {
        self.fixture.in_ms(LATER_MS)
    }

    pub(super) async fn launch(
        &self,
        instance: InstanceId,
        permit: &dyn StartPermit,
    ) -> Result<(), StartError> {
        self.launch_until(instance, permit, self.later()).await
    }

    pub(super) async fn launch_until(
        &self,
        instance: InstanceId,
        permit: &dyn StartPermit,
        ends_at: Timestamp,
    ) -> Result<(), StartError> {
        let spec = self.fixture.spec();
        let start = StartRequest { instance, spec: &spec, ends_at, ends_with_caller: false, permit };
        self.provider.start(start).await
    }

    pub(super) async fn start(&self, instance: InstanceId) {
        let started = self.launch(instance, &Granted).await;
        assert_eq!(started, Ok(()), "a wanted launch of {instance:?} did not succeed");
    }

    pub(super) async fn started(&self) -> InstanceId {
        let instance = self.fresh_instance();
        self.start(instance).await;
        instance
    }

    /// The instances of a sandbox. Panics if they cannot be observed.
    pub(super) async fn instances(&self, sandbox: SandboxId) -> Vec<InstanceObservation> {
        match self.provider.observe(sandbox).await {
            Evidence::Present(instances) => {
                assert!(!instances.is_empty(), "{sandbox} is reported present without an instance");
                instances
            }
            Evidence::Absent(checks) => {
                let all_absent = checks.iter().all(|check| check.result == Finding::Absent);
                assert!(!checks.is_empty() && all_absent, "{sandbox} is reported absent by {checks:?}");
                Vec::new()
            }
            Evidence::Unknown { why } => panic!("{sandbox} could not be observed: {why}"),
        }
    }

    /// The instance, which must be complete and the only one of its sandbox.
    pub(super) async fn whole(&self, instance: InstanceId) -> InstanceObservation {
        let instances = self.instances(instance.sandbox).await;
        let [seen] = instances.as_slice() else {
            panic!("{instance:?} is missing, or not the only one: {instances:?}");
        };
        assert_eq!(seen.generation, instance.generation, "another generation is present: {seen:?}");
        assert!(seen.whole, "{instance:?} is not complete: {seen:?}");
        seen.clone()
    }

    pub(super) async fn absent(&self, sandbox: SandboxId) {
        let instances = self.instances(sandbox).await;
        assert!(instances.is_empty(), "{sandbox} is not absent: {instances:?}");
        let found = self.discovered(sandbox).await;
        assert!(found.is_empty(), "{sandbox} is absent and discovered: {found:?}");
    }

    /// The discovered instances of one sandbox; others may be on the same host.
    pub(super) async fn discovered(&self, sandbox: SandboxId) -> Vec<Found> {
        let discovered = self.provider.discover().await;
        let discovered = discovered.unwrap_or_else(|error| panic!("discover failed: {error}"));
        let mut found = discovered.found;
        found.retain(|found| found.instance.sandbox == sandbox);
        found
    }

    pub(super) async fn stop(&self, instance: InstanceId) -> StopOutcome {
        self.provider.stop(instance, GRACE_MS).await
    }

    /// Stops an instance and returns the receipt.
    pub(super) async fn stopped(&self, instance: InstanceId) -> Receipt {
        match self.stop(instance).await {
            StopOutcome::Gone(receipt) => *receipt,
            other => panic!("{instance:?} is not gone after its stop: {other:?}"),
        }
    }

    pub(super) async fn exec(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        command_kind: TestCommand,
    ) -> Result<(), ExecError> {
        self.exec_command(instance, execution, &self.fixture.command(command_kind)).await
    }

    async fn exec_command(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        command: &Command,
    ) -> Result<(), ExecError> {
        let exec = ExecRequest { execution, command, limits: ExecutionLimits::default() };
        self.provider.exec(instance, exec).await
    }

    /// Starts a command that every provider knows, as an execution of this id.
    pub(super) async fn run_as(&self, instance: InstanceId, execution: ExecutionId, argv: &[&str]) {
        let argv = argv.iter().map(ToString::to_string).collect::<Vec<_>>();
        let command = Command { argv, ..Command::default() };
        let ran = self.exec_command(instance, execution, &command).await;
        assert_eq!(ran, Ok(()), "{:?} was not started in {instance:?}", command.argv);
    }

    /// Runs a script to its end.
    pub(super) async fn sh(&self, instance: InstanceId, script: &str) -> ExecutionId {
        let execution = self.fixture.fresh_execution();
        self.run_as(instance, execution, &["sh", "-c", script]).await;
        let outcome = self.outcome(instance, execution).await;
        assert_eq!(outcome.exit_code, Some(0), "`{script}` ended with {outcome:?}");
        execution
    }

    /// Starts a new execution.
    pub(super) async fn run(&self, instance: InstanceId, command_kind: TestCommand) -> ExecutionId {
        let execution = self.fixture.fresh_execution();
        let ran = self.exec(instance, execution, command_kind).await;
        assert_eq!(ran, Ok(()), "{command_kind:?} was not started in {instance:?}");
        execution
    }

    pub(super) async fn outcome(&self, instance: InstanceId, execution: ExecutionId) -> Outcome {
        let waited = within("the end of an execution", self.provider.wait(instance, execution)).await;
        waited.unwrap_or_else(|error| panic!("{execution} could not be waited for: {error}"))
    }

    /// The observation of an execution in a live instance. None: not listed.
    pub(super) async fn seen(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
    ) -> Option<ProcessObservation> {
        let mut seen = self.whole(instance).await.executions;
        seen.retain(|seen| seen.execution == execution);
        assert!(seen.len() <= 1, "{execution} is listed more than once: {seen:?}");
        seen.pop().map(|seen| seen.process)
    }

    pub(super) async fn runs(&self, instance: InstanceId, execution: ExecutionId) {
        let seen = self.seen(instance, execution).await;
        assert!(
            matches!(seen, Some(ProcessObservation::Running { .. })),
            "{execution} is not observed running: {seen:?}"
        );
    }

    /// Waits until a sandbox has no complete instance and no running process.
    pub(super) async fn lifeless(&self, sandbox: SandboxId) {
        within("the end of an instance", async {
            while self.instances(sandbox).await.iter().any(shows_life) {
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
    }
}

fn shows_life(instance: &InstanceObservation) -> bool {
    instance.whole || runs_something(instance)
}

pub(super) fn runs_something(instance: &InstanceObservation) -> bool {
    let mut executions = instance.executions.iter();
    executions.any(|execution| matches!(execution.process, ProcessObservation::Running { .. }))
}

pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(WAIT_TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("timeout of {WAIT_TIMEOUT:?} waiting for {what}"))
}

/// Asserts that an exec was refused for certain.
pub(super) fn refused(answer: &Result<(), ExecError>, what: &str) {
    assert!(matches!(answer, Err(ExecError::Refused { .. })), "{what} was not refused: {answer:?}");
}

/// Asserts that a call failed.
pub(super) fn fails<T: Debug, E: Debug>(answer: &Result<T, E>, what: &str) {
    assert!(answer.is_err(), "{what} succeeded: {answer:?}");
}
