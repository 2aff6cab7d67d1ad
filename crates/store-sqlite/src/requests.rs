//! The write requests. The writer runs each in a savepoint of a transaction that it shares with others.

use std::collections::BTreeMap;

use pinfold_lifecycle::{AdmissionLimits, NodeId, QueueId, Timestamp, TokenId};
use rusqlite::Connection;

use crate::errors::WriteError;
use crate::totals::{TotalsRow, signed};
use crate::{alerts, audit_log, commit, create, metrics, pool, prune, queue, read, schedule, tokens};
use pinfold_store::{
    AlertChange, AuditRecord, Change, ClaimRun, CountBatch, Created, DeliveryClaim, DeliveryResult,
    NewQueueEntry, NewSandbox, Node, PoolClaim, Pruned, QueueOutcome, Retention, RunClaim, RunId, RunOutcome,
    Token, UnscheduledRun, Version,
};

/// A request to write.
#[derive(Debug)]
pub(crate) enum WriteRequest {
    Create { new: Box<NewSandbox>, limits: AdmissionLimits },
    FillPool { new: Box<NewSandbox>, size: u64, limits: AdmissionLimits },
    Claim(Box<PoolClaim>),
    Commit(Box<Change>),
    Heartbeat { node: Node, now: Timestamp },
    RemoveNode(NodeId),
    Prune { retention: Retention, limit: usize },
    AddToken(Box<Token>),
    RevokeToken { id: TokenId, at: Timestamp },
    AppendAudit(Vec<AuditRecord>),
    PlanJob { job: String, schedule: String, due_at: Timestamp },
    ClaimRun(ClaimRun),
    ExtendClaim { claim: RunClaim, until: Timestamp },
    FinishRun { claim: RunClaim, at: Timestamp, next_due: Timestamp, outcome: Box<RunOutcome> },
    AddRun(Box<UnscheduledRun>),
    AddCounts(Box<CountBatch>),
    RecordGauges { minute: Timestamp, gauges: BTreeMap<String, f64> },
    Downsample { minutes_before: Timestamp },
    CloseQuarterHours { before: Timestamp },
    DropClosedPoints { before: Timestamp },
    ChangeAlerts(Box<AlertChange>),
    ClaimDeliveries(Box<DeliveryClaim>),
    FinishDelivery(Box<DeliveryResult>),
    Enqueue { new: Box<NewQueueEntry>, limits: AdmissionLimits },
    EndQueueEntry { id: QueueId, outcome: QueueOutcome, now: Timestamp },
    ExpireQueueEntries { now: Timestamp },
}

/// The result of a write request that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteDone {
    Created(Created),
    Committed(Version),
    HeartbeatWritten,
    NodeRemoved(bool),
    Pruned(Pruned),
    TokenAdded,
    TokenRevoked(bool),
    AuditAppended,
    JobPlanned,
    RunClaimed(Option<(RunId, Timestamp)>),
    ClaimHeld(bool),
    RunAdded(RunId),
    /// False: another server did it first, and nothing was added.
    MetricsAdded(bool),
    Downsampled,
    QuarterHoursClosed,
    ClosedPointsDropped,
    AlertsChanged,
    DeliveriesClaimed,
    DeliveryFinished(bool),
    Enqueued,
    QueueEntriesEnded(usize),
}

