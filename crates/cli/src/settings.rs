//! What can be decided about a server: one struct, from which the file, the variables of the environment, the template
//! and `docs/configuration.md` follow. `settings/load.rs` reads it, `settings/parts.rs` makes of it what the crates
//! below take.

mod alerts;
mod cleanup;
mod load;
mod machine;
mod parts;
mod profiles;
mod provenance;
#[cfg(test)]
mod reference;
mod telemetry;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use confique::Config;

pub(crate) use alerts::AlertSettings;
pub(crate) use cleanup::CleanupSettings;
pub(crate) use load::{Loaded, SettingsError, load};
pub(crate) use profiles::ProfileSettings;
pub(crate) use provenance::{Origin, Shown};
pub(crate) use telemetry::TelemetrySettings;
pub(crate) use values::{Fate, LogFormat, Secret, Time};

/// The file in the data directory that is read when no other is named.
pub(crate) const FILE: &str = "pinfold.toml";

/// Times are seconds or carry a unit (`500ms`, `90s`, `5m`, `1h`, `1d`); sizes are MiB.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct Settings {
    #[config(nested)]
    pub(crate) server: ServerSettings,
    #[config(nested)]
    pub(crate) requests: RequestSettings,
    #[config(nested)]
    pub(crate) admission: AdmissionSettings,
    #[config(nested)]
    pub(crate) retention: RetentionSettings,
    #[config(nested)]
    pub(crate) logs: LogSettings,
    #[config(nested)]
    pub(crate) sandboxes: SandboxSettings,
    #[config(nested)]
    pub(crate) engine: EngineSettings,
    #[config(nested)]
    pub(crate) cleanup: CleanupSettings,
    #[config(nested)]
    pub(crate) flags: FlagSettings,
    #[config(nested)]
    pub(crate) warm: WarmSettings,
    #[config(nested)]
    pub(crate) agents: AgentSettings,
    #[config(nested)]
    pub(crate) alerts: AlertSettings,
    #[config(nested)]
    pub(crate) telemetry: TelemetrySettings,
    /// What sandboxes of one type of agent get otherwise than is built in: a table for each, such as
    /// `[profiles.IMPLEMENTATION]` with `memory_mb = 2048`. A type of your own says which one it begins from, as in
    /// `[profiles.REVIEW]` with `like = "VALIDATION"`. `pinfold config show` lists all types and their keys.
    #[config(default = {})]
    pub(crate) profiles: BTreeMap<String, ProfileSettings>,
}

/// Where the server is, and how it ends.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct ServerSettings {
    /// The address to listen on.
    #[config(default = "127.0.0.1:7463", env = "PINFOLD_LISTEN")]
    pub(crate) listen: SocketAddr,
    /// Listen on an address that others can reach, although tokens then travel unencrypted.
    #[config(default = false, env = "PINFOLD_WITHOUT_TLS")]
    pub(crate) without_tls: bool,
    /// The chain of certificates to show, in PEM, and its key: with both, everything is encrypted. A renewed one is
    /// shown after a restart, which ends no sandbox.
    #[config(env = "PINFOLD_TLS_CERTIFICATE")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[config(env = "PINFOLD_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Names by which this server is reached, besides `localhost` and addresses; with commas between them in the
    /// environment.
    #[config(default = [], env = "PINFOLD_NAMES", parse_env = confique::env::parse::list_by_comma)]
    pub(crate) names: Vec<String>,
    /// What becomes of sandboxes when the server ends: `keep` hands them over to the next one, `stop` ends them.
    #[config(default = "keep", env = "PINFOLD_ON_EXIT")]
    pub(crate) on_exit: Fate,
    /// What is logged, such as `info`, `warn` or `pinfold_engine=debug`.
    #[config(default = "info", env = "PINFOLD_LOG")]
    pub(crate) log: String,
    /// How the log on standard error is written: `text` or `json`.
    #[config(default = "text", env = "PINFOLD_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
}

/// What is taken of those who ask.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct RequestSettings {
    /// Requests of one token in a second.
    #[config(default = 1000, env = "PINFOLD_REQUESTS_RATE")]
    pub(crate) rate: NonZeroU32,
    /// Requests of one token at once.
    #[config(default = 2000, env = "PINFOLD_REQUESTS_BURST")]
    pub(crate) burst: NonZeroU32,
    /// Connections at once.
    #[config(default = 4096, env = "PINFOLD_REQUESTS_CONNECTIONS")]
    pub(crate) connections: NonZeroUsize,
    /// Wrong tokens from one address in a minute. Whoever shows a right one is let in all the same.
    #[config(default = 300, env = "PINFOLD_REQUESTS_WRONG_TOKENS")]
    pub(crate) wrong_tokens: NonZeroU32,
}

