//! What the crates below take, made of what was decided; and what cannot be, refused by name.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_engine::{Config as EngineConfig, PoolPlan};
use pinfold_lifecycle::profile::{BadLimit, Profile, Profiles, UnknownProfile};
use pinfold_lifecycle::{AdmissionLimits, LabelQuotas, Policy, QuotaRules, Reserve, Spec};
use pinfold_logs::Keep;
use pinfold_server::http::{Housekeeping, ServerConfig};
use pinfold_server::{BucketPlace, FlagRules, KeepKeys, ObjectsPlace, Rules};

use super::load::{Loaded, SettingsError};
use super::profiles::key_of;
use super::values::Time;
use super::{AgentSettings, ProfileSettings};

const DAY_MS: u64 = 86_400_000;
const LARGEST_POOL: u64 = 1_000;
/// What ended a moment ago is looked at most.
const LEAST_STALE_MS: u64 = 1_200_000;
/// In a table of quotas: whatever is not named.
const EVERY_OTHER: &str = "*";

impl Loaded {
    pub(super) fn refused(&self, field: &str, why: impl Into<String>) -> SettingsError {
        SettingsError::Value { field: field.into(), why: why.into(), origin: self.provenance.told(field) }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        self.check_times()?;
        let logs = &self.settings.logs;
        if logs.access_key_id.is_some() != logs.secret_access_key.is_some() {
            let why = "`access_key_id` and `secret_access_key` go together; set both or none";
            return Err(self.refused("logs.secret_access_key", why));
        }
        self.cleanup()?;
        self.alerts()?;
        self.telemetry()?;
        if let Some(given) = self.settings.admission.stale_after
            && given.0 < LEAST_STALE_MS
        {
            let why = format!(
                "{given} is not allowed; what is younger than {} is never stale",
                Time(LEAST_STALE_MS)
            );
            return Err(self.refused("admission.stale_after", why));
        }
        let profiles = self.profiles()?;
        self.plans(&profiles).map(drop)
    }

    fn check_times(&self) -> Result<(), SettingsError> {
        let settings = &self.settings;
        let (sandboxes, engine, kept) = (&settings.sandboxes, &settings.engine, &settings.retention);
        let ranges = [
            ("retention.records", kept.records, 1_000, 3_650 * DAY_MS),
            ("retention.history", kept.history, 1_000, 3_650 * DAY_MS),
            ("retention.keys", kept.keys, 1_000, 3_650 * DAY_MS),
            ("retention.logs", kept.logs, 1_000, 3_650 * DAY_MS),
            ("retention.artifacts", kept.artifacts, 1_000, 3_650 * DAY_MS),
            ("retention.metrics", kept.metrics, 1_000, 3_650 * DAY_MS),
            ("sandboxes.start", sandboxes.start, 1_000, DAY_MS),
            ("sandboxes.grace", sandboxes.grace, 0, 3_600_000),
            ("sandboxes.stop_attempt", sandboxes.stop_attempt, 1_000, 3_600_000),
            ("sandboxes.probe", sandboxes.probe, 100, 600_000),
            ("sandboxes.probe_every", sandboxes.probe_every, 1_000, DAY_MS),
            ("sandboxes.evidence", sandboxes.evidence, 1_000, DAY_MS),
            ("sandboxes.unhealthy_age", sandboxes.unhealthy_age, 1_000, 30 * DAY_MS),
            ("sandboxes.queued", sandboxes.queued, 100, DAY_MS),
            ("sandboxes.idle", sandboxes.idle, 1_000, 30 * DAY_MS),
            ("sandboxes.max_life", sandboxes.max_life, 1_000, 30 * DAY_MS),
            ("engine.poll", engine.poll, 1, 10_000),
            ("engine.heartbeat", engine.heartbeat, 100, 60_000),
            ("engine.dead_after", engine.dead_after, 1_000, 3_600_000),
            ("engine.reconcile_every", engine.reconcile_every, 1_000, DAY_MS),
            ("flags.stuck", settings.flags.stuck, 1_000, 30 * DAY_MS),
            ("flags.long_running", settings.flags.long_running, 1_000, 30 * DAY_MS),
            ("warm.life", settings.warm.life, 10_000, DAY_MS),
        ];
        for (field, given, least, most) in ranges {
            self.check_range(field, given, least, most)?;
        }
        let orders = [
            ("sandboxes.idle", sandboxes.idle, "sandboxes.max_life", sandboxes.max_life),
            ("sandboxes.probe_every", sandboxes.probe_every, "sandboxes.evidence", sandboxes.evidence),
            ("engine.heartbeat", engine.heartbeat, "engine.dead_after", engine.dead_after),
            ("retention.records", kept.records, "retention.history", kept.history),
        ];
        for (field, given, beyond, limit) in orders {
            if given > limit {
                let why = format!("{given} is longer than `{beyond}`, which is {limit}; change one of them");
                return Err(self.refused(field, why));
            }
        }
        Ok(())
    }

