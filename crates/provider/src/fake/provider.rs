//! The fake's side of the [`Provider`] contract.

use std::collections::btree_map::Entry;
use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    BodySeen, Cause, Evidence, ExecutionId, ExecutionSeen, Finding, Guard, Guards, Outcome, ProbeFailure,
    Probed, Receipt, ReceiptCheck, SandboxId, Seen, StopOutcome, Timestamp,
};

use super::process::Process;
use super::world::{Anatomy, Contents, FakeWorld};
use super::{Call, Fault, Forecast, Weather};
use crate::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, Found,
    InstanceId, Killed, Provider, ResizeError, SignalError, Start, StartError, TerminalSize, Usage,
    WaitError,
};

/// One engine's hands in the world.
pub struct FakeProvider {
    world: Arc<FakeWorld>,
    weather: Arc<dyn Weather>,
    guards: Guards,
}

const POLL_MS: u64 = 250;
const NO_ANSWER: &str = "no keeper answers";

impl FakeProvider {
    #[must_use]
    pub fn new(world: Arc<FakeWorld>, weather: Arc<dyn Weather>, guards: Guards) -> Self {
        Self { world, weather, guards }
    }

    /// Begins a call: waits as the weather says, and gives its fate.
    async fn begin(&self, call: Call) -> Forecast {
        let forecast = self.weather.forecast(call);
        self.pause(forecast.before_ms).await;
        forecast
    }

    /// Ends a call: its answer comes late, or never.
    async fn answer<T>(&self, forecast: Forecast, answer: T) -> T {
        self.pause(forecast.after_ms).await;
        if forecast.fault == Some(Fault::AnswerLost) {
            future::pending::<()>().await;
        }
        answer
    }

    async fn pause(&self, ms: u64) {
        if ms > 0 {
            self.weather.sleep_ms(ms).await;
        }
    }

    fn now(&self) -> Timestamp {
        self.weather.now()
    }

    fn reachable(&self, body: InstanceId) -> Result<(), String> {
        match self.world.lock().alive(body, self.now()) {
            Some(_) => Ok(()),
            None => Err(format!("no keeper answers for generation {}", body.generation.0)),
        }
    }

    fn is_covered(&self, found: InstanceId, stop: InstanceId) -> bool {
        let in_time =
            found.generation <= stop.generation || !self.guards.hold(Guard::StopKeepsToItsGeneration);
        found.sandbox == stop.sandbox && in_time
    }
}

