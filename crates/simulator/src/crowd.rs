//! Users: each creates sandboxes, runs things in them, stops them, repeats itself and loses patience.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinfold_engine::{AdmitError, ApplyError, Clock, CreateAsk, Engine, QueueAsk, RunAsk, Stop};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Guards, Lease, Limits, PlaceId, Policy,
    Recovery, SandboxId, Spec,
};
use pinfold_store::{CreateError, IdempotencyKey};

use crate::nodes::{Common, Slot};

/// What users were promised. At the end of the run all of it must have been kept.
#[derive(Default)]
pub(crate) struct Promises {
    made: Mutex<Made>,
}

#[derive(Default)]
pub(crate) struct Made {
    pub(crate) sandboxes: Vec<SandboxId>,
    pub(crate) forgotten: Vec<SandboxId>,
    pub(crate) executions: Vec<(SandboxId, ExecutionId)>,
}

impl Promises {
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Made) -> T) -> T {
        look(&mut self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct User {
    pub(crate) common: Arc<Common>,
    pub(crate) slots: Arc<Vec<Slot>>,
    pub(crate) promises: Arc<Promises>,
    pub(crate) name: u64,
}

impl User {
    /// So many wishes, at random moments, to whichever node answers.
    pub(crate) async fn live(self, wishes: u64, up_to_ms: u64) {
        for wish in 0..wishes {
            tokio::time::sleep(Duration::from_millis(self.common.chance.below(up_to_ms))).await;
            let own = self.promises.with(|made| made.sandboxes.clone());
            match (self.common.chance.below(12), self.common.chance.one_of(&own)) {
                (0..=3, _) | (_, None) => self.create(wish).await,
                (4..=6, Some(id)) => self.execute(id).await,
                (7, Some(id)) => self.stop(id).await,
                (8, Some(id)) => self.cancel(id).await,
                (9, Some(id)) => self.restart_or_forget(id).await,
                (10, Some(id)) => self.attest_what_is_really_gone(id).await,
                (_, Some(id)) => {
                    self.call(async |engine| engine.keep_alive(id).await).await;
                }
            }
        }
    }

    /// Asks some node. None: there is none, or it crashed before it answered.
    async fn call<T>(&self, ask: impl AsyncFnOnce(&Engine) -> T) -> Option<T> {
        let running: Vec<_> = self.slots.iter().filter_map(Slot::running).collect();
        let node = self.common.chance.one_of(&running)?;
        tokio::select! {
            biased;
            () = node.gate.fallen() => None,
            answer = ask(&node.engine) => Some(answer),
            // Even a user whose node hangs gives up, and leaves its call half-way.
            () = tokio::time::sleep(Duration::from_secs(40)) => None,
        }
    }

    async fn create(&self, wish: u64) {
        let ask =
            CreateAsk { spec: self.spec(), policy: self.policy(), key: self.key(wish), queue: self.queue() };
        let Some(id) = self.ask_for_sandbox(ask.clone()).await else { return };
        self.common.checker.say(|| format!("user {} was given {id}", self.name));
        let known = self.promises.with(|made| {
            made.sandboxes.push(id);
            made.sandboxes.iter().filter(|other| **other == id).count() > 1
        });
        if known {
            self.common.checker.violate(format!("{id} was given to two users"));
        }
        if ask.key.is_some()
            && let Some(again) = self.call(async |engine| engine.create(ask).await).await
        {
            match again {
                Ok(same) if same == id => {}
                Err(AdmitError::Create(CreateError::Store(_))) => {}
                other => self.common.checker.violate(format!("the same key gave {id} and then {other:?}")),
            }
        }
        // Who knows what he wants does not wait for it to be ready.
        if self.common.chance.hits(300) {
            self.execute(id).await;
        }
        if self.common.chance.hits(500) {
            let until = self.common.clock.now().after_ms(20_000);
            self.call(async |engine| engine.wait_ready(id, until).await).await;
        }
    }

    /// Some would rather wait for room than be refused.
    fn queue(&self) -> Option<QueueAsk> {
        let chance = &self.common.chance;
        let (id, for_ms) = (chance.below(u64::MAX), chance.between(500, 30_000));
        let until = self.common.clock.now().after_ms(for_ms);
        chance.hits(400).then_some(QueueAsk { id: PlaceId(u128::from(id)), until })
    }

    /// With something to run in it, or without.
    async fn ask_for_sandbox(&self, ask: CreateAsk) -> Option<SandboxId> {
        if !self.common.chance.hits(300) {
            return self.call(async |engine| engine.create(ask).await).await?.ok();
        }
        let run =
            RunAsk { command: self.command(), kind: ExecutionKind::Run, limits: ExecutionLimits::default() };
        let asked = self.call(async |engine| engine.create_and_execute(ask, run).await).await;
        let (id, execution) = asked?.ok()?;
        self.common.checker.say(|| format!("user {} was given {execution} with it", self.name));
        self.promises.with(|made| made.executions.push((id, execution)));
        Some(id)
    }

    async fn execute(&self, id: SandboxId) {
        let chance = &self.common.chance;
        let kind = if chance.hits(800) { ExecutionKind::Run } else { ExecutionKind::Job };
        let may_queue = chance.hits(700);
        let limits = ExecutionLimits {
            timeout_ms: chance.hits(500).then(|| chance.between(500, 20_000)),
            inactivity_ms: chance.hits(500).then(|| chance.between(500, 10_000)),
        };
        let command = self.command();
        let asked =
            self.call(async |engine| engine.execute(id, command, kind, limits, may_queue).await).await;
        let Some(Ok(execution)) = asked else { return };
        self.common.checker.say(|| format!("user {} was given {execution}", self.name));
        self.promises.with(|made| made.executions.push((id, execution)));
        if chance.hits(300) {
            let until = self.common.clock.now().after_ms(15_000);
            self.call(async |engine| engine.wait_execution(id, execution, until).await).await;
        }
    }

    async fn stop(&self, id: SandboxId) {
        let (forced, wait_ms) = (self.common.chance.hits(300), self.common.chance.below(30_000));
        let stop =
            self.call(async |engine| engine.stop(id, Cause::StoppedByUser, forced, wait_ms).await).await;
        if let Some(Ok(Stop::Gone { .. })) = stop {
            self.common.checker.told_gone(id);
        }
    }

    async fn cancel(&self, id: SandboxId) {
        let own: Vec<_> =
            self.promises.with(|made| made.executions.iter().filter(|(of, _)| *of == id).copied().collect());
        if let Some((_, execution)) = self.common.chance.one_of(&own) {
            self.call(async |engine| engine.cancel(id, execution).await).await;
        }
    }

    async fn restart_or_forget(&self, id: SandboxId) {
        if self.common.chance.hits(700) {
            self.call(async |engine| engine.restart(id, Cause::Cancelled).await).await;
            return;
        }
        // It may be forgotten even if the answer is lost.
        self.promises.with(|made| made.forgotten.push(id));
        self.call(async |engine| engine.forget(id).await).await;
    }

    /// An operator who has been there and looked.
    async fn attest_what_is_really_gone(&self, id: SandboxId) {
        let there = self.common.world.everything(self.common.clock.now());
        let quarantined = self
            .common
            .checker
            .unsettled()
            .iter()
            .any(|sandbox| sandbox.id == id && matches!(sandbox.lease, Lease::Quarantined { .. }));
        if quarantined && !there.iter().any(|physical| physical.body.sandbox == id) {
            let reason = "the host was taken apart".to_owned();
            let attested = self.call(async |engine| engine.attest(id, "operator".into(), reason).await).await;
            if let Some(Err(ApplyError::Refused(refusal))) = attested {
                self.common.checker.say(|| format!("attesting {id} was refused: {refusal}"));
            }
        }
    }

    fn spec(&self) -> Spec {
        let name = Some(format!("of user {}", self.name));
        match self.common.pool() {
            Some(plan) if self.common.chance.hits(600) => Spec { name, ..plan.shape.spec() },
            Some(_) | None => {
                let memory_mb = Some(self.common.chance.between(1, 100));
                Spec { name, limits: Limits { memory_mb, ..Limits::default() }, ..Spec::default() }
            }
        }
    }

    fn key(&self, wish: u64) -> Option<IdempotencyKey> {
        self.common.chance.hits(300).then(|| IdempotencyKey {
            key: format!("user {} wish {wish}", self.name),
            request: "create".into(),
            expires_at: self.common.clock.now().after_ms(3_600_000),
        })
    }

    fn policy(&self) -> Policy {
        let chance = &self.common.chance;
        Policy {
            accept_ms: chance.hits(200).then_some(8_000),
            unhealthy_age_ms: chance.one_of(&[5_000, 60_000]).unwrap_or(5_000),
            idle_ms: chance.hits(700).then_some(30_000),
            one_shot: chance.hits(200),
            recovery: chance.hits(400).then(|| Recovery {
                tries: u32::try_from(chance.between(1, 4)).unwrap_or(1),
                backoff_ms: chance.below(4_000),
            }),
            ..short_times(self.common.guards)
        }
    }

    fn command(&self) -> Command {
        let chance = &self.common.chance;
        let words = match chance.below(6) {
            0 => vec!["true".to_owned()],
            1 => vec!["exit".into(), "3".into()],
            2 => vec!["sleep".into(), chance.between(1, 10).to_string()],
            3 => vec!["work".into(), chance.between(1, 20_000).to_string(), "0".into()],
            4 => vec!["hang".into()],
            _ => vec!["no-such-program".into()],
        };
        Command { argv: words, ..Command::default() }
    }
}

/// Short times, so that much happens in few minutes.
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
        quarantine_look_ms: 20_000,
        queued_ms: 10_000,
        kill_ms: 4_000,
        max_life_ms: 240_000,
        side_by_side: 2,
        queue_length: 2,
        jobs: 1,
        guards,
        ..Policy::default()
    }
}
