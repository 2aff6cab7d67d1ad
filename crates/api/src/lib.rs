//! What goes over the wire between Pinfold and those who use it: JSON in snake_case, moments in RFC 3339 UTC, ids with
//! a prefix. Requests refuse fields they do not know. These types are a promise; what they mean is decided elsewhere.

mod agent;
mod alert;
mod audit;
mod cause;
mod cleanup;
mod error;
mod event;
mod examination;
mod execution;
mod files;
mod health;
mod image;
mod log;
mod metrics;
mod object;
mod output;
mod queue;
mod receipt;
mod resources;
mod run;
mod sandbox;
mod terminal;
mod token;

pub use agent::{
    AgentContext, AgentFile, AgentLinks, AgentRequest, AgentRun, Artifact, ArtifactState, Attempt,
    DescribedFile,
};
pub use alert::{
    ActiveAlert, Alert, AlertContext, AlertDeliveries, AlertDelivery, AlertDeliveryState, AlertEntry,
    AlertEvent, AlertFiring, AlertHistory, AlertImpact, AlertList, AlertNotice, AlertPace, AlertSeverity,
    AlertSilence, AlertState, AlertSubject, AlertTest, AlertTestResult, SilenceAlert,
};
pub use audit::{AuditEntry, AuditPage, BodyRef, Comparison, StatusDisagreement};
pub use cause::Cause;
pub use cleanup::{
    CleanupEnded, CleanupFailed, CleanupFound, CleanupKept, CleanupLayer, CleanupOutcome, CleanupReason,
    CleanupResult, CleanupRun, CleanupTurn, KeptReason, ResourceLevel,
};
pub use error::{ErrorBody, ErrorCode, ErrorDetail};
pub use event::{Event, EventPage};
pub use examination::{Due, Examination, Probe, Trouble, TroubleKind};
pub use execution::{
    ExecRequest, ExecResult, Execution, ExecutionState, SignalRequest, StdinAnswer, StdinRequest,
};
pub use files::{FileEntry, FileKind, FileListing, FileRemoved, FileWritten};
pub use health::{Health, HealthPart, HealthState, ProbeResult, ProbeState};
pub use image::{Image, ImageRemoved};
pub use log::{LogEntry, LogHint, LogPage, LogSource};
pub use metrics::{
    AgeMetrics, AgentTypeMetrics, CleanupMetrics, HealthMetrics, Indicator, Latencies, Metrics,
    MetricsHistory, MetricsOverview, MetricsPoint, Percentiles, RateMetrics, UtilisationMetrics,
};
pub use object::object;
pub use output::{Output, OutputEvent, OutputPage, ServerSentEvent};
pub use queue::{CreatePending, QueuePlace, QueueState};
pub use receipt::{Attestation, Check, Finding, Receipt, Used};
pub use resources::{Resources, Verdict};
pub use run::RunRequest;
pub use sandbox::{
    Ages, CreateSandbox, Deadlines, Lease, LeaseState, Limits, LimitsWish, Links, Quotas, Sandbox,
    SandboxSummary, State, Stats, Status, StopPending,
};
pub use terminal::{TerminalRead, TerminalSaying, TerminalSize};
pub use token::{NewToken, Role, Token, TokenCreated};

/// How the next page of a list is asked for: what this header says goes into `?cursor=`.
pub const NEXT_CURSOR: &str = "x-next-cursor";
/// On every answer, and in every line of the server's log about it.
pub const REQUEST_ID: &str = "x-request-id";
/// On the answer to a request to run a command, before its output.
pub const EXECUTION_ID: &str = "x-execution-id";
/// On the answer to a request to run a command in a sandbox of its own: that sandbox.
pub const SANDBOX_ID: &str = "x-sandbox-id";
/// On the content of a file: its permissions in octal.
pub const FILE_MODE: &str = "x-file-mode";
/// A create with the same key and the same wish gives the same sandbox.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
