//! Creating a sandbox: validation, profile and image, idempotency, and the wait until it is ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_api::{CreateSandbox, ErrorCode, LimitsRequest, QueueEntry, Sandbox};
use pinfold_engine::{CreateRequest, QueueRequest, WaitOutcome};
use pinfold_images::{FindError, HOST, Image};
use pinfold_lifecycle::profile::{DEFAULT_NAME, LimitOverrides};
use pinfold_lifecycle::{Cause, ExecutionLimits, Fact, Limits, Policy, Requester, SandboxId, Spec, TokenId};
use pinfold_store::{IdempotencyKey, Seq};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Caller, Failure, Service, convert};

const LONGEST_NAME: usize = 128;
const LONGEST_TASK: usize = 256;
/// Each label is a row in the transaction that creates the sandbox.
const MOST_LABELS: usize = 64;
const LONGEST_LABEL: usize = 128;
const LONGEST_VALUE: usize = 256;
const LONGEST_KEY: usize = 255;
/// How long to wait for the proof that a failed start left nothing behind.
const PROOF_MS: u64 = 10_000;

/// The result of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateOutcome {
    Ready(Box<Sandbox>),
    /// A repeated request: the sandbox was ready once and has ended since.
    Ended(Box<Sandbox>),
    /// The engine continues the start.
    Pending(Box<Sandbox>),
    /// It waits in the queue; the engine creates the sandbox when there is room.
    Queued(Box<QueueEntry>),
}

/// The caller of a create, and how to queue and repeat it.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateOptions<'a> {
    /// None: a process on this host.
    pub caller: Option<&'a Caller>,
    /// The idempotency key. Keys of different tokens are different keys.
    pub key: Option<&'a str>,
    /// Wait in the queue when there is no room.
    pub queue: Option<QueueRequest>,
}

impl CreateOptions<'_> {
    /// The longest time a request may wait for room and then for readiness, in seconds. A longer request would be cut
    /// off without an answer.
    pub const LONGEST_WAIT_S: u64 = 3_600;

    /// The time left to wait for readiness after waiting in the queue.
    pub fn remaining_wait_ms(wait_ms: u64, waited_ms: u64) -> u64 {
        wait_ms.min((Self::LONGEST_WAIT_S * 1_000).saturating_sub(waited_ms))
    }

    pub(super) fn requester(&self) -> Option<Requester> {
        self.caller.map(|caller| Requester { token: caller.token, name: caller.name.to_string() })
    }
}

impl Service {
    /// Creates a sandbox and waits until it is ready. Time in the queue comes first; over HTTP the two together are
    /// bounded.
    pub async fn create(
        &self,
        request: &CreateSandbox,
        options: CreateOptions<'_>,
        wait_ms: u64,
    ) -> Result<CreateOutcome, Failure> {
        let began = self.now();
        let decided = self.decide(request, options)?;
        let key = self.key_of(options, request)?;
        let created = self.host.engine.create(CreateRequest { key, ..decided }).await;
        let id = created.inspect_err(|error| self.count_refusal(error))?;
        let now = self.now();
        let wait_ms = match options.caller {
            Some(_) => CreateOptions::remaining_wait_ms(wait_ms, now.ms_since(began)),
            // A caller in this process has no request timeout.
            None => wait_ms,
        };
        match self.host.engine.wait_ready(id, now.after_ms(wait_ms)).await? {
            WaitOutcome::Met(Ok(())) => Ok(CreateOutcome::Ready(Box::new(self.sandbox(id).await?))),
            WaitOutcome::DeadlinePassed => Ok(CreateOutcome::Pending(Box::new(self.sandbox(id).await?))),
            WaitOutcome::Met(Err(cause)) => self.ended_early(id, cause).await,
        }
    }

    /// Like [`create`](Self::create), but returns the queue entry at once when there is no room.
    pub async fn create_or_queue(
        self: Arc<Self>,
        request: CreateSandbox,
        (caller, key, queue): (Caller, Option<String>, QueueRequest),
    ) -> Result<CreateOutcome, Failure> {
        if self.host.engine.queue_entry(queue.id).await?.is_some() {
            return Err(Failure::bad_input("queue_id", "already used"));
        }
        let service = self.clone();
        let mut made = tokio::spawn(async move {
            let options = CreateOptions { caller: Some(&caller), key: key.as_deref(), queue: Some(queue) };
            service.create(&request, options, 0).await
        });
        tokio::select! {
            biased;
            made = &mut made => made.unwrap_or_else(|error| Err(Failure::internal(error))),
            place = self.until_queued(queue.id) => Ok(CreateOutcome::Queued(Box::new(place))),
        }
    }