    pub(super) fn check_range(
        &self,
        field: &str,
        given: Time,
        least: u64,
        most: u64,
    ) -> Result<(), SettingsError> {
        if (least..=most).contains(&given.0) {
            return Ok(());
        }
        let allowed = format!("allowed is from {} to {}", Time(least), Time(most));
        Err(self.refused(field, format!("{given} is not allowed; {allowed}")))
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
            side_by_side: sandboxes.side_by_side.get(),
            queue_length: sandboxes.queue_length,
            jobs: sandboxes.jobs,
            ..Policy::default()
        }
    }

    fn profiles(&self) -> Result<Profiles, SettingsError> {
        let mut profiles = Profiles::default();
        let AgentSettings { timeout, inactivity } = self.settings.agents;
        let of_all = ProfileSettings { timeout, inactivity, ..ProfileSettings::default() };
        for (name, agent) in Profiles::default().iter().filter(|(_, profile)| profile.is_agent) {
            profiles.put(name, self.applied("agents", &of_all, agent)?);
        }
        for (name, wanted) in &self.settings.profiles {
            let begun_from = self.begun_from(&profiles, name, wanted)?;
            profiles.put(name, self.applied(&format!("profiles.{name}"), wanted, &begun_from)?);
        }
        Ok(profiles)
    }

    fn applied(&self, at: &str, wanted: &ProfileSettings, to: &Profile) -> Result<Profile, SettingsError> {
        wanted.applied_to(to, &self.policy()).map_err(|error| {
            let (BadLimit::OutOfRange { field, .. } | BadLimit::LongerThan { field, .. }) = error;
            let told = error.to_string();
            let why = told.split_once(": ").map_or(told.as_str(), |(_, why)| why);
            self.refused(&format!("{at}.{}", key_of(field)), why)
        })
    }

    /// A type that there is begins as it is built in; another has to say which one it is like, so that a slip of the
    /// pen is none.
    fn begun_from(
        &self,
        profiles: &Profiles,
        name: &str,
        wanted: &ProfileSettings,
    ) -> Result<Profile, SettingsError> {
        let at = format!("profiles.{name}");
        let unknown = |error: UnknownProfile| self.refused(&at, error.to_string());
        match (&wanted.like, profiles.named(name)) {
            (None, Ok((_, built_in))) => Ok(*built_in),
            (None, Err(error)) => {
                let why = format!("{error}; a new one says which it begins from, as in `like = \"default\"`");
                Err(self.refused(&at, why))
            }
            (Some(_), _) if !is_plain(name) => {
                Err(self.refused(&at, "1 to 64 letters, digits, `_` and `-` are allowed"))
            }
            (Some(like), _) => {
                let (_, like) = profiles.named(like).map_err(unknown)?;
                Ok(Profile { is_agent: true, ..*like })
            }
        }
    }

    fn plans(&self, profiles: &Profiles) -> Result<Vec<PoolPlan>, SettingsError> {
        let plan = |(name, size): (&String, &u64)| {
            let at = format!("warm.sizes.{name}");
            let (_, profile) = profiles.named(name).map_err(|error| self.refused(&at, error.to_string()))?;
            if *size > LARGEST_POOL {
                let why = format!("{size} is not allowed; allowed is from 0 to {LARGEST_POOL}");
                return Err(self.refused(&at, why));
            }
            let shape = Spec { limits: profile.limits, ..Spec::default() }.shape();
            Ok(PoolPlan { shape, policy: self.policy(), size: *size })
        };
        self.settings.warm.sizes.iter().map(plan).collect()
    }

    /// For a server. A command that works without one leaves the pool alone.
    pub(crate) fn engine(&self) -> Result<EngineConfig, SettingsError> {
        let pool = self.plans(&self.profiles()?)?;
        Ok(EngineConfig { pool, ..self.engine_of_command() })
    }

    pub(crate) fn engine_of_command(&self) -> EngineConfig {
        let (engine, admission) = (&self.settings.engine, &self.settings.admission);
        EngineConfig {
            // What cannot be was refused when it was read.
            cleanup: self.cleanup().unwrap_or_default(),
            admission: AdmissionLimits {
                sandboxes: self.places(),
                memory_mb: admission.memory_mb.map(Into::into),
                disk_mb: admission.disk_mb.map(Into::into),
                processes: admission.processes.map(Into::into),
            },
            quotas: self.quotas(),
            keep: Reserve {
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
            questions: engine.questions.get(),
            pool_life_ms: self.settings.warm.life.0,
            pool_launches: self.settings.warm.launches.get(),
            ..EngineConfig::default()
        }
    }

    /// Sandboxes at one time. None: as many as there is room for.
    fn places(&self) -> Option<u64> {
        let given = self.settings.admission.sandboxes.unwrap_or_else(|| self.machine.sandboxes());
        (given > 0).then_some(given)
    }

    fn quotas(&self) -> QuotaRules {
        let apart = |given: &BTreeMap<String, u64>| {
            let mut named = given.clone();
            let each = named.remove(EVERY_OTHER);
            (named, each)
        };
        let (tokens, each_token) = apart(&self.settings.admission.tokens);
        let labels = self.settings.admission.labels.iter().map(|(name, given)| {
            let (values, each_value) = apart(given);
            (name.clone(), LabelQuotas { values, each_value })
        });
        QuotaRules { tokens, each_token, labels: labels.collect() }
    }

    /// When the disk is short, logs go that are as old.
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
            wrong_tokens: requests.wrong_tokens,
            housekeeping: Housekeeping::keeping(self.keep()),
            keep_figures: Duration::from_millis(self.settings.retention.metrics.0),
            // What cannot be was refused when it was read.
            telemetry: self.telemetry().unwrap_or_default(),
        }
    }

    /// How long logs and artifacts are kept.
    pub(crate) fn keep(&self) -> Keep {
        let kept = &self.settings.retention;
        Keep { logs_ms: kept.logs.0, artifacts_ms: kept.artifacts.0 }
    }

    pub(crate) fn rules(&self) -> Result<Rules, SettingsError> {
        Ok(Rules {
            profiles: self.profiles()?,
            policy: self.policy(),
            alerts: self.alerts()?,
            keep_keys: KeepKeys { ms: self.settings.retention.keys.0 },
            flags: FlagRules {
                stuck_ms: self.settings.flags.stuck.0,
                long_running_ms: self.settings.flags.long_running.0,
            },
        })
    }

    pub(crate) fn objects(&self) -> ObjectsPlace {
        let logs = &self.settings.logs;
        let Some(name) = logs.bucket.clone() else {
            return ObjectsPlace::Directory(logs.directory.clone());
        };
        let secret = logs.secret_access_key.as_ref().map(|secret| secret.0.clone());
        ObjectsPlace::Bucket(BucketPlace {
            name,
            endpoint: logs.endpoint.clone(),
            region: logs.region.clone(),
            prefix: logs.prefix.clone(),
            keys: logs.access_key_id.clone().zip(secret),
        })
    }
}

/// As a type of agent may be called.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}
