//! A provider with one defect at a time. Everything else is delegated to the fake.

use std::collections::BTreeSet;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use pinfold_lifecycle::{
    Cause, Command, Evidence, ExecutionId, ExecutionLimits, ExecutionObservation, Finding, Generation,
    InstanceObservation, Outcome, ProbeResult, ProcessObservation, Receipt, ReceiptCheck, SandboxId, Spec,
    StopOutcome, Timestamp,
};
use pinfold_provider::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, Inspect, InstanceError, InstanceId,
    KillOutcome, OutputLogs, Provider, ProviderLayer, ResizeError, SignalError, StartError, StartPermit,
    StartRequest, StdinError, StdinWrite, TerminalSize, Usage, WaitError, WriteResult,
};

use crate::broken_output::BrokenOutput;
use crate::caught::Defect;
use crate::fixture::FakeFixture;

pub(crate) struct Broken {
    pub(crate) defect: Defect,
    pub(crate) inner: Arc<dyn Provider>,
    memory: Arc<Memory>,
    /// Started through this handle only.
    own_instances: Mutex<BTreeSet<InstanceId>>,
    own_executions: Mutex<BTreeSet<ExecutionId>>,
}

/// State shared by all handles, used by the defects.
#[derive(Default)]
struct Memory {
    started: Mutex<BTreeSet<(InstanceId, ExecutionId)>>,
    killed: Mutex<BTreeSet<ExecutionId>>,
    ran_again: Mutex<BTreeSet<ExecutionId>>,
    answered: Mutex<BTreeSet<ExecutionId>>,
    shortest_life: Mutex<Option<Timestamp>>,
}

struct Always(bool);

/// The fake's fixture with a broken provider.
pub(crate) fn fixture(defect: Defect) -> FakeFixture {
    let memory = Arc::<Memory>::default();
    FakeFixture::wrapping(move |inner| {
        Arc::new(Broken {
            defect,
            inner,
            memory: memory.clone(),
            own_instances: Mutex::default(),
            own_executions: Mutex::default(),
        })
    })
}

#[async_trait]
impl StartPermit for Always {
    async fn still_wanted(&self) -> bool {
        self.0
    }
}

#[async_trait]
impl ProviderLayer for Broken {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    fn files(&self) -> &dyn Files {
        self
    }

    fn output(&self) -> Arc<dyn OutputLogs> {
        Arc::new(self.broken_output())
    }

