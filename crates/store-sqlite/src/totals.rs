//! The row that all transactions share: the last number given out, and the sums over all sandboxes. A transaction
//! reads it at its beginning and writes it once at its end, however many requests it contains.

use pinfold_lifecycle::{Demand, Life, Sandbox, Totals};
use rusqlite::Connection;

use pinfold_store::{Seq, Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TotalsRow {
    pub(crate) seq: i64,
    sum: SandboxShare,
    /// Part of the sum: sandboxes whose rows are deleted.
    pub(crate) deleted: i64,
    pub(crate) deleted_attested: i64,
}

/// The part of the sums that one sandbox contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SandboxShare {
    pub(crate) created: i64,
    pub(crate) destroyed: i64,
    pub(crate) attested: i64,
    /// In the pool and not proven gone.
    pub(crate) pooled: i64,
    pub(crate) memory_mb: i64,
    pub(crate) disk_mb: i64,
    pub(crate) processes: i64,
}

impl SandboxShare {
    pub(crate) fn of(sandbox: &Sandbox, demand: Demand) -> Self {
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

    pub(crate) fn plus(self, other: Self) -> Self {
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

impl std::fmt::Display for SandboxShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "created {}, destroyed {}, attested {}, pooled {}, {} MiB of memory, {} MiB of disk, {} processes",
            self.created,
            self.destroyed,
            self.attested,
            self.pooled,
            self.memory_mb,
            self.disk_mb,
            self.processes
        )
    }
}

impl TotalsRow {
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached(
            "SELECT last_seq, created, destroyed, attested, memory_mb, disk_mb, processes, deleted, deleted_attested, pooled
             FROM totals",
        )?;
        statement.query_row([], |row| {
            Ok(Self {
                seq: row.get(0)?,
                sum: SandboxShare {
                    created: row.get(1)?,
                    destroyed: row.get(2)?,
                    attested: row.get(3)?,
                    pooled: row.get(9)?,
                    memory_mb: row.get(4)?,
                    disk_mb: row.get(5)?,
                    processes: row.get(6)?,
                },
                deleted: row.get(7)?,
                deleted_attested: row.get(8)?,
            })
        })
    }

    pub(crate) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "UPDATE totals SET last_seq = ?1, created = ?2, destroyed = ?3, attested = ?4,
             memory_mb = ?5, disk_mb = ?6, processes = ?7, deleted = ?8, deleted_attested = ?9, pooled = ?10",
        )?;
        statement.execute((
            self.seq,
            self.sum.created,
            self.sum.destroyed,
            self.sum.attested,
            self.sum.memory_mb,
            self.sum.disk_mb,
            self.sum.processes,
            self.deleted,
            self.deleted_attested,
            self.sum.pooled,
        ))?;
        Ok(())
    }

    pub(crate) fn next(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }

    pub(crate) fn seq(&self) -> Seq {
        Seq(self.seq)
    }

    /// The version of a change: the number of its last history record, or a number of its own if it has no record.
    pub(crate) fn take_version(&mut self, before: Seq) -> Version {
        if self.seq() == before {
            self.next();
        }
        Version(self.seq)
    }

    /// Replaces the old share of a sandbox in the sums by its new one.
    pub(crate) fn replace_share(&mut self, old: SandboxShare, new: SandboxShare) {
        self.sum = self.sum.plus(new).minus(old);
    }

    /// Records that the row of a settled sandbox is deleted. It stays in the sums.
    pub(crate) fn row_deleted(&mut self, share: SandboxShare) {
        self.deleted += share.created;
        self.deleted_attested += share.attested;
    }

    pub(crate) fn sum(&self) -> SandboxShare {
        self.sum
    }

    pub(crate) fn to_totals(self) -> Totals {
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

pub(crate) fn is_attested(sandbox: &Sandbox) -> bool {
    matches!(&sandbox.life, Life::Ended { receipt, .. } if receipt.attested.is_some())
}

/// SQLite's integers are signed. A value that does not fit is beyond every limit anyway.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
