//! The wire types of Pinfold's HTTP API: JSON in snake_case, RFC 3339 UTC timestamps, prefixed ids. Requests refuse
//! unknown fields. The types hold no logic; [`rfc3339`] spells their timestamps, and [`server_proof`] is the proof that a server
//! knows a token.
//!
//! Main types: [`CreateSandbox`], [`Sandbox`] and [`SandboxSummary`]; [`ExecRequest`] and [`ExecResult`];
//! [`AgentRequest`] and [`AgentRun`]; [`Receipt`]; [`ErrorBody`] with [`ErrorCode`]; [`Health`], [`Metrics`] and
//! [`Alert`].

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
mod proof;
mod queue;
mod receipt;
mod resources;
mod run;
mod sandbox;
mod terminal;
mod time;
mod token;

pub use agent::{
    AgentContext, AgentFile, AgentLinks, AgentRequest, AgentRun, Artifact, ArtifactState, Attempt,
    DescribedFile,
};
pub use alert::{
    ActiveAlert, Alert, AlertContext, AlertDeliveries, AlertDelivery, AlertDeliveryState, AlertEntry,
    AlertEvent, AlertFiring, AlertHistory, AlertImpact, AlertLatency, AlertList, AlertNotice, AlertSeverity,
    AlertSilence, AlertState, AlertSubject, AlertTest, AlertTestResult, SilenceAlert,
};
pub use audit::{AuditEntry, AuditPage, ConsistencyReport, InstanceRef, StatusDisagreement};
pub use cause::Cause;
pub use cleanup::{
    CleanupEnded, CleanupFailed, CleanupFound, CleanupKept, CleanupLayer, CleanupOutcome, CleanupReason,
    CleanupResult, CleanupRun, CleanupSchedule, KeptReason, ResourceLevel,
};
pub use error::{ErrorBody, ErrorCode, ErrorDetail};
pub use event::{Event, EventPage};
pub use examination::{Examination, Probe, Trouble, TroubleKind, UpcomingDeadline};
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
pub use proof::{PROOF_PATH, ProofAnswer, ProofRequest, hex, server_proof, token_hash, token_id};
pub use queue::{CreatePending, QueueEntry, QueueState};
pub use receipt::{Attestation, Check, Finding, Receipt, ResourceUsage};
pub use resources::{Resources, Verdict};
pub use run::RunRequest;
pub use sandbox::{
    Ages, CreateSandbox, Deadlines, Lease, LeaseState, Limits, LimitsRequest, Links, Quotas, Sandbox,
    SandboxSummary, State, Stats, Status, StopPending,
};
pub use terminal::{TerminalControl, TerminalPosition, TerminalSize};
pub use time::rfc3339;
pub use token::{NewToken, Role, Token, TokenCreated};

/// The cursor of the next page: pass it as `?cursor=`.
pub const NEXT_CURSOR: &str = "x-next-cursor";
/// The request id, in every response and in every log line about the request.
pub const REQUEST_ID: &str = "x-request-id";
/// The execution id, in the response to an exec or run request.
pub const EXECUTION_ID: &str = "x-execution-id";
/// The sandbox id, in the response to a run request.
pub const SANDBOX_ID: &str = "x-sandbox-id";
/// The permissions of a file in octal, in the response with its content.
pub const FILE_MODE: &str = "x-file-mode";
/// The idempotency key of a create: the same key with the same request returns the same sandbox.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
