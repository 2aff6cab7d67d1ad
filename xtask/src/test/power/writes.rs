//! The log that the emulator keeps of everything that is written to a disk, and what is left of it when the power is
//! cut: all that came before the last flush, and of what came later whatever chance decides.
//!
//! The log is that of Linux's `dm-log-writes`: one sector for itself, then for each write one that describes it, and
//! its data.

use std::ops::Range;

const SECTOR: usize = 512;
/// The most that a disk writes as a whole or not at all.
const BLOCK: usize = 4096;
/// What a block of a file system's journal begins with, and the kinds of those that are written past the disk's cache: the
/// end of a transaction, and the journal's own head. The emulator does that too, but does not say so in its log.
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

/// So many bytes of the log that go to this place on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) to: u64,
    pub(super) data: Range<usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// In the order in which they were made.
    pub(super) writes: Vec<Write>,
    pub(super) flushes: usize,
    /// How many came after the last flush.
    pub(super) in_doubt: usize,
    /// How many of those are lost, in whole or in part.
    pub(super) lost: usize,
}

/// What the disk has after the power cut.
pub(super) fn left(log: &[u8], rng: &mut fastrand::Rng) -> Left {
    let entries = entries(log);
    let certain = entries.iter().rposition(|entry| *entry == Entry::Flush).unwrap_or(0);
    // A disk may have written nothing yet, or everything, or anything.
    let chance = [0.0, 0.5, 1.0][rng.usize(0..3)];
    let mut left = Left::default();
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

/// As far as the emulator came. Where it was killed in the middle of a write, zeros stand for that one, and others that
/// were made beside it may follow.
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

    fn places(left: &Left) -> Vec<(u64, usize)> {
        left.writes.iter().map(|write| (write.to, write.data.len())).collect()
    }

    #[test]
    fn what_was_flushed_is_there_whatever_chance_says() {
        let log = log(&[write(8, 8), head(0, 0, FLUSH), write(16, 16), head(0, 0, FLUSH), write(64, 8)]);
        for seed in 0..100 {
            let left = left(&log, &mut fastrand::Rng::with_seed(seed));

            assert_eq!(places(&left)[..2], [(4096, 4096), (8192, 8192)]);
            assert_eq!((left.flushes, left.in_doubt), (2, 1));
        }
    }

    #[test]
    fn what_was_not_flushed_is_there_whole_or_in_part_or_not_at_all() {
        let log = log(&[write(8, 16)]);
        let lengths: std::collections::BTreeSet<_> = (0..200)
            .map(|seed| left(&log, &mut fastrand::Rng::with_seed(seed)).writes[0].data.len())
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
            let lost = |kind| left(&log(&[record(kind)]), &mut fastrand::Rng::with_seed(seed)).lost;

            assert_eq!((lost(2), lost(4)), (0, 0));
        }
        let is_lost = |seed| left(&log(&[record(1)]), &mut fastrand::Rng::with_seed(seed)).lost > 0;
        assert!((0..100).any(is_lost), "what only begins one is in doubt");
    }

    #[test]
    fn a_write_that_was_cut_short_hides_none_that_came_after_it() {
        let hole = vec![0; 3 * SECTOR];
        let log = log(&[write(8, 8), hole, write(16, 8), head(0, 0, FLUSH), head(24, 8, 0)]);

        let left = left(&log, &mut fastrand::Rng::with_seed(1));

        assert_eq!(places(&left), [(4096, 4096), (8192, 4096)]);
        assert_eq!(left.in_doubt, 0);
    }
}
