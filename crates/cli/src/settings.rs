//! Settings of a server: one struct that defines the configuration file, the environment variables, the template and
//! `docs/configuration.md`. `settings/load.rs` reads them, `settings/convert.rs` converts them to the configuration of
//! the other crates.

mod alerts;
mod bounds;
mod cleanup;
mod convert;
mod environment;
mod file;
mod load;
mod machine;
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
pub(crate) use provenance::{Origin, ShownSetting};
pub(crate) use telemetry::TelemetrySettings;
pub(crate) use values::{ExitAction, LogFormat, Secret, Time};

/// Name of the configuration file in the data directory.
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
    /// Limits by agent type that differ from the built-in ones: one table per type, such as
    /// `[profiles.IMPLEMENTATION]` with `memory_mb = 2048`. A new type names the type it is based on, as in
    /// `[profiles.REVIEW]` with `like = "VALIDATION"`. `pinfold config show` lists all types and their keys.
    #[config(default = {})]
    pub(crate) profiles: BTreeMap<String, ProfileSettings>,
}

/// Address, TLS, log and shutdown of the server.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct ServerSettings {
    /// Address to listen on.
    #[config(default = "127.0.0.1:7463", env = "PINFOLD_LISTEN")]
    pub(crate) listen: SocketAddr,
    /// Allow an address that other hosts can reach without TLS; tokens are then sent unencrypted.
    #[config(default = false, env = "PINFOLD_WITHOUT_TLS")]
    pub(crate) without_tls: bool,
    /// TLS certificate chain in PEM; needs `tls_key` too. A renewed certificate takes effect after a restart, which
    /// stops no sandbox.
    #[config(env = "PINFOLD_TLS_CERTIFICATE")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[config(env = "PINFOLD_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host names of this server, besides `localhost` and IP addresses; separated by commas in the
    /// environment.
    #[config(default = [], env = "PINFOLD_NAMES", parse_env = confique::env::parse::list_by_comma)]
    pub(crate) names: Vec<String>,
    /// What happens to sandboxes when the server ends: `keep` leaves them to the next server, `stop` stops them.
    #[config(default = "keep", env = "PINFOLD_ON_EXIT")]
    pub(crate) on_exit: ExitAction,
    /// Log filter, such as `info`, `warn` or `pinfold_engine=debug`.
    #[config(default = "info", env = "PINFOLD_LOG")]
    pub(crate) log: String,
    /// Format of the log on standard error: `text` or `json`.
    #[config(default = "text", env = "PINFOLD_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
}

/// Limits of HTTP requests and connections.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct RequestSettings {
    /// Requests per second of one token.
    #[config(default = 1000, env = "PINFOLD_REQUESTS_RATE")]
    pub(crate) rate: NonZeroU32,
    /// Burst of requests of one token.
    #[config(default = 2000, env = "PINFOLD_REQUESTS_BURST")]
    pub(crate) burst: NonZeroU32,
    /// Simultaneous connections that have shown a valid token, terminals included.
    #[config(default = 4096, env = "PINFOLD_REQUESTS_CONNECTIONS")]
    pub(crate) connections: NonZeroUsize,
    /// Further connections that have shown no valid token. A newer one replaces the oldest.
    #[config(default = 1024, env = "PINFOLD_REQUESTS_CONNECTIONS_WITHOUT_TOKEN")]
    pub(crate) connections_without_token: NonZeroUsize,
    /// How many of those may come from one address (IPv6: from one network of 64 bits).
    #[config(default = 256, env = "PINFOLD_REQUESTS_CONNECTIONS_PER_ADDRESS")]
    pub(crate) connections_per_address: NonZeroUsize,
    /// Time limit for a request head, and for the TLS handshake.
    #[config(default = "15s", env = "PINFOLD_REQUESTS_HEAD_TIMEOUT")]
    pub(crate) head_timeout: Time,
    /// How long a request body may bring nothing before it is answered with 408.
    #[config(default = "30s", env = "PINFOLD_REQUESTS_BODY_TIMEOUT")]
    pub(crate) body_timeout: Time,
    /// Wrong tokens per minute from one address; more are answered with 429. A valid token is still accepted.
    #[config(default = 300, env = "PINFOLD_REQUESTS_WRONG_TOKENS")]
    pub(crate) wrong_tokens: NonZeroU32,
}

