//! A wish for a sandbox, from what the API says to what the engine is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_api::{CreateSandbox, ErrorCode, LimitsWish, QueuePlace, Sandbox};
use pinfold_engine::{CreateAsk, QueueAsk, Waited};
use pinfold_images::{FindError, HOST, Image};
use pinfold_lifecycle::profile::{DEFAULT_NAME, Wishes};
use pinfold_lifecycle::{Asker, Cause, ExecutionLimits, Fact, Limits, Policy, SandboxId, Spec, TokenId};
use pinfold_store::{IdempotencyKey, Seq, Store};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Caller, Failure, Service, words};

const LONGEST_NAME: usize = 128;
const LONGEST_TASK: usize = 256;
/// Each is a row of its own in the transaction that creates.
const MOST_LABELS: usize = 64;
const LONGEST_LABEL: usize = 128;
const LONGEST_VALUE: usize = 256;
const LONGEST_KEY: usize = 255;
/// How long the proof that a failed start left nothing may take.
const PROOF_MS: u64 = 10_000;

/// How far a create has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    Ready(Box<Sandbox>),
    /// It goes on by itself.
    Pending(Box<Sandbox>),
    /// It waits for room, and goes on by itself when there is some.
    Queued(Box<QueuePlace>),
}

/// Who asks, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asking<'a> {
    /// None: a process on this very host.
    pub caller: Option<&'a Caller>,
    /// A key is its caller's own: nobody gets another's sandbox with it.
    pub key: Option<&'a str>,
    /// Where there is no room, wait for it.
    pub queue: Option<QueueAsk>,
}

impl Asking<'_> {
    /// For room, and then for what was asked for, in seconds. A request that takes longer is given up, and its caller
    /// is told nothing of what goes on.
    pub(crate) const LONGEST_WAIT_S: u64 = 3_600;

    /// How long a request may still wait that has waited so long for room.
    pub(crate) fn left_ms(wait_ms: u64, waited_ms: u64) -> u64 {
        wait_ms.min((Self::LONGEST_WAIT_S * 1_000).saturating_sub(waited_ms))
    }

    pub(super) fn asker(&self) -> Option<Asker> {
        self.caller.map(|caller| Asker { token: caller.token, name: caller.name.to_string() })
    }
}

impl Service {
    /// Makes a sandbox, and waits so long until it is ready. Time in the queue comes before that; over the network both
    /// together are bounded.
    pub async fn create(
        &self,
        wish: &CreateSandbox,
        asking: Asking<'_>,
        wait_ms: u64,
    ) -> Result<Creation, Failure> {
        let began = self.now();
        let (spec, policy) = self.ask(wish)?;
        let spec = Spec { asked_by: asking.asker(), ..spec };
        let key = self.key_of(asking, wish)?;
        let created = self.host.engine.create(CreateAsk { spec, policy, key, queue: asking.queue }).await;
        let id = created.inspect_err(|error| self.note_refusal(error))?;
        let now = self.now();
        let wait_ms = match asking.caller {
            Some(_) => Asking::left_ms(wait_ms, now.ms_since(began)),
            // Nobody gives up a process on this very host.
            None => wait_ms,
        };
        match self.host.engine.wait_ready(id, now.after_ms(wait_ms)).await? {
            Waited::Met(Ok(())) => Ok(Creation::Ready(Box::new(self.sandbox(id).await?))),
            Waited::DeadlinePassed => Ok(Creation::Pending(Box::new(self.sandbox(id).await?))),
            Waited::Met(Err(cause)) => self.ended_early(id, cause).await,
        }
    }

    /// The same, but tells whoever would not wait for it of its place in the queue.
    pub async fn create_or_queue(
        self: Arc<Self>,
        wish: CreateSandbox,
        (caller, key, queue): (Caller, Option<String>, QueueAsk),
    ) -> Result<Creation, Failure> {
        if self.host.engine.place(queue.id).await?.is_some() {
            return Err(Failure::bad_input("ticket", "it was used before"));
        }
        let service = self.clone();
        let mut made = tokio::spawn(async move {
            let asking = Asking { caller: Some(&caller), key: key.as_deref(), queue: Some(queue) };
            service.create(&wish, asking, 0).await
        });
        tokio::select! {
            biased;
            made = &mut made => made.unwrap_or_else(|error| Err(Failure::internal(error))),
            place = self.until_queued(queue.id) => Ok(Creation::Queued(Box::new(place))),
        }
    }

