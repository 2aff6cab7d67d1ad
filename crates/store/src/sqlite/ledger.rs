//! The one row that all transactions share: the last number given out, and the sums over all sandboxes. It is
//! read when a transaction begins and written once before it ends, however many requests are in it.

use pinfold_lifecycle::{Demand, Life, Sandbox, Totals};
use rusqlite::Connection;

use crate::{Seq, Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) seq: i64,
    sum: Share,
    /// Of the sum: those whose rows are deleted.
    pub(super) gone: i64,
    pub(super) gone_attested: i64,
}

/// What one sandbox adds to the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Share {
    pub(super) created: i64,
    pub(super) destroyed: i64,
    pub(super) attested: i64,
    /// In the pool, and not proven gone.
    pub(super) pooled: i64,
    pub(super) memory_mb: i64,
    pub(super) disk_mb: i64,
    pub(super) processes: i64,
}

impl Share {
    pub(super) fn of(sandbox: &Sandbox, demand: Demand) -> Self {
        let (created, destroyed) = sandbox.created_and_destroyed();
        let taken = if sandbox.is_settled() { Demand::default() } else { demand };
        Self {
            created: signed(created),
            destroyed: signed(destroyed),
            attested: i64::from(is_attested(sandbox)),
            pooled: i64::from(sandbox.is_in_pool()),
            memory_mb: signed(taken.memory_mb),
            disk_mb: signed(taken.disk_mb),
            processes: signed(taken.processes),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            created: self.created + other.created,
            destroyed: self.destroyed + other.destroyed,
            attested: self.attested + other.attested,
            pooled: self.pooled + other.pooled,
            memory_mb: self.memory_mb.saturating_add(other.memory_mb),
            disk_mb: self.disk_mb.saturating_add(other.disk_mb),
            processes: self.processes.saturating_add(other.processes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            created: self.created - other.created,
            destroyed: self.destroyed - other.destroyed,
            attested: self.attested - other.attested,
            pooled: self.pooled - other.pooled,
            memory_mb: self.memory_mb.saturating_sub(other.memory_mb),
            disk_mb: self.disk_mb.saturating_sub(other.disk_mb),
            processes: self.processes.saturating_sub(other.processes),
        }
    }
}

impl Ledger {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached(
            "SELECT seq, created, destroyed, attested, memory_mb, disk_mb, processes, gone, gone_attested, pooled
             FROM ledger",
        )?;
        statement.query_row([], |row| {
            Ok(Self {
                seq: row.get(0)?,
                sum: Share {
                    created: row.get(1)?,
                    destroyed: row.get(2)?,
                    attested: row.get(3)?,
                    pooled: row.get(9)?,
                    memory_mb: row.get(4)?,
                    disk_mb: row.get(5)?,
                    processes: row.get(6)?,
                },
                gone: row.get(7)?,
                gone_attested: row.get(8)?,
            })
        })
    }

    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "UPDATE ledger SET seq = ?1, created = ?2, destroyed = ?3, attested = ?4,
             memory_mb = ?5, disk_mb = ?6, processes = ?7, gone = ?8, gone_attested = ?9, pooled = ?10",
        )?;
        statement.execute((
            self.seq,
            self.sum.created,
            self.sum.destroyed,
            self.sum.attested,
            self.sum.memory_mb,
            self.sum.disk_mb,
            self.sum.processes,
            self.gone,
            self.gone_attested,
            self.sum.pooled,
        ))?;
        Ok(())
    }

    pub(super) fn next(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn seq(&self) -> Seq {
        Seq(self.seq)
    }

    /// The version of a change whose records have taken their numbers: the last of them, or one of its own.
    pub(super) fn version_after(&mut self, before: Seq) -> Version {
        if self.seq() == before {
            self.next();
        }
        Version(self.seq)
    }

    /// Puts one sandbox's new share in the place of its old one.
    pub(super) fn exchange(&mut self, old: Share, new: Share) {
        self.sum = self.sum.plus(new).minus(old);
    }

    /// The row of a settled sandbox is deleted. It stays in the sums.
    pub(super) fn forget(&mut self, share: Share) {
        self.gone += share.created;
        self.gone_attested += share.attested;
    }

    pub(super) fn sum(&self) -> Share {
        self.sum
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            created: unsigned(self.sum.created),
            destroyed: unsigned(self.sum.destroyed),
            attested: unsigned(self.sum.attested),
            pooled: unsigned(self.sum.pooled),
            taken: Demand {
                memory_mb: unsigned(self.sum.memory_mb),
                disk_mb: unsigned(self.sum.disk_mb),
                processes: unsigned(self.sum.processes),
            },
        }
    }
}

pub(super) fn is_attested(sandbox: &Sandbox) -> bool {
    matches!(&sandbox.life, Life::Ended { receipt, .. } if receipt.attested.is_some())
}

/// SQLite's integers have a sign. What does not fit is far beyond any limit.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