#[async_trait]
impl Provider for FakeProvider {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        let forecast = self.begin(Call::Discover).await;
        if matches!(forecast.fault, Some(Fault::Fails | Fault::LookFails | Fault::HalfDone)) {
            return Err(DiscoverError::LookFailed { what: "the world".into(), why: "fog".into() });
        }
        let now = self.now();
        let found = {
            let contents = self.world.lock();
            let bodies = contents.bodies.iter();
            bodies.map(|(body, anatomy)| Found { body: *body, whole: anatomy.is_alive(now) }).collect()
        };
        self.answer(forecast, Ok(Discovered { found, unreadable: Vec::new() })).await
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        let forecast = self.begin(Call::Start).await;
        if forecast.fault == Some(Fault::Fails) {
            return Err(StartError::Failed { why: "no ground to build on".into() });
        }
        let mark = self.world.lock().mark(start.body);
        self.pause(forecast.halfway_ms).await;
        if !start.permit.still_wanted().await && self.guards.hold(Guard::PermitBeforeBody) {
            self.world.lock().unmark(start.body, mark);
            return Err(StartError::NoLongerWanted);
        }
        self.pause(forecast.halfway_ms).await;
        if forecast.fault == Some(Fault::HalfDone) {
            return Err(StartError::Failed { why: "half of the body is missing".into() });
        }
        match self.world.lock().marked(start.body, mark) {
            Some(anatomy) => anatomy.come_alive(start.ends_at, self.now()),
            None => return Err(StartError::NoLongerWanted),
        }
        self.answer(forecast, Ok(())).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let forecast = self.begin(Call::Observe).await;
        if matches!(forecast.fault, Some(Fault::Fails | Fault::LookFails | Fault::HalfDone)) {
            return Evidence::Unknown { why: "fog".into() };
        }
        let now = self.now();
        let bodies: Vec<_> = {
            let contents = self.world.lock();
            let own = contents.bodies.iter().filter(|(body, _)| body.sandbox == sandbox);
            own.map(|(body, anatomy)| seen(*body, anatomy, now)).collect()
        };
        let evidence =
            if bodies.is_empty() { Evidence::Absent(vec![nothing()]) } else { Evidence::Present(bodies) };
        self.answer(forecast, evidence).await
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        let forecast = self.begin(Call::Probe).await;
        let probed = match (forecast.fault, self.reachable(body)) {
            (Some(Fault::Fails), _) => {
                Probed::Failed(ProbeFailure::Files { why: "/workspace is missing".into() })
            }
            (Some(Fault::LookFails | Fault::HalfDone), _) => Probed::Unknown { why: "fog".into() },
            (_, Err(why)) => Probed::Failed(ProbeFailure::Control { why }),
            (_, Ok(())) => Probed::Passed,
        };
        self.answer(forecast, probed).await
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        let forecast = self.begin(Call::Ping).await;
        let probed = match (forecast.fault, self.reachable(body)) {
            (Some(Fault::Fails | Fault::LookFails | Fault::HalfDone), _) => {
                Probed::Unknown { why: "fog".into() }
            }
            (_, Err(why)) => Probed::Failed(ProbeFailure::Control { why }),
            (_, Ok(())) => Probed::Passed,
        };
        self.answer(forecast, probed).await
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        let forecast = self.begin(Call::Exec).await;
        match forecast.fault {
            Some(Fault::Fails) => return Err(refused("the keeper has no room")),
            Some(Fault::HalfDone) => {
                return Err(ExecError::Unclear { why: "the line went dead".into() });
            }
            Some(Fault::AnswerLost | Fault::LookFails) | None => {}
        }
        let started = self.world.lock().exec(body, exec, self.now());
        if forecast.fault == Some(Fault::LookFails) {
            return Err(ExecError::Unclear { why: "the line went dead".into() });
        }
        self.answer(forecast, started).await
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        loop {
            let now = self.now();
            {
                let mut contents = self.world.lock();
                let Some(anatomy) = contents.alive(body, now) else {
                    return Err(WaitError::Unreachable { why: NO_ANSWER.into() });
                };
                let process = anatomy.processes.get(&execution).ok_or(WaitError::NoSuchExecution)?;
                if let Some(outcome) = process.outcome(now) {
                    return Ok(outcome);
                }
            }
            self.weather.sleep_ms(POLL_MS).await;
        }
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        let forecast = self.begin(Call::Kill).await;
        if forecast.fault == Some(Fault::Fails) {
            return Killed::Unknown { why: "the line went dead".into() };
        }
        self.world.lock().kill(body, execution, self.now());
        let killed = match forecast.fault {
            Some(Fault::LookFails | Fault::HalfDone) => Killed::Unknown { why: "fog".into() },
            Some(Fault::Fails | Fault::AnswerLost) | None => Killed::Gone,
        };
        self.answer(forecast, killed).await
    }

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        let now = self.now();
        let mut contents = self.world.lock();
        let unreachable = || SignalError::Unreachable { why: NO_ANSWER.into() };
        let anatomy = contents.alive(body, now).ok_or_else(unreachable)?;
        let process = anatomy.processes.get_mut(&execution).ok_or(SignalError::NoSuchExecution)?;
        process.signal(signal, now)
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        let now = self.now();
        let mut contents = self.world.lock();
        let unreachable = || FeedError::Unreachable { why: NO_ANSWER.into() };
        let anatomy = contents.alive(body, now).ok_or_else(unreachable)?;
        let process = anatomy.processes.get_mut(&execution).ok_or(FeedError::NoSuchExecution)?;
        process.feed(feed, now)
    }

    /// Nothing in it looks at its size.
    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        _size: TerminalSize,
    ) -> Result<(), ResizeError> {
        let now = self.now();
        let mut contents = self.world.lock();
        let unreachable = || ResizeError::Unreachable { why: NO_ANSWER.into() };
        let anatomy = contents.alive(body, now).ok_or_else(unreachable)?;
        let process = anatomy.processes.get_mut(&execution).ok_or(ResizeError::NoSuchExecution)?;
        process.resize(now)
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        let forecast = self.begin(Call::Stop).await;
        if forecast.fault == Some(Fault::Fails) {
            return StopOutcome::Unknown { why: "the ground shakes".into() };
        }
        self.pause(grace_ms.min(forecast.halfway_ms)).await;
        let leave_marks = forecast.fault == Some(Fault::HalfDone);
        self.world.lock().end_bodies(leave_marks, |found| self.is_covered(found, body));
        self.pause(forecast.halfway_ms).await;
        let left = self.world.lock().bodies.keys().filter(|found| found.sandbox == body.sandbox).count();
        let outcome = match (forecast.fault, left) {
            (Some(Fault::LookFails), _) => StopOutcome::Unknown { why: "fog".into() },
            (_, 0) => StopOutcome::Gone(Box::new(receipt(body, self.now()))),
            (_, left) => StopOutcome::StillPresent { what: format!("{left} bodies") },
        };
        self.answer(forecast, outcome).await
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        let now = self.now();
        match self.world.lock().alive(body, now) {
            Some(anatomy) => Ok(Usage {
                processes: Some(anatomy.running(now) as u64),
                cpu_ms: Some(anatomy.processes.values().map(|process| process.cpu_ms(now)).sum()),
                runs: Some(anatomy.processes.values().any(|process| process.is_starved(now))),
                ..Usage::default()
            }),
            None => Err(AskBodyError::NoSuchBody),
        }
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.world.capacity()
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        let forecast = self.begin(Call::KeepAlive).await;
        let unreachable = || AskBodyError::Unreachable { why: "the line went dead".into() };
        if forecast.fault == Some(Fault::Fails) {
            return Err(unreachable());
        }
        let kept = match self.world.lock().alive(body, self.now()) {
            Some(anatomy) => {
                anatomy.ends_at = ends_at;
                Ok(())
            }
            None => Err(AskBodyError::NoSuchBody),
        };
        if matches!(forecast.fault, Some(Fault::HalfDone | Fault::LookFails)) {
            return Err(unreachable());
        }
        self.answer(forecast, kept).await
    }
}