/// Limits over all sandboxes, including those not yet proven gone, and what must stay free on the host. Except for the
/// number of sandboxes, a limit that is not set does not apply.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct AdmissionSettings {
    /// Number of sandboxes. Not set: one per 16 MiB of the machine's memory, at least 10. 0: no limit.
    #[config(env = "PINFOLD_ADMISSION_SANDBOXES")]
    pub(crate) sandboxes: Option<u64>,
    /// Sum of memory limits, in MiB.
    #[config(env = "PINFOLD_ADMISSION_MEMORY_MB")]
    pub(crate) memory_mb: Option<NonZeroU64>,
    /// Sum of disk limits, in MiB.
    #[config(env = "PINFOLD_ADMISSION_DISK_MB")]
    pub(crate) disk_mb: Option<NonZeroU64>,
    /// Sum of process limits.
    #[config(env = "PINFOLD_ADMISSION_PROCESSES")]
    pub(crate) processes: Option<NonZeroU64>,
    /// Sandboxes per token, by its name: `{ ci = 20, "*" = 5 }`, where `*` applies to each other token.
    #[config(default = {})]
    pub(crate) tokens: BTreeMap<String, u64>,
    /// Sandboxes per value of a label: one table per label, such as `[admission.labels.team]` with `red = 10`
    /// and `"*" = 3`, where `*` applies to each other value.
    #[config(default = {})]
    pub(crate) labels: BTreeMap<String, BTreeMap<String, u64>>,
    /// Free disk space of the host, in MiB, below which no sandbox is admitted. 0: not checked.
    #[config(default = 512, env = "PINFOLD_ADMISSION_KEEP_DISK_MB")]
    pub(crate) keep_disk_mb: u64,
    /// Available memory of the host (as the kernel reports it), in MiB, below which no sandbox is admitted. 0: not checked.
    #[config(default = 64, env = "PINFOLD_ADMISSION_KEEP_MEMORY_MB")]
    pub(crate) keep_memory_mb: u64,
    /// Processes and threads that the host can still create, below which no sandbox is admitted. 0: not checked.
    #[config(default = 256, env = "PINFOLD_ADMISSION_KEEP_PROCESSES")]
    pub(crate) keep_processes: u64,
    /// When disk space runs short, logs of sandboxes gone for this time are deleted before their retention ends. Not set:
    /// only logs past their retention are deleted.
    #[config(env = "PINFOLD_ADMISSION_STALE_AFTER")]
    pub(crate) stale_after: Option<Time>,
}

/// How long data of ended sandboxes is kept.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct RetentionSettings {
    /// Records of ended sandboxes.
    #[config(default = "1d", env = "PINFOLD_RETENTION_RECORDS")]
    pub(crate) records: Time,
    /// Events.
    #[config(default = "7d", env = "PINFOLD_RETENTION_HISTORY")]
    pub(crate) history: Time,
    /// Idempotency keys: a request repeated within this time is not executed again.
    #[config(default = "1d", env = "PINFOLD_RETENTION_KEYS")]
    pub(crate) keys: Time,
    /// Logs.
    #[config(default = "7d", env = "PINFOLD_RETENTION_LOGS")]
    pub(crate) logs: Time,
    /// Artifacts of agent runs.
    #[config(default = "7d", env = "PINFOLD_RETENTION_ARTIFACTS")]
    pub(crate) artifacts: Time,
    /// Metrics history: per minute for at most a day, per quarter of an hour for this time. Older days are moved to the
    /// archive and kept there.
    #[config(default = "7d", env = "PINFOLD_RETENTION_METRICS")]
    pub(crate) metrics: Time,
}