/// How much all sandboxes together may take, those included that are not yet proven gone, and what stays free on the
/// host. What is not set is not limited, but for the number of sandboxes.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct AdmissionSettings {
    /// Sandboxes. Not set: one for every 16 MiB of this machine's memory, and no fewer than 10. 0: they are not limited.
    #[config(env = "PINFOLD_ADMISSION_SANDBOXES")]
    pub(crate) sandboxes: Option<u64>,
    /// The sum of their memory limits, in MiB.
    #[config(env = "PINFOLD_ADMISSION_MEMORY_MB")]
    pub(crate) memory_mb: Option<NonZeroU64>,
    /// The sum of their disk limits, in MiB.
    #[config(env = "PINFOLD_ADMISSION_DISK_MB")]
    pub(crate) disk_mb: Option<NonZeroU64>,
    /// The sum of their process limits.
    #[config(env = "PINFOLD_ADMISSION_PROCESSES")]
    pub(crate) processes: Option<NonZeroU64>,
    /// Sandboxes of one token, by its name: `{ ci = 20, "*" = 5 }`, where `*` is every other token for itself.
    #[config(default = {})]
    pub(crate) tokens: BTreeMap<String, u64>,
    /// Sandboxes with one value of a label: a table for each label, such as `[admission.labels.team]` with `red = 10`
    /// and `"*" = 3`, where `*` is every other value for itself.
    #[config(default = {})]
    pub(crate) labels: BTreeMap<String, BTreeMap<String, u64>>,
    /// Disk of the host that stays free, in MiB: with less, nobody is let in. 0: it is not looked at.
    #[config(default = 512, env = "PINFOLD_ADMISSION_KEEP_DISK_MB")]
    pub(crate) keep_disk_mb: u64,
    /// Memory of the host that stays free, in MiB, as the kernel reckons what is available. 0: it is not looked at.
    #[config(default = 64, env = "PINFOLD_ADMISSION_KEEP_MEMORY_MB")]
    pub(crate) keep_memory_mb: u64,
    /// Processes and threads that the host can still make. 0: it is not looked at.
    #[config(default = 256, env = "PINFOLD_ADMISSION_KEEP_PROCESSES")]
    pub(crate) keep_processes: u64,
    /// When the disk is short, logs of sandboxes that are proven gone for so long go before their time. Not set: only
    /// what is past its retention goes.
    #[config(env = "PINFOLD_ADMISSION_STALE_AFTER")]
    pub(crate) stale_after: Option<Time>,
}

/// How long what has ended can still be looked at.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct RetentionSettings {
    /// Records of ended sandboxes.
    #[config(default = "1d", env = "PINFOLD_RETENTION_RECORDS")]
    pub(crate) records: Time,
    /// The history of what happened.
    #[config(default = "7d", env = "PINFOLD_RETENTION_HISTORY")]
    pub(crate) history: Time,
    /// What an idempotency key was used for: a request that is repeated within this time is the same request.
    #[config(default = "1d", env = "PINFOLD_RETENTION_KEYS")]
    pub(crate) keys: Time,
    /// Logs.
    #[config(default = "7d", env = "PINFOLD_RETENTION_LOGS")]
    pub(crate) logs: Time,
    /// Artifacts of agent runs.
    #[config(default = "7d", env = "PINFOLD_RETENTION_ARTIFACTS")]
    pub(crate) artifacts: Time,
    /// Figures over time: by the minute for a day at the most, by the quarter of an hour for as long as this. Whole days of
    /// them go to the archive then, and stay there.
    #[config(default = "7d", env = "PINFOLD_RETENTION_METRICS")]
    pub(crate) metrics: Time,
}

/// Where logs go after their sandboxes, and artifacts: a directory, or a bucket of a store that speaks S3.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct LogSettings {
    /// The directory. A relative path begins at the data directory.
    #[config(default = "objects", env = "PINFOLD_LOGS_DIRECTORY")]
    pub(crate) directory: PathBuf,
    /// The bucket, which then takes the directory's place. The program has to be built with `--features s3`.
    #[config(env = "PINFOLD_LOGS_BUCKET")]
    pub(crate) bucket: Option<String>,
    /// The address of the store, unless it is Amazon's own.
    #[config(env = "PINFOLD_LOGS_ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    #[config(env = "PINFOLD_LOGS_REGION")]
    pub(crate) region: Option<String>,
    /// What every name in the bucket begins with.
    #[config(default = "", env = "PINFOLD_LOGS_PREFIX")]
    pub(crate) prefix: String,
    /// Without it, `AWS_ACCESS_KEY_ID` and the other names that all programs use hold.
    #[config(env = "PINFOLD_LOGS_ACCESS_KEY_ID")]
    pub(crate) access_key_id: Option<String>,
    #[config(env = "PINFOLD_LOGS_SECRET_ACCESS_KEY")]
    pub(crate) secret_access_key: Option<Secret>,
}