    /// The answer for a sandbox that has already ended: an error if it was never ready, else the sandbox, since a
    /// repeated request may come after its end.
    async fn ended_early(&self, id: SandboxId, cause: Cause) -> Result<CreateOutcome, Failure> {
        let history = self.host.store.history(Some(id), Seq::default(), usize::MAX).await?;
        let facts = || history.iter().rev().map(|row| &row.record.fact);
        if facts().any(|fact| matches!(fact, Fact::BecameReady { .. })) {
            return Ok(CreateOutcome::Ended(Box::new(self.sandbox(id).await?)));
        }
        self.host.engine.wait_gone(id, PROOF_MS).await?;
        let why = facts().find_map(|fact| match fact {
            Fact::StartFailed { why, .. } => Some(why.clone()),
            _ => None,
        });
        let failure = match cause {
            Cause::StartFailed
            | Cause::StartDeadline
            | Cause::ProbeFailed
            | Cause::ProviderError
            | Cause::KeeperKilled => Failure::new(ErrorCode::StartFailed, "the sandbox did not become ready"),
            other => Failure::gone(other),
        };
        let failure = failure.with("sandbox_id", id.to_string()).with("cause", json!(convert::cause(cause)));
        Err(match why {
            Some(why) => failure.with("why", why),
            None => failure,
        })
    }

    pub(super) fn key_of(
        &self,
        options: CreateOptions<'_>,
        request: &impl Serialize,
    ) -> Result<Option<IdempotencyKey>, Failure> {
        let given = options.caller.zip(options.key);
        given.map(|(owner, key)| self.key(owner.token, key, request)).transpose()
    }

    /// The key holds for this exact request.
    fn key(&self, owner: TokenId, key: &str, request: &impl Serialize) -> Result<IdempotencyKey, Failure> {
        let is_plain =
            !key.is_empty() && key.len() <= LONGEST_KEY && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain {
            let why = format!("1 to {LONGEST_KEY} printable characters without spaces are allowed");
            return Err(Failure::bad_input(pinfold_api::IDEMPOTENCY_KEY, why));
        }
        let encoded = serde_json::to_vec(request).map_err(Failure::internal)?;
        let digest = Sha256::digest(&encoded);
        Ok(IdempotencyKey {
            key: format!("{owner}:{key}"),
            request: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            expires_at: self.now().after_ms(self.config.keep_keys.ms),
        })
    }

    /// Decides a create request: its profile, limits and image. The idempotency key is left to the caller.
    pub(super) fn decide(
        &self,
        request: &CreateSandbox,
        options: CreateOptions<'_>,
    ) -> Result<CreateRequest, Failure> {
        check_request(request)?;
        let asked = request.agent_type.as_deref().unwrap_or(DEFAULT_NAME);
        let (agent_type, profile) = self.config.profiles.get(asked)?;
        let policy = self.config.policy.clone();
        let given = profile.with(&limit_overrides(&request.limits), &policy)?;
        let image = self.image(request.image.as_deref())?;
        let workdir = request.workdir.clone();
        let spec = Spec {
            name: request.name.clone(),
            agent_type: profile.is_agent.then(|| agent_type.to_owned()),
            task_id: request.task_id.clone(),
            labels: request.labels.clone(),
            critical: request.critical,
            env: env(image.as_ref(), &request.env),
            workdir: workdir.or(image.as_ref().and_then(|image| image.settings.working_directory.clone())),
            image: image.map(|image| image.id.to_string()),
            limits: given.limits,
            execution: given.execution,
            requested_by: options.requester(),
        };
        let grace_ms = match request.grace_ms {
            Some(grace_ms) => self.check_grace(grace_ms)?,
            None => policy.grace_ms,
        };
        let policy = Policy { idle_ms: given.idle_ms, max_life_ms: given.max_life_ms, grace_ms, ..policy };
        let (spec, policy) = (Arc::new(spec), Arc::new(policy));
        Ok(CreateRequest { spec, policy, queue: options.queue, ..CreateRequest::default() })
    }

    /// The image is stored by id, so that renaming an image does not affect the sandbox.
    fn image(&self, asked: Option<&str>) -> Result<Option<Image>, Failure> {
        let Some(asked) = asked.filter(|asked| *asked != HOST) else { return Ok(None) };
        match self.host.images().map_err(Failure::internal)?.find(asked) {
            Ok(image) => Ok(Some(image)),
            Err(error @ FindError::Store { .. }) => Err(Failure::internal(error)),
            Err(error) => Err(Failure::bad_input("image", error)),
        }
    }
}

