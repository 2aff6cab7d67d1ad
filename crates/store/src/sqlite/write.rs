//! The requests that write, and what each comes to within a transaction that it shares with others.

use pinfold_lifecycle::{AdmissionLimits, NodeId, PlaceId, Timestamp, TokenId};
use rusqlite::Connection;

use super::failure::WriteError;
use super::ledger::{Ledger, signed};
use super::{audit, commit, create, pool, prune, queue, read, tokens};
use crate::{Change, Claim, Created, NewPlace, NewSandbox, Node, Note, PlaceEnd, Retention, Token, Version};

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
    Pruned(usize),
    TokenAdded,
    Revoked(bool),
    Noted,
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
