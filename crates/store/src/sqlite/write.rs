//! The requests that write, and what each comes to within a transaction that it shares with others.

use std::collections::BTreeMap;

use pinfold_lifecycle::{AdmissionLimits, NodeId, PlaceId, Timestamp, TokenId};
use rusqlite::Connection;

use super::failure::WriteError;
use super::ledger::{Ledger, signed};
use super::{alerts, audit, chores, commit, create, measures, pool, prune, queue, read, tokens};
use crate::{
    AlertChange, CameTo, Change, Claim, Count, Created, DeliveryClaim, DeliverySettled, NewPlace, NewRun,
    NewSandbox, Node, Note, PlaceEnd, Pruned, Retention, RunId, TakeTurn, Token, Turn, Version,
};

#[derive(Debug)]
pub(super) enum Write {
    Create { new: Box<NewSandbox>, limits: AdmissionLimits },
    Fill { new: Box<NewSandbox>, size: u64, limits: AdmissionLimits },
    Claim(Box<Claim>),
    Commit(Box<Change>),
    Beat { node: Node, now: Timestamp },
    Leave(NodeId),
    Prune { retention: Retention, limit: usize },
    AddToken(Box<Token>),
    RevokeToken { id: TokenId, at: Timestamp },
    Note(Vec<Note>),
    PlanChore { chore: String, schedule: String, due_at: Timestamp },
    TakeTurn(TakeTurn),
    HoldTurn { turn: Turn, until: Timestamp },
    FinishTurn { turn: Turn, at: Timestamp, next_due: Timestamp, came_to: Box<CameTo> },
    AddRun(Box<NewRun>),
    Count(Box<Count>),
    Sample { minute: Timestamp, gauges: BTreeMap<String, f64> },
    ThinOut { minutes_before: Timestamp },
    CloseFigures { before: Timestamp },
    DropClosedFigures { before: Timestamp },
    ChangeAlerts(Box<AlertChange>),
    ClaimDeliveries(Box<DeliveryClaim>),
    SettleDelivery(Box<DeliverySettled>),
    Join { new: Box<NewPlace>, limits: AdmissionLimits },
    EndPlace { id: PlaceId, end: PlaceEnd, now: Timestamp },
    EndOverdue { now: Timestamp },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrote {
    Created(Created),
    Committed(Version),
    Beaten,
    Left(bool),
    Pruned(Pruned),
    TokenAdded,
    Revoked(bool),
    Noted,
    Planned,
    Taken(Option<(RunId, Timestamp)>),
    StillHeld(bool),
    RunAdded(RunId),
    /// Whether nobody else did.
    Counted(bool),
    ThinnedOut,
    FiguresClosed,
    ClosedFiguresDropped,
    AlertsChanged,
    DeliveriesClaimed,
    DeliverySettled(bool),
    Joined,
    PlacesEnded(usize),
}

impl Write {
    /// Runs inside a transaction, in a savepoint of its own.
    pub(super) fn run(&self, connection: &Connection, ledger: &mut Ledger) -> Result<Wrote, WriteError> {
        match self {
            Self::Create { new, limits } => create::run(connection, ledger, new, limits).map(Wrote::Created),
            Self::Fill { new, size, limits } => {
                pool::fill(connection, ledger, new, *size, limits).map(Wrote::Committed)
            }
            Self::Claim(claim) => pool::claim(connection, ledger, claim).map(Wrote::Created),
            Self::Commit(change) => commit::run(connection, ledger, change).map(Wrote::Committed),
            Self::Beat { node, now } => beat(connection, node, *now).map(|()| Wrote::Beaten),
            Self::Leave(node) => leave(connection, *node).map(Wrote::Left),
            Self::Prune { retention, limit } => {
                prune::run(connection, ledger, *retention, *limit).map(Wrote::Pruned)
            }
            Self::AddToken(token) => tokens::add(connection, token).map(|()| Wrote::TokenAdded),
            Self::RevokeToken { id, at } => tokens::revoke(connection, *id, *at).map(Wrote::Revoked),
            Self::Note(notes) => audit::add(connection, notes).map(|()| Wrote::Noted),
            Self::PlanChore { chore, schedule, due_at } => {
                chores::plan(connection, chore, schedule, *due_at).map(|()| Wrote::Planned)
            }
            Self::TakeTurn(ask) => chores::take(connection, ask).map(Wrote::Taken),
            Self::HoldTurn { turn, until } => chores::hold(connection, turn, *until).map(Wrote::StillHeld),
            Self::FinishTurn { turn, at, next_due, came_to } => {
                chores::finish(connection, turn, *at, *next_due, came_to).map(Wrote::StillHeld)
            }
            Self::AddRun(run) => chores::add_run(connection, run).map(Wrote::RunAdded),
            Self::Count(count) => measures::count(connection, count).map(Wrote::Counted),
            Self::Sample { minute, gauges } => {
                measures::sample(connection, *minute, gauges).map(Wrote::Counted)
            }
            Self::ThinOut { minutes_before } => {
                measures::thin_out(connection, *minutes_before).map(|()| Wrote::ThinnedOut)
            }
            Self::CloseFigures { before } => {
                measures::close(connection, *before).map(|()| Wrote::FiguresClosed)
            }
            Self::DropClosedFigures { before } => {
                measures::drop_closed(connection, *before).map(|()| Wrote::ClosedFiguresDropped)
            }
            Self::ChangeAlerts(change) => alerts::change(connection, change).map(|()| Wrote::AlertsChanged),
            Self::ClaimDeliveries(claim) => {
                alerts::claim(connection, claim).map(|()| Wrote::DeliveriesClaimed)
            }
            Self::SettleDelivery(settled) => alerts::settle(connection, settled).map(Wrote::DeliverySettled),
            Self::Join { new, limits } => queue::join(connection, new, limits).map(|()| Wrote::Joined),
            Self::EndPlace { id, end, now } => {
                queue::end(connection, *id, *end, *now).map(Wrote::PlacesEnded)
            }
            Self::EndOverdue { now } => queue::end_overdue(connection, *now).map(Wrote::PlacesEnded),
        }
    }
}

fn beat(connection: &Connection, node: &Node, now: Timestamp) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO nodes (id, host, boot_id, pid, started, heartbeat_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    statement.execute((
        node.id.to_string(),
        &node.host,
        &node.boot_id,
        node.pid,
        signed(node.started),
        now.0,
    ))?;
    Ok(())
}

fn leave(connection: &Connection, node: NodeId) -> Result<bool, WriteError> {
    if !read::left_by(connection, node)?.is_empty() {
        return Ok(false);
    }
    connection.prepare_cached("DELETE FROM nodes WHERE id = ?1")?.execute([node.to_string()])?;
    Ok(true)
}
