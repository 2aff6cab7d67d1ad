//! The [`Provider`] implementation of the fake.

use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    Cause, Evidence, ExecutionId, ExecutionObservation, Finding, Guard, Guards, InstanceObservation, Outcome,
    ProbeFailure, ProbeResult, ProcessObservation, Receipt, ReceiptCheck, SandboxId, StopOutcome, Timestamp,
};

use super::file_tree::{WORKING_DIRECTORY, absolute};
use super::output::FakeOutput;
use super::process::Process;
use super::shared::Locked;
use super::world::{Contents, EndedInstances, FakeInstance, FakeWorld};
use super::{Call, CallPlan, Fault, FaultPlan};
use crate::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, Found, Inspect, InstanceError,
    InstanceId, KillOutcome, OutputLogs, Provider, ResizeError, SignalError, StartError, StartRequest,
    StdinError, StdinWrite, TerminalSize, Usage, WaitError, WriteResult,
};

/// One engine's handle on the fake host.
pub struct FakeProvider {
    pub(crate) world: Arc<FakeWorld>,
    faults: Arc<dyn FaultPlan>,
    guards: Guards,
}

const NO_ANSWER: &str = "the keeper does not answer";

impl FakeProvider {
    #[must_use]
    pub fn new(world: Arc<FakeWorld>, faults: Arc<dyn FaultPlan>, guards: Guards) -> Self {
        Self { world, faults, guards }
    }

    /// Begins a call: applies the first delay and returns the plan.
    pub(crate) async fn begin(&self, call: Call) -> CallPlan {
        let plan = self.faults.plan_call(call);
        self.pause(plan.before_ms).await;
        plan
    }

    /// Ends a call: the answer is delayed, or never returned.
    pub(crate) async fn answer<T>(&self, plan: CallPlan, answer: T) -> T {
        self.pause(plan.after_ms).await;
        if plan.fault == Some(Fault::AnswerLost) {
            future::pending::<()>().await;
        }
        answer
    }

    async fn pause(&self, ms: u64) {
        if ms > 0 {
            self.faults.sleep_ms(ms).await;
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.faults.now()
    }

    /// The host as it is now.
    pub(crate) fn contents(&self) -> Locked<'_> {
        self.world.lock_at(self.now())
    }

    fn reachable(&self, instance: InstanceId) -> Result<(), String> {
        match self.contents().alive(instance, self.now()) {
            Some(_) => Ok(()),
            None => Err(format!("no keeper for generation {}", instance.generation.0)),
        }
    }

    fn is_covered(&self, found: InstanceId, stop: InstanceId) -> bool {
        let in_time =
            found.generation <= stop.generation || !self.guards.hold(Guard::StopSparesLaterGenerations);
        found.sandbox == stop.sandbox && in_time
    }
}

#[async_trait]
impl Provider for FakeProvider {
    fn files(&self) -> &dyn Files {
        self
    }

    fn output(&self) -> Arc<dyn OutputLogs> {
        Arc::new(FakeOutput { world: self.world.clone(), faults: self.faults.clone() })
    }

