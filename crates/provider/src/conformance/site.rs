//! Where one promise is tried: a ground, a provider on it, and the steps that most promises are made of.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinfold_lifecycle::{
    BodySeen, Evidence, ExecutionId, ExecutionLimits, Finding, Generation, Outcome, Receipt, SandboxId, Seen,
    StopOutcome, Timestamp,
};

use super::permit::Granted;
use super::{Deed, Ground, PATIENCE};
use crate::{Exec, ExecError, Found, InstanceId, Provider, Start, StartError, StartPermit};

/// Far enough ahead that no promise sees it come.
const LATER_MS: u64 = 3_600_000;
const GRACE_MS: u64 = 100;
const POLL: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(super) struct Site {
    pub(super) ground: Arc<dyn Ground>,
    pub(super) provider: Arc<dyn Provider>,
    /// Every sandbox that was given out, with the newest generation that may have a body.
    used: Arc<Mutex<Vec<InstanceId>>>,
}

impl Site {
    pub(super) fn new(ground: Arc<dyn Ground>) -> Self {
        Self { provider: ground.provider(), ground, used: Arc::default() }
    }

    /// The same place, seen from another process that knows nothing of this one.
    pub(super) fn another_process(&self) -> Self {
        Self { provider: self.ground.provider(), ..self.clone() }
    }

    /// Stops what is left, as well as the provider can.
    pub(super) async fn clear(&self) {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for body in used {
            // A broken promise is reported by its own panic: one about its remains would hide it.
            let _ = tokio::time::timeout(PATIENCE, self.provider.stop(body, 0)).await;
        }
    }

    /// Names the first body of a new sandbox. It does not exist yet.
    pub(super) fn fresh_body(&self) -> InstanceId {
        let sandbox = self.ground.fresh_sandbox();
        self.body(sandbox, 1)
    }

    pub(super) fn body(&self, sandbox: SandboxId, generation: u64) -> InstanceId {
        let body = InstanceId { sandbox, generation: Generation(generation) };
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(body);
        body
    }

    pub(super) fn later(&self) -> Timestamp {
        self.ground.in_ms(LATER_MS)
    }

    pub(super) async fn launch(&self, body: InstanceId, permit: &dyn StartPermit) -> Result<(), StartError> {
        self.launch_until(body, permit, self.later()).await
    }

    pub(super) async fn launch_until(
        &self,
        body: InstanceId,
        permit: &dyn StartPermit,
        ends_at: Timestamp,
    ) -> Result<(), StartError> {
        let spec = self.ground.spec();
        let start = Start { body, spec: &spec, ends_at, ends_with_caller: false, permit };
        self.provider.start(start).await
    }

    pub(super) async fn start(&self, body: InstanceId) {
        let started = self.launch(body, &Granted).await;
        assert_eq!(started, Ok(()), "a wanted launch of {body:?} did not succeed");
    }

    pub(super) async fn started(&self) -> InstanceId {
        let body = self.fresh_body();
        self.start(body).await;
        body
    }

    /// What is there of a sandbox. Not being able to look is not an answer here.
    pub(super) async fn bodies(&self, sandbox: SandboxId) -> Vec<BodySeen> {
        match self.provider.observe(sandbox).await {
            Evidence::Present(bodies) => {
                assert!(!bodies.is_empty(), "{sandbox} is present without a body");
                bodies
            }
            Evidence::Absent(checks) => {
                let all_absent = checks.iter().all(|check| check.result == Finding::Absent);
                assert!(!checks.is_empty() && all_absent, "{sandbox} is called absent by {checks:?}");
                Vec::new()
            }
            Evidence::Unknown { why } => panic!("{sandbox} could not be looked at: {why}"),
        }
    }

    /// The body, which must be there, whole, and the only one of its sandbox.
    pub(super) async fn whole(&self, body: InstanceId) -> BodySeen {
        let bodies = self.bodies(body.sandbox).await;
        let [seen] = bodies.as_slice() else {
            panic!("{body:?} is not there, or not alone: {bodies:?}");
        };
        assert_eq!(seen.generation, body.generation, "another generation is there: {seen:?}");
        assert!(seen.whole, "{body:?} is not whole: {seen:?}");
        seen.clone()
    }

