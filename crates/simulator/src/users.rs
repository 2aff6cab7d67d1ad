//! Simulated users: each creates sandboxes, runs executions, stops, repeats requests and gives up waiting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinfold_engine::{
    AdmitError, ApplyError, Clock, CreateRequest, Engine, QueueRequest, RunRequest, StopProgress,
};
use pinfold_lifecycle::{
    Cause, Command, ExecutionFiles, ExecutionId, ExecutionKind, ExecutionLimits, FileContent, Guards,
    InputFile, Lease, Limits, Policy, QueueId, Recovery, SandboxId, Spec,
};
use pinfold_store::{CreateError, IdempotencyKey};

use crate::nodes::{NodeSlot, Shared};

/// Results that were acknowledged to users. All of them are checked at the end of the run.
#[derive(Default)]
pub(crate) struct Acknowledged {
    ids: Mutex<AcknowledgedIds>,
}

#[derive(Default)]
pub(crate) struct AcknowledgedIds {
    pub(crate) sandboxes: Vec<SandboxId>,
    pub(crate) forgotten: Vec<SandboxId>,
    pub(crate) executions: Vec<(SandboxId, ExecutionId)>,
}

impl Acknowledged {
    pub(crate) fn with<T>(&self, check_instances: impl FnOnce(&mut AcknowledgedIds) -> T) -> T {
        check_instances(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct User {
    pub(crate) shared: Arc<Shared>,
    pub(crate) slots: Arc<Vec<NodeSlot>>,
    pub(crate) acknowledged: Arc<Acknowledged>,
    pub(crate) name: u64,
}

impl User {
    /// Sends this many requests, at random times, to any running node.
    pub(crate) async fn live(self, requests: u64, up_to_ms: u64) {
        for number in 0..requests {
            tokio::time::sleep(Duration::from_millis(self.shared.random.below(up_to_ms))).await;
            let own = self.acknowledged.with(|ids| ids.sandboxes.clone());
            match (self.shared.random.below(12), self.shared.random.one_of(&own)) {
                (0..=3, _) | (_, None) => self.create(number).await,
                (4..=6, Some(id)) => self.execute(id).await,
                (7, Some(id)) => self.stop(id).await,
                (8, Some(id)) => self.cancel(id).await,
                (9, Some(id)) => self.restart_or_forget(id).await,
                (10, Some(id)) => self.attest_absent(id).await,
                (_, Some(id)) => {
                    self.call(async |engine| engine.keep_alive(id).await).await;
                }
            }
        }
    }

    /// Calls a random node. `None`: no node is running, or it crashed before it answered.
    async fn call<T>(&self, ask: impl AsyncFnOnce(&Engine) -> T) -> Option<T> {
        let running: Vec<_> = self.slots.iter().filter_map(NodeSlot::running).collect();
        let node = self.shared.random.one_of(&running)?;
        tokio::select! {
            biased;
            () = node.gate.wait_for_crash() => None,
            answer = ask(&node.engine) => Some(answer),
            // A user gives up on a node that hangs, and drops the call half-way.
            () = tokio::time::sleep(Duration::from_secs(40)) => None,
        }
    }

    async fn create(&self, number: u64) {
        let ask = CreateRequest {
            spec: self.spec().into(),
            policy: self.policy().into(),
            key: self.key(number),
            queue: self.queue(),
            first: None,
        };
        let Some(id) = self.request_sandbox(ask.clone()).await else { return };
        self.shared.checker.trace(|| format!("user {} got {id}", self.name));
        let rows = self.acknowledged.with(|ids| {
            ids.sandboxes.push(id);
            ids.sandboxes.iter().filter(|other| **other == id).count() > 1
        });
        if rows {
            self.shared.checker.violate(format!("{id} was given to two users"));
        }
        if ask.key.is_some()
            && let Some(repeated) = self.call(async |engine| engine.create(ask).await).await
        {
            match repeated {
                Ok(same) if same == id => {}
                Err(AdmitError::Create(CreateError::Store(_))) => {}
                other => self
                    .shared
                    .checker
                    .violate(format!("the same idempotency key returned {id} and then {other:?}")),
            }
        }
        // Some users do not wait until the sandbox is ready.
        if self.shared.random.happens(300) {
            self.execute(id).await;
        }
        if self.shared.random.happens(500) {
            let until = self.shared.clock.now().after_ms(20_000);
            self.call(async |engine| engine.wait_ready(id, until).await).await;
        }
    }

    /// Some users queue instead of being refused.
    fn queue(&self) -> Option<QueueRequest> {
        let random = &self.shared.random;
        let (id, for_ms) = (random.below(u64::MAX), random.between(500, 30_000));
        let queue = QueueRequest::new(QueueId(u128::from(id)), self.shared.clock.now(), for_ms);
        random.happens(400).then_some(queue)
    }

    /// Requests a sandbox, with or without a first execution.
    async fn request_sandbox(&self, ask: CreateRequest) -> Option<SandboxId> {
        if !self.shared.random.happens(300) {
            return self.call(async |engine| engine.create(ask).await).await?.ok();
        }
        let run = RunRequest {
            command: self.command(),
            kind: ExecutionKind::Run,
            limits: ExecutionLimits::default(),
        };
        let asked = self.call(async |engine| engine.create_and_execute(ask, run).await).await;
        let (id, execution) = asked?.ok()?;
        self.shared.checker.trace(|| format!("user {} got {execution} with it", self.name));
        self.acknowledged.with(|ids| ids.executions.push((id, execution)));
        Some(id)
    }

    async fn execute(&self, id: SandboxId) {
        let random = &self.shared.random;
        let kind = if random.happens(800) { ExecutionKind::Run } else { ExecutionKind::Job };
        let may_queue = random.happens(700);
        let limits = ExecutionLimits {
            timeout_ms: random.happens(500).then(|| random.between(500, 20_000)),
            inactivity_ms: random.happens(500).then(|| random.between(500, 10_000)),
        };
        let command = self.command();
        let asked =
            self.call(async |engine| engine.execute(id, command, kind, limits, may_queue).await).await;
        let Some(Ok(execution)) = asked else { return };
        self.shared.checker.trace(|| format!("user {} got {execution}", self.name));
        self.acknowledged.with(|ids| ids.executions.push((id, execution)));
        if random.happens(300) {
            let until = self.shared.clock.now().after_ms(15_000);
            self.call(async |engine| engine.wait_execution(id, execution, until).await).await;
        }
    }

    async fn stop(&self, id: SandboxId) {
        let grace_ms = self.shared.random.happens(300).then_some(0);
        let wait_ms = self.shared.random.below(30_000);
        let stop =
            self.call(async |engine| engine.stop(id, Cause::StoppedByUser, grace_ms, wait_ms).await).await;
        if let Some(Ok(StopProgress::Gone { .. })) = stop {
            self.shared.checker.stop_acknowledged(id);
        }
    }

    async fn cancel(&self, id: SandboxId) {
        let own: Vec<_> = self
            .acknowledged
            .with(|ids| ids.executions.iter().filter(|(of, _)| *of == id).copied().collect());
        if let Some((_, execution)) = self.shared.random.one_of(&own) {
            self.call(async |engine| engine.cancel(id, execution).await).await;
        }
    }

    async fn restart_or_forget(&self, id: SandboxId) {
        if self.shared.random.happens(700) {
            self.call(async |engine| engine.restart(id, Cause::Cancelled).await).await;
            return;
        }
        // The row may be deleted even if the answer is lost.
        self.acknowledged.with(|ids| ids.forgotten.push(id));
        self.call(async |engine| engine.forget(id).await).await;
    }

    /// An operator attests only what is really absent.
    async fn attest_absent(&self, id: SandboxId) {
        let there = self.shared.world.instances(self.shared.clock.now());
        let quarantined = self
            .shared
            .checker
            .unsettled()
            .iter()
            .any(|sandbox| sandbox.id == id && matches!(sandbox.lease, Lease::Quarantined { .. }));
        if quarantined && !there.iter().any(|physical| physical.instance.sandbox == id) {
            let reason = "the host was taken apart".to_owned();
            let attested = self.call(async |engine| engine.attest(id, "operator".into(), reason).await).await;
            if let Some(Err(ApplyError::Refused(refusal))) = attested {
                self.shared.checker.trace(|| format!("attesting {id} was refused: {refusal}"));
            }
        }
    }

    fn spec(&self) -> Spec {
        let name = Some(format!("user {}", self.name));
        match self.shared.pool() {
            Some(plan) if self.shared.random.happens(600) => Spec { name, ..plan.shape.spec() },
            Some(_) | None => {
                let memory_mb = Some(self.shared.random.between(1, 100));
                Spec { name, limits: Limits { memory_mb, ..Limits::default() }, ..Spec::default() }
            }
        }
    }

    fn key(&self, number: u64) -> Option<IdempotencyKey> {
        self.shared.random.happens(300).then(|| IdempotencyKey {
            key: format!("user {} request {number}", self.name),
            request: "create".into(),
            expires_at: self.shared.clock.now().after_ms(3_600_000),
        })
    }

    fn policy(&self) -> Policy {
        let random = &self.shared.random;
        Policy {
            accept_ms: random.happens(200).then_some(8_000),
            unhealthy_age_ms: random.one_of(&[5_000, 60_000]).unwrap_or(5_000),
            idle_ms: random.happens(700).then_some(30_000),
            one_shot: random.happens(200),
            recovery: random.happens(400).then(|| Recovery {
                attempts: u32::try_from(random.between(1, 4)).unwrap_or(1),
                backoff_ms: random.below(4_000),
            }),
            ..short_times(self.shared.guards)
        }
    }

    fn command(&self) -> Command {
        let random = &self.shared.random;
        let words = match random.below(6) {
            0 => vec!["true".to_owned()],
            1 => vec!["exit".into(), "3".into()],
            2 => vec!["sleep".into(), random.between(1, 10).to_string()],
            3 => vec!["work".into(), random.between(1, 20_000).to_string(), "0".into()],
            4 => vec!["hang".into()],
            _ => vec!["no-such-program".into()],
        };
        Command { argv: words, execution_files: self.execution_files(), ..Command::default() }
    }

    /// Some executions bring a file, and some have it or another one as artifact.
    fn execution_files(&self) -> ExecutionFiles {
        let random = &self.shared.random;
        let name = format!("user-{}-{}.txt", self.name, random.below(u64::MAX));
        let content = FileContent::Text(name.clone());
        let files = random.happens(250).then(|| (name.clone(), InputFile { content, executable: false }));
        let artifacts = random.happens(250).then(|| vec![name, "missing.txt".to_owned()]);
        ExecutionFiles { files: files.into_iter().collect(), artifacts: artifacts.unwrap_or_default() }
    }
}

/// Short deadlines, so that much happens within a few minutes of virtual time.
pub(crate) fn short_times(guards: Guards) -> Policy {
    Policy {
        start_ms: 20_000,
        probe_ms: 3_000,
        probe_every_ms: 10_000,
        evidence_ms: 20_000,
        doubt_ms: 20_000,
        grace_ms: 1_000,
        stop_attempt_ms: 10_000,
        stop_attempts: 3,
        stop_backoff_ms: vec![1_000, 2_000],
        quarantine_observe_ms: 20_000,
        queued_ms: 10_000,
        kill_ms: 4_000,
        collect_ms: 8_000,
        collect_after_kill_ms: 2_000,
        max_life_ms: 240_000,
        max_concurrent: 2,
        queue_length: 2,
        jobs: 1,
        guards,
        ..Policy::default()
    }
}
