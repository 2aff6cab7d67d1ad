//! Converts settings to the configuration of the engine, the service and the HTTP server, and refuses invalid values.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_engine::{Config as EngineConfig, PoolPlan};
use pinfold_http::ServerConfig;
use pinfold_lifecycle::profile::{BadLimit, Profile, Profiles, UnknownProfile};
use pinfold_lifecycle::{AdmissionLimits, HostReserve, LabelQuotas, Policy, QuotaRules, Recovery, Spec};
use pinfold_logs::RetentionPeriods;
use pinfold_service::{
    BucketConfig, FlagThresholds, IdempotencyKeyRetention, LogRetention, LoopsConfig, ObjectStoreConfig,
    ServiceConfig,
};

use super::load::{Loaded, SettingsError};
use super::profiles::key_of;
use super::{AgentSettings, ProfileSettings};

/// In a table of quotas: every name that is not listed.
const WILDCARD: &str = "*";

impl Loaded {
    pub(super) fn invalid(&self, field: &str, why: impl Into<String>) -> SettingsError {
        SettingsError::Value {
            field: field.into(),
            why: why.into(),
            origin: self.provenance.origin_text(field),
        }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        self.check_order()?;
        let logs = &self.settings.logs;
        if logs.access_key_id.is_some() != logs.secret_access_key.is_some() {
            let why = "`access_key_id` and `secret_access_key` belong together; set both or none";
            return Err(self.invalid("logs.secret_access_key", why));
        }
        self.cleanup()?;
        self.alerts()?;
        self.telemetry()?;
        let profiles = self.profiles()?;
        self.pool_plans(&profiles).map(drop)
    }

    /// Times that must fit into each other.
    fn check_order(&self) -> Result<(), SettingsError> {
        let settings = &self.settings;
        let (sandboxes, engine, kept) = (&settings.sandboxes, &settings.engine, &settings.retention);
        let orders = [
            ("sandboxes.idle", sandboxes.idle, "sandboxes.max_life", sandboxes.max_life),
            ("sandboxes.probe_every", sandboxes.probe_every, "sandboxes.evidence", sandboxes.evidence),
            ("engine.heartbeat", engine.heartbeat, "engine.dead_after", engine.dead_after),
            ("retention.records", kept.records, "retention.history", kept.history),
        ];
        for (field, given, beyond, limit) in orders {
            if given > limit {
                let why = format!("{given} is longer than `{beyond}`, which is {limit}; change one of them");
                return Err(self.invalid(field, why));
            }
        }
        Ok(())
    }

    pub(crate) fn policy(&self) -> Policy {
        let sandboxes = &self.settings.sandboxes;
        Policy {
            start_ms: sandboxes.start.0,
            grace_ms: sandboxes.grace.0,
            stop_attempt_ms: sandboxes.stop_attempt.0,
            stop_attempts: sandboxes.stop_attempts.get(),
            probe_ms: sandboxes.probe.0,
            probe_every_ms: sandboxes.probe_every.0,
            evidence_ms: sandboxes.evidence.0,
            unhealthy_age_ms: sandboxes.unhealthy_age.0,
            queued_ms: sandboxes.queued.0,
            idle_ms: Some(sandboxes.idle.0),
            max_life_ms: sandboxes.max_life.0,
            max_concurrent: sandboxes.concurrent_executions.get(),
            queue_length: sandboxes.queue_length,
            jobs: sandboxes.jobs,
            ..Policy::default()
        }
    }

    fn profiles(&self) -> Result<Profiles, SettingsError> {
        let mut profiles = Profiles::default();
        let AgentSettings { timeout, inactivity, .. } = self.settings.agents;
        let for_all = ProfileSettings { timeout, inactivity, ..ProfileSettings::default() };
        for (name, agent) in Profiles::default().iter().filter(|(_, profile)| profile.is_agent) {
            profiles.insert(name, self.apply_profile("agents", &for_all, agent)?);
        }
        for (name, wanted) in &self.settings.profiles {
            let base_profile = self.base_profile(&profiles, name, wanted)?;
            profiles.insert(name, self.apply_profile(&format!("profiles.{name}"), wanted, &base_profile)?);
        }
        Ok(profiles)
    }

    fn apply_profile(
        &self,
        at: &str,
        wanted: &ProfileSettings,
        to: &Profile,
    ) -> Result<Profile, SettingsError> {
        wanted.applied_to(to, &self.policy()).map_err(|error| {
            let (BadLimit::OutOfRange { field, .. } | BadLimit::LongerThan { field, .. }) = error;
            let message = error.to_string();
            let why = message.split_once(": ").map_or(message.as_str(), |(_, why)| why);
            self.invalid(&format!("{at}.{}", key_of(field)), why)
        })
    }

    /// A built-in type starts from its defaults. A new type must name its base with `like`, so that a misspelled type is an
    /// error.
    fn base_profile(
        &self,
        profiles: &Profiles,
        name: &str,
        wanted: &ProfileSettings,
    ) -> Result<Profile, SettingsError> {
        let at = format!("profiles.{name}");
        let unknown = |error: UnknownProfile| self.invalid(&at, error.to_string());
        match (&wanted.like, profiles.get(name)) {
            (None, Ok((_, defaults))) => Ok(*defaults),
            (None, Err(error)) => {
                let why = format!("{error}; a new profile names its base, as in `like = \"default\"`");
                Err(self.invalid(&at, why))
            }
            (Some(_), _) if !is_valid_name(name) => {
                Err(self.invalid(&at, "a name has 1 to 64 letters, digits, `_` and `-`"))
            }
            (Some(like), _) => {
                let (_, like) = profiles.get(like).map_err(unknown)?;
                Ok(Profile { is_agent: true, ..*like })
            }
        }
    }