    /// It was ready before, where this is asked again; or it never became so.
    async fn ended_early(&self, id: SandboxId, cause: Cause) -> Result<Creation, Failure> {
        let history = self.host.store.history(Some(id), Seq::default(), usize::MAX).await?;
        let facts = || history.iter().rev().map(|row| &row.record.fact);
        if facts().any(|fact| matches!(fact, Fact::BecameReady { .. })) {
            return Ok(Creation::Ready(Box::new(self.sandbox(id).await?)));
        }
        self.host.engine.wait_gone(id, PROOF_MS).await?;
        let why = facts().find_map(|fact| match fact {
            Fact::StartFailed { why, .. } => Some(why.clone()),
            _ => None,
        });
        let failure = match cause {
            Cause::StartFailed | Cause::StartDeadline | Cause::ProbeFailed | Cause::ProviderError => {
                Failure::new(ErrorCode::StartFailed, "the sandbox did not become ready")
            }
            other => Failure::gone(other),
        };
        let failure = failure.with("sandbox_id", id.to_string()).with("cause", json!(words::cause(cause)));
        Err(match why {
            Some(why) => failure.with("why", why),
            None => failure,
        })
    }

    pub(super) fn key_of(
        &self,
        asking: Asking<'_>,
        wish: &impl Serialize,
    ) -> Result<Option<IdempotencyKey>, Failure> {
        let given = asking.caller.zip(asking.key);
        given.map(|(owner, key)| self.key(owner.token, key, wish)).transpose()
    }

    /// It is good for this very wish.
    fn key(&self, owner: TokenId, key: &str, wish: &impl Serialize) -> Result<IdempotencyKey, Failure> {
        let is_plain =
            !key.is_empty() && key.len() <= LONGEST_KEY && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain {
            let why = format!("1 to {LONGEST_KEY} printable characters without spaces are allowed");
            return Err(Failure::bad_input(pinfold_api::IDEMPOTENCY_KEY, why));
        }
        let request = serde_json::to_vec(wish).map_err(Failure::internal)?;
        let digest = Sha256::digest(&request);
        Ok(IdempotencyKey {
            key: format!("{owner}:{key}"),
            request: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            expires_at: self.now().after_ms(self.rules.keep_keys.ms),
        })
    }

    /// What is asked of the engine.
    pub fn ask(&self, wish: &CreateSandbox) -> Result<(Spec, Policy), Failure> {
        check(wish)?;
        let asked = wish.agent_type.as_deref().unwrap_or(DEFAULT_NAME);
        let (agent_type, profile) = self.rules.profiles.named(asked)?;
        let policy = self.rules.policy.clone();
        let given = profile.with(&wishes(&wish.limits), &policy)?;
        let image = self.image(wish.image.as_deref())?;
        let workdir = wish.workdir.clone();
        let spec = Spec {
            name: wish.name.clone(),
            agent_type: profile.is_agent.then(|| agent_type.to_owned()),
            task_id: wish.task_id.clone(),
            labels: wish.labels.clone(),
            critical: wish.critical,
            env: env(image.as_ref(), &wish.env),
            workdir: workdir.or(image.as_ref().and_then(|image| image.settings.working_directory.clone())),
            image: image.map(|image| image.id.to_string()),
            limits: given.limits,
            execution: given.execution,
            asked_by: None,
        };
        Ok((spec, Policy { idle_ms: given.idle_ms, max_life_ms: given.max_life_ms, ..policy }))
    }

    /// It is kept by its id, so that a name that is given to another image later changes nothing.
    fn image(&self, asked: Option<&str>) -> Result<Option<Image>, Failure> {
        let Some(asked) = asked.filter(|asked| *asked != HOST) else { return Ok(None) };
        match self.host.images().map_err(Failure::internal)?.find(asked) {
            Ok(image) => Ok(Some(image)),
            Err(error @ FindError::Shelf { .. }) => Err(Failure::internal(error)),
            Err(error) => Err(Failure::bad_input("image", error)),
        }
    }
}