impl WriteRequest {
    /// Whether it creates a sandbox, or leads to one.
    pub(crate) fn adds(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::FillPool { .. } | Self::Claim(_) | Self::Enqueue { .. })
    }

    /// Runs inside a transaction, in a savepoint of its own.
    pub(crate) fn run(
        &self,
        connection: &Connection,
        totals: &mut TotalsRow,
    ) -> Result<WriteDone, WriteError> {
        match self {
            Self::Create { new, limits } => {
                create::run(connection, totals, new, limits).map(WriteDone::Created)
            }
            Self::FillPool { new, size, limits } => {
                pool::fill(connection, totals, new, *size, limits).map(WriteDone::Committed)
            }
            Self::Claim(claim) => pool::claim(connection, totals, claim).map(WriteDone::Created),
            Self::Commit(change) => commit::run(connection, totals, change).map(WriteDone::Committed),
            Self::Heartbeat { node, now } => {
                heartbeat(connection, node, *now).map(|()| WriteDone::HeartbeatWritten)
            }
            Self::RemoveNode(node) => remove_node(connection, *node).map(WriteDone::NodeRemoved),
            Self::Prune { retention, limit } => {
                prune::run(connection, totals, *retention, *limit).map(WriteDone::Pruned)
            }
            Self::AddToken(token) => tokens::add(connection, token).map(|()| WriteDone::TokenAdded),
            Self::RevokeToken { id, at } => tokens::revoke(connection, *id, *at).map(WriteDone::TokenRevoked),
            Self::AppendAudit(records) => {
                audit_log::append(connection, records).map(|()| WriteDone::AuditAppended)
            }
            Self::PlanJob { job, schedule, due_at } => {
                schedule::plan_job(connection, job, schedule, *due_at).map(|()| WriteDone::JobPlanned)
            }
            Self::ClaimRun(request) => schedule::claim_run(connection, request).map(WriteDone::RunClaimed),
            Self::ExtendClaim { claim, until } => {
                schedule::extend_claim(connection, claim, *until).map(WriteDone::ClaimHeld)
            }
            Self::FinishRun { claim, at, next_due, outcome } => {
                schedule::finish_run(connection, claim, *at, *next_due, outcome).map(WriteDone::ClaimHeld)
            }
            Self::AddRun(run) => schedule::add_run(connection, run).map(WriteDone::RunAdded),
            Self::AddCounts(batch) => metrics::add_counts(connection, batch).map(WriteDone::MetricsAdded),
            Self::RecordGauges { minute, gauges } => {
                metrics::record_gauges(connection, *minute, gauges).map(WriteDone::MetricsAdded)
            }
            Self::Downsample { minutes_before } => {
                metrics::downsample(connection, *minutes_before).map(|()| WriteDone::Downsampled)
            }
            Self::CloseQuarterHours { before } => {
                metrics::close_quarter_hours(connection, *before).map(|()| WriteDone::QuarterHoursClosed)
            }
            Self::DropClosedPoints { before } => {
                metrics::drop_closed_points(connection, *before).map(|()| WriteDone::ClosedPointsDropped)
            }
            Self::ChangeAlerts(change) => {
                alerts::change(connection, change).map(|()| WriteDone::AlertsChanged)
            }
            Self::ClaimDeliveries(claim) => {
                alerts::claim(connection, claim).map(|()| WriteDone::DeliveriesClaimed)
            }
            Self::FinishDelivery(result) => {
                alerts::finish_delivery(connection, result).map(WriteDone::DeliveryFinished)
            }
            Self::Enqueue { new, limits } => {
                queue::enqueue(connection, new, limits).map(|()| WriteDone::Enqueued)
            }
            Self::EndQueueEntry { id, outcome, now } => {
                queue::end_entry(connection, *id, *outcome, *now).map(WriteDone::QueueEntriesEnded)
            }
            Self::ExpireQueueEntries { now } => {
                queue::expire_entries(connection, *now).map(WriteDone::QueueEntriesEnded)
            }
        }
    }
}

fn heartbeat(connection: &Connection, node: &Node, now: Timestamp) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO nodes (id, host, boot_id, pid, start_ticks, heartbeat_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    statement.execute((
        node.id.to_string(),
        &node.host,
        &node.boot_id,
        node.pid,
        signed(node.start_ticks),
        now.0,
    ))?;
    Ok(())
}

fn remove_node(connection: &Connection, node: NodeId) -> Result<bool, WriteError> {
    if !read::sandboxes_of_node(connection, node)?.is_empty() {
        return Ok(false);
    }
    connection.prepare_cached("DELETE FROM nodes WHERE id = ?1")?.execute([node.to_string()])?;
    Ok(true)
}