    fn inspect(&self) -> &dyn Inspect {
        self
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let mut discovered = self.inner.discover().await?;
        match self.defect {
            Defect::DiscoversNothing => discovered.found.clear(),
            Defect::SeesNoHalves => discovered.found.retain(|found| found.whole),
            _ => {}
        }
        Ok(discovered)
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        let StartRequest { instance, permit, .. } = start;
        locked(&self.own_instances).insert(instance);
        match self.defect {
            Defect::StartsNothing => Ok(()),
            Defect::StartsAnotherBodyToo => {
                let generation = instance.generation.next();
                let instance = InstanceId { generation, ..instance };
                self.inner.start(StartRequest { instance, ..start }).await?;
                self.inner.start(start).await
            }
            Defect::StartsAnew => {
                self.inner.stop(instance, 0).await;
                self.inner.start(start).await
            }
            Defect::RefusesToStartOverRemains if !self.instances(instance.sandbox).await.is_empty() => {
                Err(StartError::Failed { why: "an instance exists".into() })
            }
            Defect::IgnoresThePermit => {
                self.inner.start(StartRequest { permit: &Always(true), ..start }).await
            }
            Defect::AsksThePermitFirst => {
                let permit = Always(permit.still_wanted().await);
                self.inner.start(StartRequest { permit: &permit, ..start }).await
            }
            Defect::StartsForEver => {
                let ends_at = Timestamp(i64::MAX);
                self.inner.start(StartRequest { ends_at, ..start }).await
            }
            Defect::Resurrects => {
                self.inner.start(start).await?;
                let started = locked(&self.memory.started).clone();
                for (_, execution) in started.iter().filter(|(known, _)| *known == instance) {
                    let _ = self.run(instance, *execution, "hang").await;
                }
                Ok(())
            }
            Defect::ForgetsEarlierOutput => {
                self.broken_output().remove(instance.sandbox);
                self.inner.start(start).await
            }
            _ => self.inner.start(start).await,
        }
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let mut instances = self.instances(sandbox).await;
        match self.defect {
            Defect::SeesNoHalves => instances.retain(|instance| instance.whole),
            Defect::SeesNoExecutions => instances.iter_mut().for_each(|instance| instance.executions.clear()),
            Defect::SeesAllExecutions => {
                let all = self.all_executions().await;
                instances.iter_mut().for_each(|instance| instance.executions.clone_from(&all));
            }
            _ => {}
        }
        if instances.is_empty() { Evidence::Absent(vec![nothing()]) } else { Evidence::Present(instances) }
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        if self.defect == Defect::ProbesByExecution {
            let _ = self.run(instance, ExecutionId(u128::MAX), "true").await;
        }
        self.passing(self.inner.probe(instance).await)
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        self.passing(self.inner.ping(instance).await)
    }

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
        let execution = exec.execution;
        let first = locked(&self.memory.started).insert((instance, execution));
        locked(&self.own_executions).insert(execution);
        match self.defect {
            Defect::TakesAnyGeneration => self.inner.exec(self.any_generation(instance).await, exec).await,
            Defect::RunsAgain if !first => {
                let execution = ExecutionId(u128::MAX - execution.0);
                self.inner.exec(instance, ExecRequest { execution, ..exec }).await
            }
            Defect::RunsTheKilledAgain if locked(&self.memory.killed).contains(&execution) => {
                locked(&self.memory.ran_again).insert(execution);
                Ok(())
            }
            Defect::NeverRefuses => {
                let _ = self.inner.exec(instance, exec).await;
                Ok(())
            }
            Defect::FindsEveryCommand if is_unknown(exec.command) => {
                self.run(instance, execution, "true").await
            }
            Defect::RunsTheRefused if is_unknown(exec.command) => {
                Err(ExecError::Refused { cause: Cause::StartFailed, why: "refused by the defect".into() })
            }
            Defect::RunsOneAtATime if self.all_executions().await.iter().any(is_running) => {
                let why = "another execution runs".into();
                Err(ExecError::Refused { cause: Cause::StartFailed, why })
            }
            _ => self.inner.exec(instance, exec).await,
        }
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let killed = locked(&self.memory.killed).contains(&execution);
        let ran_again = locked(&self.memory.ran_again).contains(&execution);
        let waited = match self.defect {
            Defect::TakesAnyGeneration => {
                self.inner.wait(self.any_generation(instance).await, execution).await
            }
            Defect::WaitsForItsOwnOnly if !locked(&self.own_executions).contains(&execution) => {
                return Err(WaitError::NoSuchExecution);
            }
            Defect::KillsTheDead if killed => return Ok(Outcome::ended_for(Cause::Cancelled)),
            Defect::RunsTheKilledAgain if ran_again => return Ok(Outcome::exited(0)),
            _ => self.inner.wait(instance, execution).await,
        };
        match (self.defect, waited) {
            (Defect::AlwaysSucceeds, Ok(_)) => Ok(Outcome::exited(0)),
            (Defect::AnswersOnce, Ok(_)) if !locked(&self.memory.answered).insert(execution) => {
                Err(WaitError::NoSuchExecution)
            }
            (Defect::WaitsForEver, Err(_)) => future::pending().await,
            (_, waited) => waited,
        }
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        locked(&self.memory.killed).insert(execution);
        let all = self.all_executions().await;
        match self.defect {
            Defect::KillsNothing => return KillOutcome::Gone,
            Defect::KillsOnlyWhatRuns if !all.iter().any(|seen| seen.execution == execution) => {
                return KillOutcome::Gone;
            }
            Defect::KillsAll => {
                for seen in all {
                    self.inner.kill(instance, seen.execution).await;
                }
            }
            _ => {}
        }
        self.inner.kill(instance, execution).await
    }

    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        match self.defect {
            Defect::SignalsNothing => Ok(()),
            Defect::SignalsTheDead => {
                let _ = self.inner.signal(instance, execution, signal).await;
                Ok(())
            }
            _ => self.inner.signal(instance, execution, signal).await,
        }
    }

    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        write: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        let write = match self.defect {
            Defect::AcceptsAgain | Defect::AcceptsBeyondGaps => {
                let nothing = StdinWrite { at: 0, bytes: b"", close: false };
                let WriteResult { accepted, .. } =
                    self.inner.write_stdin(instance, execution, nothing).await?;
                let again = self.defect == Defect::AcceptsAgain || write.at > accepted;
                StdinWrite { at: if again { accepted } else { write.at }, ..write }
            }
            Defect::NeverCloses => StdinWrite { close: false, ..write },
            _ => write,
        };
        let written = self.inner.write_stdin(instance, execution, write).await;
        if self.defect == Defect::FeedsAnything {
            return Ok(written.unwrap_or(WriteResult { accepted: write.bytes.len() as u64, closed: false }));
        }
        written
    }

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        let resized = self.inner.resize(instance, execution, size).await;
        if self.defect == Defect::ResizesAnything { Ok(()) } else { resized }
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        let before = self.instances(instance.sandbox).await;
        match self.defect {
            Defect::StopsNothing => return gone(instance, vec![nothing()]),
            Defect::StopsItsOwnOnly if !locked(&self.own_instances).contains(&instance) => {
                return gone(instance, vec![nothing()]);
            }
            Defect::FailsToStopNothing if before.is_empty() => {
                return StopOutcome::Unknown { why: "nothing to stop".into() };
            }
            Defect::StopsLaterOnes => {
                let generation = Generation(u64::MAX);
                return self.inner.stop(InstanceId { generation, ..instance }, grace_ms).await;
            }
            Defect::StopsEverybody => {
                for found in self.inner.discover().await.expect("the fake can discover").found {
                    self.inner.stop(found.instance, grace_ms).await;
                }
            }
            _ => {}
        }
        let stopped = self.inner.stop(instance, grace_ms).await;
        match self.defect {
            Defect::StopsWithoutProof => gone(instance, Vec::new()),
            Defect::DropsOutputWithTheInstance => {
                self.broken_output().remove(instance.sandbox);
                stopped
            }
            Defect::SparesEarlierOnes => {
                for seen in before.iter().filter(|seen| seen.generation < instance.generation) {
                    self.restore(InstanceId { generation: seen.generation, ..instance }).await;
                }
                stopped
            }
            _ => stopped,
        }
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        match self.defect {
            Defect::UsesNothingEverywhere => Ok(Usage::default()),
            Defect::MeasuresNothing => Err(InstanceError::Unreachable { why: "not measured".into() }),
            Defect::TakesAnyGeneration => self.inner.usage(self.any_generation(instance).await).await,
            Defect::CountsNothing => Ok(Usage { operations: 0, ..self.inner.usage(instance).await? }),
            _ => self.inner.usage(instance).await,
        }
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        if self.defect == Defect::MeasuresNoHost {
            let (what, why) = ("the host".into(), "not measured".into());
            return Err(DiscoverError::ObserveFailed { what, why });
        }
        self.inner.capacity().await
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        match self.defect {
            Defect::KeepsNothingAlive => Ok(()),
            Defect::OnlyShortensLife => {
                let shortest = {
                    let mut known = locked(&self.memory.shortest_life);
                    let shortest = known.map_or(ends_at, |known| known.min(ends_at));
                    *known.insert(shortest)
                };
                self.inner.keep_alive(instance, shortest).await
            }
            Defect::KeepsEverythingAlive => {
                let _ = self.inner.keep_alive(instance, ends_at).await;
                Ok(())
            }
            _ => self.inner.keep_alive(instance, ends_at).await,
        }
    }
}

