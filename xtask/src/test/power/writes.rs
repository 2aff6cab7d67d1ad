//! The emulator's log of all writes to a disk, and what the disk has after a power cut: everything before the last
//! flush, and a random part of what came later.
//!
//! The log has the format of Linux's `dm-log-writes`: a super block of one sector, then for each write a sector
//! that describes it, and its data.

use std::ops::Range;

const SECTOR: usize = 512;
/// The largest unit that a disk writes atomically.
const BLOCK: usize = 4096;
/// The magic number of a journal block, and the block types that bypass the disk's cache: commit block and journal
/// superblock. The emulator writes them through, too, but does not say so in its log.
const JOURNAL: [u8; 4] = 0xc03b_3998_u32.to_be_bytes();
const WRITTEN_THROUGH: [[u8; 4]; 2] = [2_u32.to_be_bytes(), 4_u32.to_be_bytes()];
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const ALL_FLAGS: u64 = 15;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Flush,
    Write(Write),
}

/// A range of the log, and where it goes on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) to: u64,
    pub(super) data: Range<usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AfterPowerCut {
    /// In write order.
    pub(super) writes: Vec<Write>,
    pub(super) flushes: usize,
    /// Writes after the last flush.
    pub(super) in_doubt: usize,
    /// How many of those are lost, completely or in part.
    pub(super) lost: usize,
}

/// What the disk has after the power cut.
pub(super) fn after_power_cut(log: &[u8], rng: &mut fastrand::Rng) -> AfterPowerCut {
    let entries = entries(log);
    let certain = entries.iter().rposition(|entry| *entry == Entry::Flush).unwrap_or(0);
    // A disk may have written none, some or all of these.
    let chance = [0.0, 0.5, 1.0][rng.usize(0..3)];
    let mut left = AfterPowerCut::default();
    for (number, entry) in entries.into_iter().enumerate() {
        match entry {
            Entry::Flush => left.flushes += 1,
            Entry::Write(write) if number < certain || is_written_through(&log[write.data.clone()]) => {
                left.writes.push(write);
            }
            Entry::Write(write) => {
                left.in_doubt += 1;
                let blocks = write.data.len().div_ceil(BLOCK);
                let reached = match rng.f64() < chance {
                    true if rng.u8(0..4) == 0 => rng.usize(0..=blocks),
                    true => blocks,
                    false => 0,
                };
                left.lost += usize::from(reached < blocks);
                let end = write.data.end.min(write.data.start + reached * BLOCK);
                left.writes.push(Write { data: write.data.start..end, ..write });
            }
        }
    }
    left
}

fn is_written_through(data: &[u8]) -> bool {
    let kind = data.strip_prefix(&JOURNAL).filter(|_| data.len() <= BLOCK);
    kind.is_some_and(|kind| WRITTEN_THROUGH.iter().any(|through| kind.starts_with(through)))
}

/// Parses the log as far as the emulator wrote it. A write in which it was killed reads as zeros, and writes that
/// ran in parallel may follow.
fn entries(log: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut at = SECTOR;
    while let Some(head) = log.get(at..at + SECTOR) {
        at += SECTOR;
        let [sector, sectors, flags] = [0, 8, 16].map(|field| {
            head[field..field + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
        });
        let is_head = flags & !ALL_FLAGS == 0 && head[24..].iter().all(|byte| *byte == 0);
        if !is_head || sectors == 0 && flags & FLUSH == 0 {
            continue;
        }
        if flags & FLUSH != 0 {
            entries.push(Entry::Flush);
        }
        if flags & (DISCARD | MARK) != 0 || sectors == 0 {
            continue;
        }
        let length = usize::try_from(sectors).unwrap_or(usize::MAX).saturating_mul(SECTOR);
        let end = at.saturating_add(length);
        if end > log.len() {
            break;
        }
        entries.push(Entry::Write(Write { to: sector * SECTOR as u64, data: at..end }));
        at = end;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(sector: u64, sectors: u64, flags: u64) -> Vec<u8> {
        let mut head = [sector, sectors, flags].map(u64::to_le_bytes).concat();
        head.resize(SECTOR, 0);
        head
    }

    fn write(sector: u64, sectors: u64) -> Vec<u8> {
        let length = usize::try_from(sectors).unwrap() * SECTOR;
        [head(sector, sectors, 0), vec![b'x'; length]].concat()
    }

    fn log(entries: &[Vec<u8>]) -> Vec<u8> {
        [vec![0; SECTOR], entries.concat()].concat()
    }

    fn places(left: &AfterPowerCut) -> Vec<(u64, usize)> {
        left.writes.iter().map(|write| (write.to, write.data.len())).collect()
    }

    #[test]
    fn flushed_writes_survive_with_every_seed() {
        let log = log(&[write(8, 8), head(0, 0, FLUSH), write(16, 16), head(0, 0, FLUSH), write(64, 8)]);
        for seed in 0..100 {
            let left = after_power_cut(&log, &mut fastrand::Rng::with_seed(seed));

            assert_eq!(places(&left)[..2], [(4096, 4096), (8192, 8192)]);
            assert_eq!((left.flushes, left.in_doubt), (2, 1));
        }
    }

    #[test]
    fn unflushed_writes_survive_whole_or_in_part_or_not_at_all() {
        let log = log(&[write(8, 16)]);
        let lengths: std::collections::BTreeSet<_> = (0..200)
            .map(|seed| after_power_cut(&log, &mut fastrand::Rng::with_seed(seed)).writes[0].data.len())
            .collect();

        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 4096, 8192]);
    }

    #[test]
    fn the_end_of_a_transaction_in_the_journal_needs_no_flush() {
        let record = |kind: u32| {
            let mut data = [JOURNAL, kind.to_be_bytes()].concat();
            data.resize(BLOCK, 0);
            [head(8, 8, 0), data].concat()
        };
        for seed in 0..100 {
            let lost =
                |kind| after_power_cut(&log(&[record(kind)]), &mut fastrand::Rng::with_seed(seed)).lost;

            assert_eq!((lost(2), lost(4)), (0, 0));
        }
        let is_lost =
            |seed| after_power_cut(&log(&[record(1)]), &mut fastrand::Rng::with_seed(seed)).lost > 0;
        assert!((0..100).any(is_lost), "what only begins one is in doubt");
    }

    #[test]
    fn a_write_that_was_cut_short_hides_none_that_came_after_it() {
        let hole = vec![0; 3 * SECTOR];
        let log = log(&[write(8, 8), hole, write(16, 8), head(0, 0, FLUSH), head(24, 8, 0)]);

        let left = after_power_cut(&log, &mut fastrand::Rng::with_seed(1));

        assert_eq!(places(&left), [(4096, 4096), (8192, 4096)]);
        assert_eq!(left.in_doubt, 0);
    }
}