    fn inspect(&self) -> &dyn Inspect {
        self
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let plan = self.begin(Call::Discover).await;
        if matches!(plan.fault, Some(Fault::Fails | Fault::ObserveFails | Fault::HalfDone)) {
            return Err(DiscoverError::ObserveFailed {
                what: "the fake host".into(),
                why: "injected fault".into(),
            });
        }
        let now = self.now();
        let found = {
            let contents = self.contents();
            let instances = contents.instances.iter();
            instances
                .map(|(instance, fake)| Found { instance: *instance, whole: fake.is_alive(now) })
                .collect()
        };
        self.answer(plan, Ok(Discovered { found, unreadable: Vec::new() })).await
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        let plan = self.begin(Call::Start).await;
        if plan.fault == Some(Fault::Fails) {
            return Err(StartError::Failed { why: "injected fault".into() });
        }
        let marker = self.contents().marker(start.instance);
        self.pause(plan.halfway_ms).await;
        if !start.permit.still_wanted().await && self.guards.hold(Guard::PermitBeforeInstance) {
            self.contents().remove_marker(start.instance, marker);
            return Err(StartError::NoLongerWanted);
        }
        self.pause(plan.halfway_ms).await;
        if plan.fault == Some(Fault::HalfDone) {
            return Err(StartError::Failed { why: "injected fault: start half done".into() });
        }
        match self.contents().with_marker(start.instance, marker) {
            Some(fake) => fake.set_alive(start.spec.limits, start.ends_at, self.now()),
            None => return Err(StartError::NoLongerWanted),
        }
        self.answer(plan, Ok(())).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let plan = self.begin(Call::Observe).await;
        if matches!(plan.fault, Some(Fault::Fails | Fault::ObserveFails | Fault::HalfDone)) {
            return Evidence::Unknown { why: "fog".into() };
        }
        let now = self.now();
        let instances: Vec<_> = {
            let contents = self.contents();
            let own = contents.instances.iter().filter(|(instance, _)| instance.sandbox == sandbox);
            own.map(|(instance, fake)| seen(*instance, fake, now)).collect()
        };
        let evidence = if instances.is_empty() {
            Evidence::Absent(nothing_left())
        } else {
            Evidence::Present(instances)
        };
        self.answer(plan, evidence).await
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        let plan = self.begin(Call::Probe).await;
        let probed = match (plan.fault, self.reachable(instance)) {
            (Some(Fault::Fails), _) => {
                ProbeResult::Failed(ProbeFailure::Files { why: "/workspace is missing".into() })
            }
            (Some(Fault::ObserveFails | Fault::HalfDone), _) => ProbeResult::Unknown { why: "fog".into() },
            (_, Err(why)) => ProbeResult::Failed(ProbeFailure::Control { why }),
            (_, Ok(())) => ProbeResult::Passed,
        };
        self.answer(plan, probed).await
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        let plan = self.begin(Call::Ping).await;
        let probed = match (plan.fault, self.reachable(instance)) {
            (Some(Fault::Fails | Fault::ObserveFails | Fault::HalfDone), _) => {
                ProbeResult::Unknown { why: "fog".into() }
            }
            (_, Err(why)) => ProbeResult::Failed(ProbeFailure::Control { why }),
            (_, Ok(())) => ProbeResult::Passed,
        };
        self.answer(plan, probed).await
    }

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
        let plan = self.begin(Call::Exec).await;
        match plan.fault {
            Some(Fault::Fails) => return Err(refused("injected fault")),
            Some(Fault::HalfDone) => {
                return Err(ExecError::Unclear { why: "injected fault: no answer".into() });
            }
            Some(Fault::AnswerLost | Fault::ObserveFails) | None => {}
        }
        let started = self.contents().exec(instance, exec, self.now());
        if plan.fault == Some(Fault::ObserveFails) {
            return Err(ExecError::Unclear { why: "injected fault: no answer".into() });
        }
        self.answer(plan, started).await
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        loop {
            let now = self.now();
            {
                let mut contents = self.contents();
                let Some(fake) = contents.alive(instance, now) else {
                    return Err(WaitError::Unreachable { why: NO_ANSWER.into() });
                };
                let process = fake.processes.get(&execution).ok_or(WaitError::NoSuchExecution)?;
                if let Some(outcome) = process.outcome() {
                    return Ok(outcome.clone());
                }
            }
            self.faults.sleep_ms(self.faults.poll_ms()).await;
        }
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        let plan = self.begin(Call::Kill).await;
        if plan.fault == Some(Fault::Fails) {
            return KillOutcome::Unknown { why: "injected fault: no answer".into() };
        }
        self.contents().kill(instance, execution, self.now());
        let killed = match plan.fault {
            Some(Fault::ObserveFails | Fault::HalfDone) => KillOutcome::Unknown { why: "fog".into() },
            Some(Fault::Fails | Fault::AnswerLost) | None => KillOutcome::Gone,
        };
        self.answer(plan, killed).await
    }

    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        let now = self.now();
        let mut contents = self.contents();
        let unreachable = || SignalError::Unreachable { why: NO_ANSWER.into() };
        let fake = contents.alive(instance, now).ok_or_else(unreachable)?;
        let process = fake.processes.get_mut(&execution).ok_or(SignalError::NoSuchExecution)?;
        process.signal(signal, now)
    }

    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        write: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        let now = self.now();
        let mut contents = self.contents();
        let unreachable = || StdinError::Unreachable { why: NO_ANSWER.into() };
        let fake = contents.alive(instance, now).ok_or_else(unreachable)?;
        let process = fake.processes.get_mut(&execution).ok_or(StdinError::NoSuchExecution)?;
        let (result, echoed) = process.write(write, now)?;
        if let Some(written) = echoed {
            contents.output.entry(instance.sandbox).or_default().append(execution, written);
        }
        Ok(result)
    }

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        let now = self.now();
        let mut contents = self.contents();
        let unreachable = || ResizeError::Unreachable { why: NO_ANSWER.into() };
        let fake = contents.alive(instance, now).ok_or_else(unreachable)?;
        let process = fake.processes.get_mut(&execution).ok_or(ResizeError::NoSuchExecution)?;
        process.resize(size)
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        let plan = self.begin(Call::Stop).await;
        if plan.fault == Some(Fault::Fails) {
            return StopOutcome::Unknown { why: "injected fault".into() };
        }
        self.pause(grace_ms.min(plan.halfway_ms)).await;
        let leave_markers = plan.fault == Some(Fault::HalfDone);
        let now = self.now();
        let ended =
            self.contents().end_instances(leave_markers, now, |found| self.is_covered(found, instance));
        self.pause(plan.halfway_ms).await;
        let left = self.contents().instances.keys().filter(|found| found.sandbox == instance.sandbox).count();
        let outcome = match (plan.fault, left) {
            (Some(Fault::ObserveFails), _) => StopOutcome::Unknown { why: "fog".into() },
            (_, 0) => StopOutcome::Gone(Box::new(receipt(instance, self.now(), ended))),
            (_, left) => StopOutcome::StillPresent { what: format!("{left} instances") },
        };
        self.answer(plan, outcome).await
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        let now = self.now();
        match self.contents().alive(instance, now) {
            Some(fake) => Ok(fake.usage(now)),
            None => Err(InstanceError::NoSuchInstance),
        }
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.world.capacity()
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        let plan = self.begin(Call::KeepAlive).await;
        let unreachable = || InstanceError::Unreachable { why: "injected fault: no answer".into() };
        if plan.fault == Some(Fault::Fails) {
            return Err(unreachable());
        }
        let kept = match self.contents().alive(instance, self.now()) {
            Some(fake) => {
                fake.ends_at = ends_at;
                Ok(())
            }
            None => Err(InstanceError::NoSuchInstance),
        };
        if matches!(plan.fault, Some(Fault::HalfDone | Fault::ObserveFails)) {
            return Err(unreachable());
        }
        self.answer(plan, kept).await
    }
}