/// Where logs of ended sandboxes and artifacts are stored: a directory, or a bucket of an S3-compatible store.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct LogSettings {
    /// Directory. A relative path is relative to the data directory.
    #[config(default = "objects", env = "PINFOLD_LOGS_DIRECTORY")]
    pub(crate) directory: PathBuf,
    /// Bucket, used instead of the directory. Needs a program built with `--features s3`.
    #[config(env = "PINFOLD_LOGS_BUCKET")]
    pub(crate) bucket: Option<String>,
    /// Address of the store, unless it is Amazon S3.
    #[config(env = "PINFOLD_LOGS_ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    #[config(env = "PINFOLD_LOGS_REGION")]
    pub(crate) region: Option<String>,
    /// Prefix of every object name in the bucket.
    #[config(default = "", env = "PINFOLD_LOGS_PREFIX")]
    pub(crate) prefix: String,
    /// Access key. Not set: the standard variables such as `AWS_ACCESS_KEY_ID` are used.
    #[config(env = "PINFOLD_LOGS_ACCESS_KEY_ID")]
    pub(crate) access_key_id: Option<String>,
    #[config(env = "PINFOLD_LOGS_SECRET_ACCESS_KEY")]
    pub(crate) secret_access_key: Option<Secret>,
}

/// Timeouts and limits of each sandbox. They are fixed when the sandbox is created.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct SandboxSettings {
    /// Deadline of the start, from the create request to the passed probes.
    #[config(default = "60s", env = "PINFOLD_SANDBOXES_START")]
    pub(crate) start: Time,
    /// Grace period between SIGTERM and SIGKILL.
    #[config(default = "2s", env = "PINFOLD_SANDBOXES_GRACE")]
    pub(crate) grace: Time,
    /// Timeout of one stop attempt.
    #[config(default = "45s", env = "PINFOLD_SANDBOXES_STOP_ATTEMPT")]
    pub(crate) stop_attempt: Time,
    /// Stop attempts before the sandbox is quarantined.
    #[config(default = 5, env = "PINFOLD_SANDBOXES_STOP_ATTEMPTS")]
    pub(crate) stop_attempts: NonZeroU32,
    /// Timeout of one probe.
    #[config(default = "5s", env = "PINFOLD_SANDBOXES_PROBE")]
    pub(crate) probe: Time,
    /// Interval between routine probes.
    #[config(default = "15s", env = "PINFOLD_SANDBOXES_PROBE_EVERY")]
    pub(crate) probe_every: Time,
    /// How long a passed probe counts as evidence that the sandbox is ready.
    #[config(default = "30s", env = "PINFOLD_SANDBOXES_EVIDENCE")]
    pub(crate) evidence: Time,
    /// Age at which an unhealthy sandbox is stopped; a younger one is only flagged.
    #[config(default = "10m", env = "PINFOLD_SANDBOXES_UNHEALTHY_AGE")]
    pub(crate) unhealthy_age: Time,
    /// Deadline of an execution's start, from its request.
    #[config(default = "30s", env = "PINFOLD_SANDBOXES_QUEUED")]
    pub(crate) queued: Time,
    /// A sandbox in which nothing ran for this time is stopped.
    #[config(default = "10m", env = "PINFOLD_SANDBOXES_IDLE")]
    pub(crate) idle: Time,
    /// Age at which a sandbox is stopped, whatever it does.
    #[config(default = "1d", env = "PINFOLD_SANDBOXES_MAX_LIFE")]
    pub(crate) max_life: Time,
    /// Concurrent executions in one sandbox; further ones are queued.
    #[config(default = 16, env = "PINFOLD_SANDBOXES_CONCURRENT_EXECUTIONS")]
    pub(crate) concurrent_executions: NonZeroU32,
    /// Queued executions in one sandbox.
    #[config(default = 64, env = "PINFOLD_SANDBOXES_QUEUE_LENGTH")]
    pub(crate) queue_length: u32,
    /// Background jobs in one sandbox.
    #[config(default = 64, env = "PINFOLD_SANDBOXES_JOBS")]
    pub(crate) jobs: u32,
}