/// Checks what needs neither configuration nor store: names, labels, environment and paths.
pub fn check_request(request: &CreateSandbox) -> Result<(), Failure> {
    if let Some(name) = &request.name {
        check_name(name)?;
    }
    if request.network.as_ref().is_some_and(|network| network != "none") {
        return Err(Failure::bad_input("network", "only `none` is available in this version"));
    }
    if let Some(task) = &request.task_id {
        check_task("task_id", task)?;
    }
    check_labels(&request.labels)?;
    check_environment(&request.env)?;
    check_workdir(request.workdir.as_deref())
}

fn check_name(name: &str) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::bad_input("name", why));
    if name.is_empty() {
        return refused("must not be empty");
    }
    if name.len() > LONGEST_NAME {
        return refused("must not be longer than 128 bytes");
    }
    if ["sbx_", "exe_", "job_"].iter().any(|prefix| name.starts_with(prefix)) {
        return refused("must not begin with `sbx_`, `exe_` or `job_`, which are for ids");
    }
    if ROUTES.contains(&name) {
        return refused("is a path of the API; choose another name");
    }
    check_printable("name", name)
}

/// Words that stand in the place of an id in paths of the API.
const ROUTES: [&str; 9] =
    ["list", "stats", "health", "metrics", "cleanup", "audit", "reconcile", "queue", "run"];

/// A line feed or an escape sequence in a name would forge lines of logs and terminals.
fn check_printable(field: &str, text: &str) -> Result<(), Failure> {
    if text.chars().any(char::is_control) {
        return Err(Failure::bad_input(field, NO_CONTROL_CHARACTERS));
    }
    Ok(())
}

const NO_CONTROL_CHARACTERS: &str = "must not contain control characters such as a line feed, a tab or NUL";

/// `field` is the name of the field in this request.
pub(super) fn check_task(field: &str, task: &str) -> Result<(), Failure> {
    if task.is_empty() || task.len() > LONGEST_TASK {
        return Err(Failure::bad_input(field, format!("1 to {LONGEST_TASK} bytes are allowed")));
    }
    check_printable(field, task)
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::bad_input("labels", why));
    if labels.len() > MOST_LABELS {
        return refused(format!("at most {MOST_LABELS} labels are allowed"));
    }
    for (name, value) in labels {
        let shown = name.escape_debug();
        if name.is_empty() || name.len() > LONGEST_LABEL {
            return refused(format!("a label name must have 1 to {LONGEST_LABEL} bytes"));
        }
        if name.chars().any(char::is_control) {
            return refused(format!("the name `{shown}` {NO_CONTROL_CHARACTERS}"));
        }
        if value.len() > LONGEST_VALUE {
            return refused(format!("the value of `{shown}` may have at most {LONGEST_VALUE} bytes"));
        }
        if value.chars().any(char::is_control) {
            return refused(format!("the value of `{shown}` {NO_CONTROL_CHARACTERS}"));
        }
    }
    Ok(())
}

pub(super) fn check_workdir(workdir: Option<&str>) -> Result<(), Failure> {
    match workdir {
        Some(path) if !path.starts_with('/') => Err(Failure::bad_input("workdir", "must begin with `/`")),
        Some(path) if path.contains('\0') => Err(Failure::bad_input("workdir", "contains a NUL character")),
        Some(_) | None => Ok(()),
    }
}

pub(super) fn check_environment(env: &BTreeMap<String, String>) -> Result<(), Failure> {
    for (name, value) in env {
        if name.is_empty() || name.contains('=') || name.chars().any(char::is_control) {
            let why = format!("`{}` is not a variable name", name.escape_debug());
            return Err(Failure::bad_input("env", why));
        }
        if value.contains('\0') {
            return Err(Failure::bad_input("env", format!("the value of `{name}` contains a NUL character")));
        }
    }
    Ok(())
}

pub(super) fn limit_overrides(limits: &LimitsRequest) -> LimitOverrides {
    LimitOverrides {
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

/// The image's environment, overridden by the request.
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
    fn queue_time_and_wait_time_together_stay_within_an_hour() {
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
            assert_eq!(
                CreateOptions::remaining_wait_ms(wait_ms, waited_ms),
                left_ms,
                "{wait_ms} after {waited_ms}"
            );
        }
    }
}