/// What holds for each sandbox, from its start to its end. Fixed when it is created.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct SandboxSettings {
    /// From the wish for a sandbox to one that passed its probes.
    #[config(default = "60s", env = "PINFOLD_SANDBOXES_START")]
    pub(crate) start: Time,
    /// From SIGTERM to SIGKILL.
    #[config(default = "5s", env = "PINFOLD_SANDBOXES_GRACE")]
    pub(crate) grace: Time,
    /// One attempt to stop.
    #[config(default = "45s", env = "PINFOLD_SANDBOXES_STOP_ATTEMPT")]
    pub(crate) stop_attempt: Time,
    /// Attempts to stop before quarantine.
    #[config(default = 5, env = "PINFOLD_SANDBOXES_STOP_ATTEMPTS")]
    pub(crate) stop_attempts: NonZeroU32,
    /// One probe.
    #[config(default = "5s", env = "PINFOLD_SANDBOXES_PROBE")]
    pub(crate) probe: Time,
    /// Between two routine probes.
    #[config(default = "15s", env = "PINFOLD_SANDBOXES_PROBE_EVERY")]
    pub(crate) probe_every: Time,
    /// How long a passed probe proves that a sandbox is ready.
    #[config(default = "30s", env = "PINFOLD_SANDBOXES_EVIDENCE")]
    pub(crate) evidence: Time,
    /// An unhealthy sandbox is ended once it is this old, and flagged before.
    #[config(default = "10m", env = "PINFOLD_SANDBOXES_UNHEALTHY_AGE")]
    pub(crate) unhealthy_age: Time,
    /// From the wish for an execution to its first instruction.
    #[config(default = "30s", env = "PINFOLD_SANDBOXES_QUEUED")]
    pub(crate) queued: Time,
    /// A sandbox in which nothing ran for so long is ended.
    #[config(default = "10m", env = "PINFOLD_SANDBOXES_IDLE")]
    pub(crate) idle: Time,
    /// A sandbox is ended at this age, whatever it does.
    #[config(default = "1d", env = "PINFOLD_SANDBOXES_MAX_LIFE")]
    pub(crate) max_life: Time,
    /// Executions side by side in one sandbox; further ones wait.
    #[config(default = 16, env = "PINFOLD_SANDBOXES_SIDE_BY_SIDE")]
    pub(crate) side_by_side: NonZeroU32,
    /// Executions that may wait in one sandbox.
    #[config(default = 64, env = "PINFOLD_SANDBOXES_QUEUE_LENGTH")]
    pub(crate) queue_length: u32,
    /// Background jobs in one sandbox.
    #[config(default = 64, env = "PINFOLD_SANDBOXES_JOBS")]
    pub(crate) jobs: u32,
}

/// How the engine itself behaves.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct EngineSettings {
    /// How long a change by another process may go unnoticed.
    #[config(default = "100ms", env = "PINFOLD_ENGINE_POLL")]
    pub(crate) poll: Time,
    /// Between two signs of life in the store.
    #[config(default = "2s", env = "PINFOLD_ENGINE_HEARTBEAT")]
    pub(crate) heartbeat: Time,
    /// A process on another host without a sign of life for so long counts as dead.
    #[config(default = "10s", env = "PINFOLD_ENGINE_DEAD_AFTER")]
    pub(crate) dead_after: Time,
    /// Between two comparisons of what is recorded with what is there.
    #[config(default = "60s", env = "PINFOLD_ENGINE_RECONCILE_EVERY")]
    pub(crate) reconcile_every: Time,
    /// Launches at one time.
    #[config(default = 16, env = "PINFOLD_ENGINE_LAUNCHES")]
    pub(crate) launches: NonZeroUsize,
    /// Stops at one time.
    #[config(default = 1024, env = "PINFOLD_ENGINE_STOPS")]
    pub(crate) stops: NonZeroUsize,
    /// Other questions to sandboxes at one time.
    #[config(default = 64, env = "PINFOLD_ENGINE_QUESTIONS")]
    pub(crate) questions: NonZeroUsize,
}

/// When a list of sandboxes points at one of them. That ends nothing.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct FlagSettings {
    /// A sandbox that is older is flagged as `stuck`.
    #[config(default = "10m", env = "PINFOLD_FLAGS_STUCK")]
    pub(crate) stuck: Time,
    /// One in which something has run for longer is flagged as `long_running`.
    #[config(default = "5m", env = "PINFOLD_FLAGS_LONG_RUNNING")]
    pub(crate) long_running: Time,
}

/// Sandboxes that are made ahead of need.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct WarmSettings {
    /// How many of which type wait, such as `{ default = 4, IMPLEMENTATION = 2 }`. They are made from the image
    /// `host` and count for admission.
    #[config(default = {})]
    pub(crate) sizes: BTreeMap<String, u64>,
    /// One that nobody was given ends at this age.
    #[config(default = "30m", env = "PINFOLD_WARM_LIFE")]
    pub(crate) life: Time,
    /// Of one type, so many are made at one time.
    #[config(default = 2, env = "PINFOLD_WARM_LAUNCHES")]
    pub(crate) launches: NonZeroUsize,
}

/// What holds for every type of agent, where its own table under `profiles` does not say otherwise. What is not set is
/// as each type has it.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct AgentSettings {
    /// The longest that one run may take.
    #[config(env = "PINFOLD_AGENTS_TIMEOUT")]
    pub(crate) timeout: Option<Time>,
    /// The longest that a run may write nothing.
    #[config(env = "PINFOLD_AGENTS_INACTIVITY")]
    pub(crate) inactivity: Option<Time>,
}