    fn pool_plans(&self, profiles: &Profiles) -> Result<Vec<PoolPlan>, SettingsError> {
        let plan = |(name, size): (&String, &u64)| {
            let at = format!("warm.sizes.{name}");
            let (_, profile) = profiles.get(name).map_err(|error| self.invalid(&at, error.to_string()))?;
            let shape = Spec { limits: profile.limits, ..Spec::default() }.shape();
            Ok(PoolPlan { shape, policy: self.policy(), size: *size })
        };
        self.settings.warm.sizes.iter().map(plan).collect()
    }

    /// For a server. A command that works without a server does not maintain the pool.
    pub(crate) fn engine(&self) -> Result<EngineConfig, SettingsError> {
        let pool = self.pool_plans(&self.profiles()?)?;
        Ok(EngineConfig { pool, ..self.engine_without_pool() })
    }

    pub(crate) fn engine_without_pool(&self) -> EngineConfig {
        let (engine, admission) = (&self.settings.engine, &self.settings.admission);
        EngineConfig {
            // Cannot fail: checked when the settings were loaded.
            cleanup: self.cleanup().unwrap_or_default(),
            admission: AdmissionLimits {
                sandboxes: self.max_sandboxes(),
                memory_mb: admission.memory_mb.map(Into::into),
                disk_mb: admission.disk_mb.map(Into::into),
                processes: admission.processes.map(Into::into),
            },
            quotas: self.quotas(),
            keep: HostReserve {
                disk_mb: admission.keep_disk_mb,
                memory_mb: admission.keep_memory_mb,
                processes: admission.keep_processes,
            },
            poll_ms: engine.poll.0,
            heartbeat_ms: engine.heartbeat.0,
            dead_after_ms: engine.dead_after.0,
            reconcile_every_ms: engine.reconcile_every.0,
            keep_records_ms: self.settings.retention.records.0,
            keep_history_ms: self.settings.retention.history.0,
            launches: engine.launches.get(),
            stops: engine.stops.get(),
            instance_calls: engine.instance_calls.get(),
            pool_life_ms: self.settings.warm.life.0,
            pool_launches: self.settings.warm.launches.get(),
            ..EngineConfig::default()
        }
    }

    /// Limit of simultaneous sandboxes. None: no limit.
    fn max_sandboxes(&self) -> Option<u64> {
        let given = self.settings.admission.sandboxes.unwrap_or_else(|| self.machine.sandboxes());
        (given > 0).then_some(given)
    }

    fn quotas(&self) -> QuotaRules {
        let split_wildcard = |given: &BTreeMap<String, u64>| {
            let mut named = given.clone();
            let each = named.remove(WILDCARD);
            (named, each)
        };
        let (tokens, each_token) = split_wildcard(&self.settings.admission.tokens);
        let labels = self.settings.admission.labels.iter().map(|(name, given)| {
            let (values, each_value) = split_wildcard(given);
            (name.clone(), LabelQuotas { values, each_value })
        });
        QuotaRules { tokens, each_token, labels: labels.collect() }
    }

    /// Age of logs that may be deleted when disk space runs short.
    pub(crate) fn stale_after_ms(&self) -> u64 {
        let kept = self.settings.retention.logs;
        self.settings.admission.stale_after.map_or(kept, |after| after.min(kept)).0
    }

    pub(crate) fn http(&self) -> ServerConfig {
        let requests = &self.settings.requests;
        ServerConfig {
            names: self.settings.server.names.clone(),
            rate: requests.rate,
            burst: requests.burst,
            connections: requests.connections.get(),
            connections_without_token: requests.connections_without_token.get(),
            connections_per_address: requests.connections_per_address.get(),
            head_timeout: Duration::from_millis(requests.head_timeout.0),
            body_timeout: Duration::from_millis(requests.body_timeout.0),
            wrong_tokens: requests.wrong_tokens,
            loops: LoopsConfig {
                log_retention: LogRetention::with_retention(self.keep()),
                metrics_retention: Duration::from_millis(self.settings.retention.metrics.0),
                // Cannot fail: checked when the settings were loaded.
                telemetry: self.telemetry().unwrap_or_default(),
            },
        }
    }

    /// Retention of logs and artifacts.
    pub(crate) fn keep(&self) -> RetentionPeriods {
        let kept = &self.settings.retention;
        RetentionPeriods { logs_ms: kept.logs.0, artifacts_ms: kept.artifacts.0 }
    }

    pub(crate) fn service_config(&self) -> Result<ServiceConfig, SettingsError> {
        Ok(ServiceConfig {
            profiles: self.profiles()?,
            policy: self.policy(),
            alerts: self.alerts()?,
            keep_keys: IdempotencyKeyRetention { ms: self.settings.retention.keys.0 },
            flags: FlagThresholds {
                old_ms: self.settings.flags.old.0,
                long_running_ms: self.settings.flags.long_running.0,
            },
            recovery: Recovery {
                attempts: self.settings.agents.retries + 1,
                backoff_ms: self.settings.agents.retry_after.0,
            },
        })
    }

    pub(crate) fn objects(&self) -> ObjectStoreConfig {
        let logs = &self.settings.logs;
        let Some(name) = logs.bucket.clone() else {
            return ObjectStoreConfig::Directory(logs.directory.clone());
        };
        let secret = logs.secret_access_key.as_ref().map(|secret| secret.0.clone());
        ObjectStoreConfig::Bucket(BucketConfig {
            name,
            endpoint: logs.endpoint.clone(),
            region: logs.region.clone(),
            prefix: logs.prefix.clone(),
            keys: logs.access_key_id.clone().zip(secret),
        })
    }
}

/// Whether a name is allowed for an agent type.
fn is_valid_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}
