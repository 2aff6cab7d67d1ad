//! A provider that breaks one promise at a time. What it does not break it leaves to the fake.

use std::collections::BTreeSet;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use pinfold_lifecycle::{
    BodySeen, Cause, Command, Evidence, ExecutionId, ExecutionLimits, ExecutionSeen, Finding, Generation,
    Outcome, Probed, Receipt, ReceiptCheck, SandboxId, Seen, Spec, StopOutcome, Timestamp,
};
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, InstanceId,
    Killed, Provider, ResizeError, SignalError, Start, StartError, StartPermit, TerminalSize, Usage,
    WaitError,
};

use crate::caught::How;
use crate::ground::FakeGround;

struct Broken {
    how: How,
    inner: Arc<dyn Provider>,
    memory: Arc<Memory>,
    /// What this handle has started, and no other.
    own_bodies: Mutex<BTreeSet<InstanceId>>,
    own_executions: Mutex<BTreeSet<ExecutionId>>,
}

/// What all handles on one ground remember, where a promise is broken by it.
#[derive(Default)]
struct Memory {
    started: Mutex<BTreeSet<(InstanceId, ExecutionId)>>,
    killed: Mutex<BTreeSet<ExecutionId>>,
    ran_again: Mutex<BTreeSet<ExecutionId>>,
    answered: Mutex<BTreeSet<ExecutionId>>,
    shortest_life: Mutex<Option<Timestamp>>,
}

struct Always(bool);

