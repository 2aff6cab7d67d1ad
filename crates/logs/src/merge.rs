//! Merges history records and outputs of a sandbox into one order: by time, and so that the output of an execution comes
//! after the line that says it started and before the line that says it ended. The merge does not wait for output that may
//! still come, so two readers may see simultaneous output of two executions in another order. Each sees all of it once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use pinfold_lifecycle::{ExecutionId, SandboxId, Timestamp};
use pinfold_provider::OutputLogs;
use pinfold_store::{HistoryRow, Seq};

use crate::control_lines;
use crate::cursor::Cursor;
use crate::entry::LogEntry;
use crate::log_line::LogLine;
use crate::output::{ExecutionOutput, LogChunk};

pub(crate) struct LogMerge {
    sandbox: SandboxId,
    /// None: there is no output on this host.
    output: Option<Arc<dyn OutputLogs>>,
    cursor: Cursor,
    outputs: BTreeMap<ExecutionId, ExecutionOutput>,
    records: VecDeque<HistoryRow>,
}

enum Next {
    Record,
    Output(ExecutionId),
    Nothing,
}

impl LogMerge {
    pub(crate) fn after(sandbox: SandboxId, cursor: Cursor, output: Option<Arc<dyn OutputLogs>>) -> Self {
        Self { sandbox, output, cursor, outputs: BTreeMap::new(), records: VecDeque::new() }
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The number after which records are still to be fed.
    pub(crate) fn records_after(&self) -> Seq {
        self.records.back().map_or(self.cursor.history, |row| row.seq)
    }

    /// Adds later records. Output is read only after that, so that everything an execution wrote before its recorded end
    /// is found.
    pub(crate) fn feed(&mut self, records: Vec<HistoryRow>) {
        self.records.extend(records);
        self.outputs.values_mut().for_each(ExecutionOutput::poll_again);
    }

    /// The next entry, if there is one.
    pub(crate) fn next_entry(&mut self) -> io::Result<Option<LogEntry>> {
        Ok(self.take()?.map(|line| LogEntry::of(line, &mut self.cursor)))
    }

    /// The next entry as a line for the archive.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<LogLine>> {
        let line = self.take()?;
        line.iter().for_each(|line| self.cursor.pass(line));
        Ok(line)
    }

    fn take(&mut self) -> io::Result<Option<LogLine>> {
        match self.choose()? {
            Next::Nothing => Ok(None),
            Next::Record => {
                let Some(row) = self.records.pop_front() else { return Ok(None) };
                if let Some(closed) = control_lines::output_ended_by(&row.record.fact) {
                    self.outputs.remove(&closed);
                }
                Ok(Some(control_lines::line(&row, &self.cursor)))
            }
            Next::Output(execution) => {
                let chunk = self.outputs.get_mut(&execution).and_then(ExecutionOutput::take);
                Ok(chunk.map(|chunk| self.line(execution, chunk)))
            }
        }
    }

    fn line(&self, execution: ExecutionId, chunk: LogChunk) -> LogLine {
        LogLine {
            at: chunk.at,
            source: chunk.source,
            execution: Some(execution),
            generation: self.cursor.generation,
            content: chunk.content,
            history: self.cursor.history,
            position: Some(chunk.after),
            boundary: None,
        }
    }

    fn choose(&mut self) -> io::Result<Next> {
        let record = self.records.front();
        let record_at = record.map(|row| row.record.at);
        let closing = record.and_then(|row| control_lines::output_ended_by(&row.record.fact));
        // Output of an earlier attempt is dated before its failure, which is already passed. The rest belongs to the attempt
        // that starts.
        let opening = record.and_then(|row| control_lines::output_begun_by(&row.record.fact));
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
        let position = self.cursor.position(execution);
        // Without output on this host there is none of an execution that the cursor does not list.
        if self.output.is_none() && !self.cursor.open.contains_key(&execution) {
            return Ok(None);
        }
        let (sandbox, kept) = (self.sandbox, &self.output);
        let output = self.outputs.entry(execution).or_insert_with(|| {
            let after = position.read_position();
            let reader = kept.as_ref().map(|kept| kept.reader(sandbox, execution, after));
            ExecutionOutput::after(position, reader)
        });
        let head = output.head(is_closing, record_at.unwrap_or_default())?;
        Ok(head.map(|chunk| chunk.at))
    }
}