impl Contents {
    fn exec(&mut self, instance: InstanceId, exec: ExecRequest<'_>, now: Timestamp) -> Result<(), ExecError> {
        let fake = self.alive(instance, now).ok_or_else(|| refused("no such instance"))?;
        if fake.killed.contains(&exec.execution) {
            let why = "the execution was killed or refused before".into();
            return Err(ExecError::Refused { cause: Cause::Cancelled, why });
        }
        if fake.processes.contains_key(&exec.execution) {
            return Ok(());
        }
        let directory = exec.command.workdir.as_deref().unwrap_or_default();
        let directory = absolute(WORKING_DIRECTORY, directory.as_bytes());
        if let Err(error) = fake.files.list(&directory, 0) {
            // A refused execution is never started later.
            fake.killed.insert(exec.execution);
            return Err(refused(&format!("could not enter the working directory: {error}")));
        }
        let process = if fake.allows(fake.operations + 1) {
            fake.operations += 1;
            Process::start(exec.command, directory, exec.limits, fake.limits.cpu_time_ms, now)
        } else {
            Process::not_started(exec.command, Cause::OperationLimit, now)
        };
        fake.processes.insert(exec.execution, process);
        self.output.entry(instance.sandbox).or_default().begin(exec.execution, now);
        self.advance(now);
        Ok(())
    }

    fn kill(&mut self, instance: InstanceId, execution: ExecutionId, now: Timestamp) {
        // Also before the instance is alive, so that the execution is not started then.
        if let Some(fake) = self.instances.get_mut(&instance) {
            fake.killed.insert(execution);
            if let Some(process) = fake.processes.get_mut(&execution) {
                process.kill(Cause::Cancelled, now);
            }
        }
    }
}

fn refused(why: &str) -> ExecError {
    ExecError::Refused { cause: Cause::StartFailed, why: why.to_owned() }
}

fn seen(instance: InstanceId, fake: &FakeInstance, now: Timestamp) -> InstanceObservation {
    let whole = fake.is_alive(now);
    // Processes end with their instance.
    let processes = fake.processes.iter().filter(|_| whole);
    let executions = processes.map(|(execution, process)| {
        let running = ProcessObservation::Running { last_activity_at: process.last_activity_at(now) };
        ExecutionObservation {
            execution: *execution,
            process: process.outcome().cloned().map_or(running, ProcessObservation::Ended),
        }
    });
    InstanceObservation {
        generation: instance.generation,
        whole,
        keeper_end: None,
        executions: executions.collect(),
        last_busy_at: None,
    }
}

/// The kinds of resources of a Linux instance, which the fake has too in its memory.
const KINDS: [&str; 7] =
    ["processes", "cgroups", "mounts", "devices", "namespaces", "directories", "sockets"];

fn nothing_left() -> Vec<ReceiptCheck> {
    let check = |kind: &str| ReceiptCheck {
        kind: kind.into(),
        result: Finding::Absent,
        means: "memory".into(),
        detail: None,
    };
    KINDS.into_iter().map(check).collect()
}

fn receipt(instance: InstanceId, now: Timestamp, ended: EndedInstances) -> Receipt {
    Receipt {
        generation: instance.generation,
        verified_at: now,
        checks: nothing_left(),
        freed_bytes: ended.freed_bytes,
        used: ended.used,
        attested: None,
    }
}
