//! Real transitions: sandboxes that start, run commands one after another, are checked and kept alive.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use pinfold_bench_report::now;
use pinfold_lifecycle::{
    AdmissionLimits, Command, Context, Event, ExecutionId, ExecutionKind, ExecutionLimits, FileTransfers,
    Lease, Limits, NodeId, Outcome, Policy, ProbeResult, Request, Sandbox, SandboxId, Spec, Timestamp,
    Transition, create, request, step,
};
use pinfold_store::{AdmissionTerms, Change, Created, NewExecution, NewSandbox, Store, Version};

pub(crate) struct Worker {
    store: Arc<dyn Store>,
    number: u128,
    sandboxes: Vec<(Sandbox, Version, NextStep)>,
    next: usize,
    executions: u128,
    now: Timestamp,
    policy: Arc<Policy>,
    wanted: usize,
}

/// The next step of a sandbox, in rotation.
#[derive(Clone, Copy)]
enum NextStep {
    Execute,
    Started,
    Ended,
    KeepAlive,
    Check,
    Checked,
}

impl Worker {
    pub(crate) fn new(store: Arc<dyn Store>, number: usize, sandboxes: usize) -> Self {
        Self {
            store,
            number: number as u128,
            sandboxes: Vec::new(),
            next: 0,
            executions: 0,
            now: Timestamp(1_800_000_000_000),
            policy: Arc::new(Policy::default()),
            wanted: sandboxes,
        }
    }

    /// Creates its sandboxes and makes them ready.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        for place in 0..self.wanted {
            let id = SandboxId((self.number << 64) | place as u128);
            let transition = create(id, self.context());
            let new = NewSandbox {
                transition: transition.clone(),
                spec: Arc::new(spec(self.number, place)),
                policy: self.policy.clone(),
                key: None,
                commands: Vec::new(),
                admission: AdmissionTerms::default(),
            };
            let Created::New(version) = self.store.create(new, AdmissionLimits::default()).await? else {
                anyhow::bail!("{id} was there before");
            };
            self.sandboxes.push((transition.sandbox, version, NextStep::Execute));
            let launched = |sandbox: &Sandbox| Event::Launched { fence: sandbox.last_fence };
            let probed =
                |sandbox: &Sandbox| Event::Probed { fence: sandbox.last_fence, result: ProbeResult::Passed };
            for event in [launched, probed as fn(&Sandbox) -> Event] {
                let sandbox = &self.sandboxes[place].0;
                let transition = step(sandbox, event(sandbox), self.context());
                self.commit(place, transition, vec![]).await?;
            }
        }
        Ok(())
    }

    /// Returns the number of committed transitions, and the time.
    pub(crate) async fn work_for(&mut self, during: Duration) -> Result<(u64, Duration)> {
        let begun = now();
        let mut done = 0;
        while begun.elapsed() < during {
            self.take_turn().await?;
            done += 1;
        }
        Ok((done, begun.elapsed()))
    }

    async fn take_turn(&mut self) -> Result<()> {
        let place = self.next;
        self.next = (self.next + 1) % self.sandboxes.len();
        self.now = self.now.after_ms(1);
        let (sandbox, _, turn) = &self.sandboxes[place];
        let ticket = sandbox.last_fence;
        let execution = sandbox.executions.first().map(|execution| execution.id);
        let mut commands = Vec::new();
        let (transition, next) = match turn {
            NextStep::Execute => {
                self.executions += 1;
                let id = ExecutionId((self.number << 64) | self.executions);
                commands.push(NewExecution { id, command: Arc::new(command()) });
                let wish = Request::Execute {
                    id,
                    kind: ExecutionKind::Run,
                    limits: ExecutionLimits::default(),
                    transfers: FileTransfers::default(),
                    may_queue: true,
                };
                (request(sandbox, wish, self.context())?, NextStep::Started)
            }
            NextStep::Started => {
                let execution = execution.context("nothing was started")?;
                let event = Event::ExecutionStarted { fence: ticket, execution };
                (step(sandbox, event, self.context()), NextStep::Ended)
            }
            NextStep::Ended => {
                let (execution, outcome) = (execution.context("nothing runs")?, Outcome::exited(0));
                let event = Event::ExecutionEnded { fence: ticket, execution, outcome };
                (step(sandbox, event, self.context()), NextStep::KeepAlive)
            }
            NextStep::KeepAlive => (request(sandbox, Request::KeepAlive, self.context())?, NextStep::Check),
            NextStep::Check => {
                let at = next_check(sandbox).context("it is not live")?;
                self.now = self.now.max(at);
                (step(sandbox, Event::TimePassed, self.context()), NextStep::Checked)
            }
            NextStep::Checked => {
                let probed = ProbeResult::Passed;
                (
                    step(sandbox, Event::Probed { fence: ticket, result: probed }, self.context()),
                    NextStep::Execute,
                )
            }
        };
        self.sandboxes[place].2 = next;
        self.commit(place, transition, commands).await
    }

    async fn commit(
        &mut self,
        place: usize,
        transition: Transition,
        commands: Vec<NewExecution>,
    ) -> Result<()> {
        let (sandbox, version, _) = &mut self.sandboxes[place];
        *sandbox = transition.sandbox.clone();
        let change = Change { transition, version: *version, commands };
        *version = self.store.commit(change).await?;
        Ok(())
    }

    fn context(&self) -> Context<'_> {
        Context { now: self.now, node: NodeId(self.number + 1), policy: &self.policy }
    }
}

fn next_check(sandbox: &Sandbox) -> Option<Timestamp> {
    match &sandbox.lease {
        Lease::Live(live) => Some(live.health.next_check),
        Lease::Free { .. }
        | Lease::LaunchWaiting { .. }
        | Lease::Starting { .. }
        | Lease::Stopping { .. }
        | Lease::StopWaiting { .. }
        | Lease::Quarantined { .. } => None,
    }
}

fn spec(worker: u128, place: usize) -> Spec {
    Spec {
        name: Some(format!("agent {worker} {place}")),
        agent_type: Some("coder".into()),
        limits: Limits {
            memory_mb: Some(512),
            disk_mb: Some(1_024),
            processes: Some(64),
            ..Limits::default()
        },
        ..Spec::default()
    }
}

fn command() -> Command {
    Command { argv: vec!["sh".into(), "-c".into(), "make test".into()], ..Command::default() }
}