impl Broken {
    fn broken_output(&self) -> BrokenOutput {
        BrokenOutput { defect: self.defect, inner: self.inner.output() }
    }

    async fn instances(&self, sandbox: SandboxId) -> Vec<InstanceObservation> {
        match self.inner.observe(sandbox).await {
            Evidence::Present(instances) => instances,
            Evidence::Absent(_) | Evidence::Unknown { .. } => Vec::new(),
        }
    }

    /// The executions of every sandbox.
    async fn all_executions(&self) -> Vec<ExecutionObservation> {
        let mut all = Vec::new();
        for found in self.inner.discover().await.expect("the fake can discover").found {
            let instances = self.instances(found.instance.sandbox).await;
            all.extend(instances.into_iter().flat_map(|instance| instance.executions));
        }
        all
    }

    /// Any instance of the sandbox.
    async fn any_generation(&self, instance: InstanceId) -> InstanceId {
        let instances = self.instances(instance.sandbox).await;
        let generation = instances.first().map_or(instance.generation, |seen| seen.generation);
        InstanceId { generation, ..instance }
    }

    fn passing(&self, probed: ProbeResult) -> ProbeResult {
        match self.defect {
            Defect::NeverPasses => ProbeResult::Unknown { why: "not probed".into() },
            Defect::AlwaysPasses => ProbeResult::Passed,
            _ => probed,
        }
    }

    async fn run(&self, instance: InstanceId, execution: ExecutionId, word: &str) -> Result<(), ExecError> {
        let argv = vec![word.to_owned()];
        let command = Command { argv, ..Command::default() };
        let (command, limits) = (&command, ExecutionLimits::default());
        self.inner.exec(instance, ExecRequest { execution, command, limits }).await
    }

    async fn restore(&self, instance: InstanceId) {
        let (spec, ends_at) = (&Spec::default(), Timestamp(i64::MAX));
        let start = StartRequest { instance, spec, ends_at, ends_with_caller: false, permit: &Always(true) };
        self.inner.start(start).await.expect("the fake can start");
    }
}

fn locked<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().expect("not poisoned")
}

/// Whether the fake does not know this command.
fn is_unknown(command: &Command) -> bool {
    command.argv == ["no-such-command"]
}

fn is_running(seen: &ExecutionObservation) -> bool {
    matches!(seen.process, ProcessObservation::Running { .. })
}

fn nothing() -> ReceiptCheck {
    ReceiptCheck { kind: "instances".into(), result: Finding::Absent, means: "hearsay".into(), detail: None }
}

fn gone(instance: InstanceId, checks: Vec<ReceiptCheck>) -> StopOutcome {
    StopOutcome::Gone(Box::new(Receipt {
        generation: instance.generation,
        verified_at: Timestamp(0),
        checks,
        freed_bytes: 0,
        used: None,
        attested: None,
    }))
}