/// The fake's ground with a broken provider on it.
pub(crate) fn ground(how: How) -> FakeGround {
    let memory = Arc::<Memory>::default();
    FakeGround::behind(move |inner| {
        Arc::new(Broken {
            how,
            inner,
            memory: memory.clone(),
            own_bodies: Mutex::default(),
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
impl Provider for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let mut discovered = self.inner.discover().await?;
        match self.how {
            How::DiscoversNothing => discovered.found.clear(),
            How::SeesNoHalves => discovered.found.retain(|found| found.whole),
            _ => {}
        }
        Ok(discovered)
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        let Start { body, permit, .. } = start;
        locked(&self.own_bodies).insert(body);
        match self.how {
            How::StartsNothing => Ok(()),
            How::StartsAnotherBodyToo => {
                let generation = body.generation.next();
                let body = InstanceId { generation, ..body };
                self.inner.start(Start { body, ..start }).await?;
                self.inner.start(start).await
            }
            How::StartsAnew => {
                self.inner.stop(body, 0).await;
                self.inner.start(start).await
            }
            How::RefusesToStartOverRemains if !self.bodies(body.sandbox).await.is_empty() => {
                Err(StartError::Failed { why: "something is in the way".into() })
            }
            How::IgnoresThePermit => self.inner.start(Start { permit: &Always(true), ..start }).await,
            How::AsksThePermitFirst => {
                let permit = Always(permit.still_wanted().await);
                self.inner.start(Start { permit: &permit, ..start }).await
            }
            How::StartsForEver => {
                let ends_at = Timestamp(i64::MAX);
                self.inner.start(Start { ends_at, ..start }).await
            }
            How::Resurrects => {
                self.inner.start(start).await?;
                let started = locked(&self.memory.started).clone();
                for (_, execution) in started.iter().filter(|(known, _)| *known == body) {
                    let _ = self.run(body, *execution, "hang").await;
                }
                Ok(())
            }
            _ => self.inner.start(start).await,
        }
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let mut bodies = self.bodies(sandbox).await;
        match self.how {
            How::SeesNoHalves => bodies.retain(|body| body.whole),
            How::SeesNoExecutions => bodies.iter_mut().for_each(|body| body.executions.clear()),
            How::SeesAllExecutions => {
                let all = self.all_executions().await;
                bodies.iter_mut().for_each(|body| body.executions.clone_from(&all));
            }
            _ => {}
        }
        if bodies.is_empty() { Evidence::Absent(vec![nothing()]) } else { Evidence::Present(bodies) }
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        if self.how == How::ProbesByExecution {
            let _ = self.run(body, ExecutionId(u128::MAX), "true").await;
        }
        self.passing(self.inner.probe(body).await)
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        self.passing(self.inner.ping(body).await)
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        let execution = exec.execution;
        let first = locked(&self.memory.started).insert((body, execution));
        locked(&self.own_executions).insert(execution);
        match self.how {
            How::TakesAnyGeneration => self.inner.exec(self.any_generation(body).await, exec).await,
            How::RunsAgain if !first => {
                let execution = ExecutionId(u128::MAX - execution.0);
                self.inner.exec(body, Exec { execution, ..exec }).await
            }
            How::RunsTheKilledAgain if locked(&self.memory.killed).contains(&execution) => {
                locked(&self.memory.ran_again).insert(execution);
                Ok(())
            }
            How::NeverRefuses => {
                let _ = self.inner.exec(body, exec).await;
                Ok(())
            }
            How::FindsEveryCommand if is_unknown(exec.command) => self.run(body, execution, "true").await,
            How::RunsTheRefused if is_unknown(exec.command) => {
                Err(ExecError::Refused { cause: Cause::StartFailed, why: "not today".into() })
            }
            How::RunsOneAtATime if self.all_executions().await.iter().any(is_running) => {
                let why = "one after the other".into();
                Err(ExecError::Refused { cause: Cause::StartFailed, why })
            }
            _ => self.inner.exec(body, exec).await,
        }
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let killed = locked(&self.memory.killed).contains(&execution);
        let ran_again = locked(&self.memory.ran_again).contains(&execution);
        let waited = match self.how {
            How::TakesAnyGeneration => self.inner.wait(self.any_generation(body).await, execution).await,
            How::WaitsForItsOwnOnly if !locked(&self.own_executions).contains(&execution) => {
                return Err(WaitError::NoSuchExecution);
            }
            How::KillsTheDead if killed => return Ok(Outcome::ended_for(Cause::Cancelled)),
            How::RunsTheKilledAgain if ran_again => return Ok(Outcome::exited(0)),
            _ => self.inner.wait(body, execution).await,
        };
        match (self.how, waited) {
            (How::AlwaysSucceeds, Ok(_)) => Ok(Outcome::exited(0)),
            (How::AnswersOnce, Ok(_)) if !locked(&self.memory.answered).insert(execution) => {
                Err(WaitError::NoSuchExecution)
            }
            (How::WaitsForEver, Err(_)) => future::pending().await,
            (_, waited) => waited,
        }
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        locked(&self.memory.killed).insert(execution);
        let all = self.all_executions().await;
        match self.how {
            How::KillsNothing => return Killed::Gone,
            How::KillsOnlyWhatRuns if !all.iter().any(|seen| seen.execution == execution) => {
                return Killed::Gone;
            }
            How::KillsAll => {
                for seen in all {
                    self.inner.kill(body, seen.execution).await;
                }
            }
            _ => {}
        }
        self.inner.kill(body, execution).await
    }

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        match self.how {
            How::SignalsNothing => Ok(()),
            How::SignalsTheDead => {
                let _ = self.inner.signal(body, execution, signal).await;
                Ok(())
            }
            _ => self.inner.signal(body, execution, signal).await,
        }
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        let feed = match self.how {
            How::AcceptsAgain | How::AcceptsBeyondGaps => {
                let nothing = Feed { at: 0, bytes: b"", close: false };
                let Fed { accepted, .. } = self.inner.feed(body, execution, nothing).await?;
                let again = self.how == How::AcceptsAgain || feed.at > accepted;
                Feed { at: if again { accepted } else { feed.at }, ..feed }
            }
            How::NeverCloses => Feed { close: false, ..feed },
            _ => feed,
        };
        let fed = self.inner.feed(body, execution, feed).await;
        if self.how == How::FeedsAnything {
            return Ok(fed.unwrap_or(Fed { accepted: feed.bytes.len() as u64, closed: false }));
        }
        fed
    }

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        let resized = self.inner.resize(body, execution, size).await;
        if self.how == How::ResizesAnything { Ok(()) } else { resized }
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        let before = self.bodies(body.sandbox).await;
        match self.how {
            How::StopsNothing => return gone(body, vec![nothing()]),
            How::StopsItsOwnOnly if !locked(&self.own_bodies).contains(&body) => {
                return gone(body, vec![nothing()]);
            }
            How::FailsToStopNothing if before.is_empty() => {
                return StopOutcome::Unknown { why: "there is nothing to stop".into() };
            }
            How::StopsLaterOnes => {
                let generation = Generation(u64::MAX);
                return self.inner.stop(InstanceId { generation, ..body }, grace_ms).await;
            }
            How::StopsEverybody => {
                for found in self.inner.discover().await.expect("the fake can look").found {
                    self.inner.stop(found.body, grace_ms).await;
                }
            }
            _ => {}
        }
        let stopped = self.inner.stop(body, grace_ms).await;
        match self.how {
            How::StopsWithoutProof => gone(body, Vec::new()),
            How::SparesEarlierOnes => {
                for seen in before.iter().filter(|seen| seen.generation < body.generation) {
                    self.restore(InstanceId { generation: seen.generation, ..body }).await;
                }
                stopped
            }
            _ => stopped,
        }
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        match self.how {
            How::UsesNothingEverywhere => Ok(Usage::default()),
            How::MeasuresNothing => Err(AskBodyError::Unreachable { why: "no scales".into() }),
            How::TakesAnyGeneration => self.inner.usage(self.any_generation(body).await).await,
            _ => self.inner.usage(body).await,
        }
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        if self.how == How::MeasuresNoHost {
            let (what, why) = ("the host".into(), "no scales".into());
            return Err(DiscoverError::LookFailed { what, why });
        }
        self.inner.capacity().await
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        match self.how {
            How::KeepsNothingAlive => Ok(()),
            How::OnlyShortensLife => {
                let shortest = {
                    let mut known = locked(&self.memory.shortest_life);
                    let shortest = known.map_or(ends_at, |known| known.min(ends_at));
                    *known.insert(shortest)
                };
                self.inner.keep_alive(body, shortest).await
            }
            How::KeepsEverythingAlive => {
                let _ = self.inner.keep_alive(body, ends_at).await;
                Ok(())
            }
            _ => self.inner.keep_alive(body, ends_at).await,
        }
    }
}

impl Broken {
    async fn bodies(&self, sandbox: SandboxId) -> Vec<BodySeen> {
        match self.inner.observe(sandbox).await {
            Evidence::Present(bodies) => bodies,
            Evidence::Absent(_) | Evidence::Unknown { .. } => Vec::new(),
        }
    }

    /// Those of every sandbox.
    async fn all_executions(&self) -> Vec<ExecutionSeen> {
        let mut all = Vec::new();
        for found in self.inner.discover().await.expect("the fake can look").found {
            let bodies = self.bodies(found.body.sandbox).await;
            all.extend(bodies.into_iter().flat_map(|body| body.executions));
        }
        all
    }

    /// Whatever body the sandbox has.
    async fn any_generation(&self, body: InstanceId) -> InstanceId {
        let bodies = self.bodies(body.sandbox).await;
        let generation = bodies.first().map_or(body.generation, |seen| seen.generation);
        InstanceId { generation, ..body }
    }

    fn passing(&self, probed: Probed) -> Probed {
        match self.how {
            How::NeverPasses => Probed::Unknown { why: "nobody tried".into() },
            How::AlwaysPasses => Probed::Passed,
            _ => probed,
        }
    }

    async fn run(&self, body: InstanceId, execution: ExecutionId, word: &str) -> Result<(), ExecError> {
        let argv = vec![word.to_owned()];
        let command = Command { argv, ..Command::default() };
        let (command, limits) = (&command, ExecutionLimits::default());
        self.inner.exec(body, Exec { execution, command, limits }).await
    }

    async fn restore(&self, body: InstanceId) {
        let (spec, ends_at) = (&Spec::default(), Timestamp(i64::MAX));
        let start = Start { body, spec, ends_at, ends_with_caller: false, permit: &Always(true) };
        self.inner.start(start).await.expect("the fake can start");
    }
}

fn locked<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().expect("nobody panics while it is locked")
}

/// To the fake.
fn is_unknown(command: &Command) -> bool {
    command.argv == ["no-such-command"]
}

fn is_running(seen: &ExecutionSeen) -> bool {
    matches!(seen.seen, Seen::Running { .. })
}

fn nothing() -> ReceiptCheck {
    ReceiptCheck { kind: "bodies".into(), result: Finding::Absent, means: "hearsay".into(), detail: None }
}

fn gone(body: InstanceId, checks: Vec<ReceiptCheck>) -> StopOutcome {
    StopOutcome::Gone(Box::new(Receipt {
        generation: body.generation,
        verified_at: Timestamp(0),
        checks,
        freed_bytes: 0,
        used: None,
        attested: None,
    }))
}