impl Contents {
    fn exec(&mut self, body: InstanceId, exec: Exec<'_>, now: Timestamp) -> Result<(), ExecError> {
        let anatomy = self.alive(body, now).ok_or_else(|| refused("there is no such body"))?;
        if anatomy.killed.contains(&exec.execution) {
            let why = "it was killed or refused before".into();
            return Err(ExecError::Refused { cause: Cause::Cancelled, why });
        }
        if let Entry::Vacant(place) = anatomy.processes.entry(exec.execution) {
            let process = Process::start(exec.command, now);
            match process {
                Ok(process) => place.insert(process),
                Err((cause, why)) => {
                    // What was refused is never started later.
                    anatomy.killed.insert(exec.execution);
                    return Err(ExecError::Refused { cause, why });
                }
            };
        }
        Ok(())
    }

    fn kill(&mut self, body: InstanceId, execution: ExecutionId, now: Timestamp) {
        // Also in a body that is not alive yet: what was killed is not started when it is.
        if let Some(anatomy) = self.bodies.get_mut(&body) {
            anatomy.killed.insert(execution);
            if let Some(process) = anatomy.processes.get_mut(&execution) {
                process.killed_at.get_or_insert(now);
            }
        }
    }
}

fn refused(why: &str) -> ExecError {
    ExecError::Refused { cause: Cause::StartFailed, why: why.to_owned() }
}

fn seen(body: InstanceId, anatomy: &Anatomy, now: Timestamp) -> BodySeen {
    let whole = anatomy.is_alive(now);
    // What ran in a body has ended with it.
    let processes = anatomy.processes.iter().filter(|_| whole);
    let executions = processes.map(|(execution, process)| {
        let running = Seen::Running { last_activity_at: process.last_activity_at(now) };
        ExecutionSeen { execution: *execution, seen: process.outcome(now).map_or(running, Seen::Ended) }
    });
    BodySeen { generation: body.generation, whole, executions: executions.collect(), last_busy_at: None }
}

fn nothing() -> ReceiptCheck {
    ReceiptCheck { kind: "bodies".into(), result: Finding::Absent, means: "memory".into(), detail: None }
}

fn receipt(body: InstanceId, now: Timestamp) -> Receipt {
    Receipt {
        generation: body.generation,
        verified_at: now,
        checks: vec![nothing()],
        freed_bytes: 0,
        used: None,
        attested: None,
    }
}