fn check(wish: &CreateSandbox) -> Result<(), Failure> {
    match &wish.name {
        Some(name) if name.is_empty() => return Err(Failure::bad_input("name", "it is empty")),
        Some(name) if name.len() > LONGEST_NAME => {
            return Err(Failure::bad_input("name", "it is longer than 128 bytes"));
        }
        Some(name) if name.starts_with(SandboxId::PREFIX) => {
            return Err(Failure::bad_input("name", "names that begin with `sbx_` look like ids"));
        }
        Some(_) | None => {}
    }
    if wish.network.as_ref().is_some_and(|network| network != "none") {
        return Err(Failure::bad_input("network", "only `none` is available in this version"));
    }
    if let Some(task) = &wish.task_id {
        check_task("task_id", task)?;
    }
    check_labels(&wish.labels)?;
    check_environment(&wish.env)?;
    check_workdir(wish.workdir.as_deref())
}

/// Under the name that whoever asks has for it.
pub(super) fn check_task(field: &str, task: &str) -> Result<(), Failure> {
    if task.is_empty() || task.len() > LONGEST_TASK {
        return Err(Failure::bad_input(field, format!("1 to {LONGEST_TASK} bytes are allowed")));
    }
    Ok(())
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::bad_input("labels", why));
    if labels.len() > MOST_LABELS {
        return refused(format!("there may be {MOST_LABELS} at the most"));
    }
    for (name, value) in labels {
        if name.is_empty() || name.len() > LONGEST_LABEL {
            return refused(format!("1 to {LONGEST_LABEL} bytes are allowed for a name"));
        }
        if value.len() > LONGEST_VALUE {
            return refused(format!("the value of `{name}` may have {LONGEST_VALUE} bytes at the most"));
        }
    }
    Ok(())
}

pub(super) fn check_workdir(workdir: Option<&str>) -> Result<(), Failure> {
    match workdir {
        Some(path) if !path.starts_with('/') => {
            Err(Failure::bad_input("workdir", "it does not begin with `/`"))
        }
        Some(path) if path.contains('\0') => {
            Err(Failure::bad_input("workdir", "it contains a NUL character"))
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) fn check_environment(env: &BTreeMap<String, String>) -> Result<(), Failure> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Failure::bad_input("env", format!("`{name}` is no name of a variable")));
        }
        if value.contains('\0') {
            return Err(Failure::bad_input("env", format!("the value of `{name}` contains a NUL character")));
        }
    }
    Ok(())
}

fn wishes(limits: &LimitsWish) -> Wishes {
    Wishes {
        limits: Limits {
            memory_mb: limits.memory_mb,
            cpu_millis: limits.cpu_millis,
            cpu_time_ms: limits.cpu_time_ms,
            network_requests: limits.network_requests,
            disk_mb: limits.disk_mb,
            processes: limits.processes,
            output_mb: limits.output_mb,
            operations: limits.operations,
            ..Limits::default()
        },
        execution: ExecutionLimits { timeout_ms: limits.timeout_ms, inactivity_ms: limits.inactivity_ms },
        idle_ms: limits.idle_ms,
        max_life_ms: limits.max_life_ms,
    }
}

/// What the image sets, unless it is said otherwise.
fn env(image: Option<&Image>, asked: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of_image = image.into_iter().flat_map(|image| &image.settings.env);
    let of_image = of_image.filter_map(|pair| pair.split_once('='));
    let of_image = of_image.map(|(name, value)| (name.to_owned(), value.to_owned()));
    of_image.chain(asked.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_for_room_waits_again_for_no_longer_than_is_left_of_an_hour() {
        const HOUR_MS: u64 = 3_600_000;

        for (wait_ms, waited_ms, left_ms) in [
            (60_000, 0, 60_000),
            (HOUR_MS, 0, HOUR_MS),
            (60_000, HOUR_MS - 1_000, 1_000),
            (HOUR_MS, 30_000, HOUR_MS - 30_000),
            (HOUR_MS, HOUR_MS, 0),
            (HOUR_MS, HOUR_MS + 1, 0),
            (0, 5, 0),
        ] {
            assert_eq!(Asking::left_ms(wait_ms, waited_ms), left_ms, "{wait_ms} after {waited_ms}");
        }
    }
}
