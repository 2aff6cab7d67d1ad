//! One order for all that is known of a sandbox: by time, and so that an execution's output comes after the line that
//! says it started and before the one that says it ended. Nothing waits for what might still come, so what two
//! executions write at the same moment may come in another order to another reader; each reader sees all of it once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;

use pinfold_lifecycle::{ExecutionId, Timestamp};
use pinfold_store::{HistoryRow, Seq};

use crate::cursor::Cursor;
use crate::entry::Entry;
use crate::line::Line;
use crate::output::{Chunk, Output};
use crate::tell;

pub(crate) struct Merge {
    /// None: there is no output.
    directory: Option<PathBuf>,
    cursor: Cursor,
    outputs: BTreeMap<ExecutionId, Output>,
    records: VecDeque<HistoryRow>,
}

enum Next {
    Record,
    Output(ExecutionId),
    Nothing,
}

impl Merge {
    pub(crate) fn after(cursor: Cursor, directory: Option<PathBuf>) -> Self {
        Self { directory, cursor, outputs: BTreeMap::new(), records: VecDeque::new() }
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Where the records begin that it does not have yet.
    pub(crate) fn records_after(&self) -> Seq {
        self.records.back().map_or(self.cursor.history, |row| row.seq)
    }

    /// Takes in what was recorded since. Only then output is looked for: all that an execution wrote before its
    /// recorded end is then found.
    pub(crate) fn feed(&mut self, records: Vec<HistoryRow>) {
        self.records.extend(records);
        self.outputs.values_mut().for_each(Output::look_again);
    }

    /// The next entry, if it is there.
    pub(crate) fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        Ok(self.take()?.map(|line| Entry::of(line, &mut self.cursor)))
    }

    /// The same, as it is to be kept.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line>> {
        let line = self.take()?;
        line.iter().for_each(|line| self.cursor.pass(line));
        Ok(line)
    }

    fn take(&mut self) -> io::Result<Option<Line>> {
        match self.choose()? {
            Next::Nothing => Ok(None),
            Next::Record => {
                let Some(row) = self.records.pop_front() else { return Ok(None) };
                if let Some(closed) = tell::closes(&row.record.fact) {
                    self.outputs.remove(&closed);
                }
                Ok(Some(tell::line(&row, &self.cursor)))
            }
            Next::Output(execution) => {
                let chunk = self.outputs.get_mut(&execution).and_then(Output::take);
                Ok(chunk.map(|chunk| self.line(execution, chunk)))
            }
        }
    }

    fn line(&self, execution: ExecutionId, chunk: Chunk) -> Line {
        Line {
            at: chunk.at,
            source: chunk.source,
            execution: Some(execution),
            generation: self.cursor.generation,
            kept: chunk.kept,
            history: self.cursor.history,
            place: Some(chunk.after),
            turn: None,
        }
    }

    fn choose(&mut self) -> io::Result<Next> {
        let record = self.records.front();
        let record_at = record.map(|row| row.record.at);
        let closing = record.and_then(|row| tell::closes(&row.record.fact));
        // What an earlier try wrote is dated before its failure, which was passed: the rest is of the try that starts.
        let opening = record.and_then(|row| tell::opens(&row.record.fact));
        let (mut best, mut holds_back) = (None, false);
        let open: BTreeSet<_> = self.cursor.open.keys().copied().chain(closing).collect();
        for execution in open.into_iter().filter(|execution| opening != Some(*execution)) {
            let is_closing = closing == Some(execution);
            let Some(at) = self.head_of(execution, is_closing, record_at)? else { continue };
            holds_back |= is_closing;
            if best.is_none_or(|(soonest, _)| at < soonest) {
                best = Some((at, execution));
            }
        }
        Ok(match (best, record_at) {
            (Some((at, _)), Some(record_at)) if !holds_back && record_at <= at => Next::Record,
            (Some((_, execution)), _) => Next::Output(execution),
            (None, Some(_)) => Next::Record,
            (None, None) => Next::Nothing,
        })
    }

    fn head_of(
        &mut self,
        execution: ExecutionId,
        is_closing: bool,
        record_at: Option<Timestamp>,
    ) -> io::Result<Option<Timestamp>> {
        let place = self.cursor.place(execution);
        // Output that nobody had heard the start of is none where there is no place for it.
        if self.directory.is_none() && !self.cursor.open.contains_key(&execution) {
            return Ok(None);
        }
        let directory = self.directory.as_deref();
        let output =
            self.outputs.entry(execution).or_insert_with(|| Output::after(place, directory, execution));
        let head = output.head(is_closing, record_at.unwrap_or_default())?;
        Ok(head.map(|chunk| chunk.at))
    }
}