    pub(super) async fn absent(&self, sandbox: SandboxId) {
        let bodies = self.bodies(sandbox).await;
        assert!(bodies.is_empty(), "{sandbox} is not absent: {bodies:?}");
        let found = self.discovered(sandbox).await;
        assert!(found.is_empty(), "{sandbox} is absent and yet discovered: {found:?}");
    }

    /// What is discovered of one sandbox; others may live on the same host.
    pub(super) async fn discovered(&self, sandbox: SandboxId) -> Vec<Found> {
        let discovered = self.provider.discover().await;
        let discovered = discovered.unwrap_or_else(|error| panic!("nothing could be discovered: {error}"));
        let mut found = discovered.found;
        found.retain(|found| found.body.sandbox == sandbox);
        found
    }

    pub(super) async fn stop(&self, body: InstanceId) -> StopOutcome {
        self.provider.stop(body, GRACE_MS).await
    }

    /// Stops, and reads what proves it.
    pub(super) async fn stopped(&self, body: InstanceId) -> Receipt {
        match self.stop(body).await {
            StopOutcome::Gone(receipt) => *receipt,
            other => panic!("{body:?} is not gone after its stop: {other:?}"),
        }
    }

    pub(super) async fn exec(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        deed: Deed,
    ) -> Result<(), ExecError> {
        let command = self.ground.command(deed);
        let exec = Exec { execution, command: &command, limits: ExecutionLimits::default() };
        self.provider.exec(body, exec).await
    }

    /// Starts an execution of its own.
    pub(super) async fn run(&self, body: InstanceId, deed: Deed) -> ExecutionId {
        let execution = self.ground.fresh_execution();
        let ran = self.exec(body, execution, deed).await;
        assert_eq!(ran, Ok(()), "{deed:?} was not started in {body:?}");
        execution
    }

    pub(super) async fn outcome(&self, body: InstanceId, execution: ExecutionId) -> Outcome {
        let waited = within("the end of an execution", self.provider.wait(body, execution)).await;
        waited.unwrap_or_else(|error| panic!("{execution} could not be waited for: {error}"))
    }

    /// How a look sees an execution of a live body. None: it is not listed.
    pub(super) async fn seen(&self, body: InstanceId, execution: ExecutionId) -> Option<Seen> {
        let mut seen = self.whole(body).await.executions;
        seen.retain(|seen| seen.execution == execution);
        assert!(seen.len() <= 1, "{execution} is listed more than once: {seen:?}");
        seen.pop().map(|seen| seen.seen)
    }

    pub(super) async fn runs(&self, body: InstanceId, execution: ExecutionId) {
        let seen = self.seen(body, execution).await;
        assert!(matches!(seen, Some(Seen::Running { .. })), "{execution} is not seen running: {seen:?}");
    }

    /// Waits until a sandbox has no whole body, and nothing of it runs.
    pub(super) async fn lifeless(&self, sandbox: SandboxId) {
        within("the end of a body", async {
            while self.bodies(sandbox).await.iter().any(shows_life) {
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
    }
}

fn shows_life(body: &BodySeen) -> bool {
    body.whole || runs_something(body)
}

pub(super) fn runs_something(body: &BodySeen) -> bool {
    let mut executions = body.executions.iter();
    executions.any(|execution| matches!(execution.seen, Seen::Running { .. }))
}

pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}

/// That a call was refused, for certain.
pub(super) fn refused(answer: &Result<(), ExecError>, what: &str) {
    assert!(matches!(answer, Err(ExecError::Refused { .. })), "{what} was not refused: {answer:?}");
}

/// That an answer is an error, whatever it says.
pub(super) fn fails<T: Debug, E: Debug>(answer: &Result<T, E>, what: &str) {
    assert!(answer.is_err(), "{what} succeeded: {answer:?}");
}