/// Intervals and concurrency of the engine.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct EngineSettings {
    /// Poll interval for changes by other processes.
    #[config(default = "100ms", env = "PINFOLD_ENGINE_POLL")]
    pub(crate) poll: Time,
    /// Interval between heartbeats in the store.
    #[config(default = "2s", env = "PINFOLD_ENGINE_HEARTBEAT")]
    pub(crate) heartbeat: Time,
    /// A process on another host without a heartbeat for this time counts as dead.
    #[config(default = "10s", env = "PINFOLD_ENGINE_DEAD_AFTER")]
    pub(crate) dead_after: Time,
    /// Interval between comparisons of records with instances.
    #[config(default = "60s", env = "PINFOLD_ENGINE_RECONCILE_EVERY")]
    pub(crate) reconcile_every: Time,
    /// Concurrent launches.
    #[config(default = 16, env = "PINFOLD_ENGINE_LAUNCHES")]
    pub(crate) launches: NonZeroUsize,
    /// Concurrent stops.
    #[config(default = 1024, env = "PINFOLD_ENGINE_STOPS")]
    pub(crate) stops: NonZeroUsize,
    /// Concurrent other calls to instances, such as probes and file requests.
    #[config(default = 64, env = "PINFOLD_ENGINE_INSTANCE_CALLS")]
    pub(crate) instance_calls: NonZeroUsize,
}

/// When the list of sandboxes flags one of them. A flag stops nothing.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct FlagSettings {
    /// An older sandbox is flagged as `old`.
    #[config(default = "10m", env = "PINFOLD_FLAGS_OLD")]
    pub(crate) old: Time,
    /// A sandbox with a longer-running execution is flagged as `long_running`.
    #[config(default = "5m", env = "PINFOLD_FLAGS_LONG_RUNNING")]
    pub(crate) long_running: Time,
}

/// The pool of sandboxes that are started ahead of requests.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct WarmSettings {
    /// Pool size by agent type, such as `{ default = 4, IMPLEMENTATION = 2 }`. Pooled sandboxes use the image
    /// `host` and count for admission.
    #[config(default = {})]
    pub(crate) sizes: BTreeMap<String, u64>,
    /// Age at which an unused pooled sandbox is stopped.
    #[config(default = "30m", env = "PINFOLD_WARM_LIFE")]
    pub(crate) life: Time,
    /// Concurrent launches per type.
    #[config(default = 2, env = "PINFOLD_WARM_LAUNCHES")]
    pub(crate) launches: NonZeroUsize,
}

/// Limits of every agent type, unless its own table under `profiles` sets them. A limit that is not set keeps the type's
/// own value.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct AgentSettings {
    /// Timeout of one run. `AGENT_MAX_WAIT_TIME_MS` sets it too, in milliseconds.
    #[config(env = "PINFOLD_AGENTS_TIMEOUT")]
    pub(crate) timeout: Option<Time>,
    /// Longest time that a run may write nothing; 0: no limit. `AGENT_INACTIVITY_TIMEOUT_MS` sets it too, in
    /// milliseconds.
    #[config(env = "PINFOLD_AGENTS_INACTIVITY")]
    pub(crate) inactivity: Option<Time>,
    /// How often a run is retried in a new instance after its instance failed. The exit code of the command is no reason.
    #[config(default = 3, env = "PINFOLD_AGENTS_RETRIES")]
    pub(crate) retries: u32,
    /// Wait before the first retry; each further wait is twice as long.
    #[config(default = "1s", env = "PINFOLD_AGENTS_RETRY_AFTER")]
    pub(crate) retry_after: Time,
}
