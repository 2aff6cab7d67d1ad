//! The last lines of a sandbox's output, with control characters escaped.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{OutputEvent, OutputPage};

use crate::json_output::wire_name;
use crate::table::escape_control;

/// Limits of the lines kept.
const MAX_LINES: usize = 2_000;
const MAX_LINE_BYTES: usize = 4_096;

#[derive(Default)]
pub(super) struct Log {
    lines: VecDeque<String>,
    read: Vec<ExecutionLog>,
}

/// Read position of one execution.
struct ExecutionLog {
    execution: String,
    after: u64,
    is_complete: bool,
    /// A line without its newline yet.
    partial_line: Vec<u8>,
}

/// Index of an execution in the log.
#[derive(Clone, Copy)]
pub(super) struct StreamIndex(usize);

impl Log {
    pub(super) fn begin(&mut self, execution: &str, command: &[String]) -> StreamIndex {
        if let Some(stream) = self.read.iter().position(|it| it.execution == execution) {
            return StreamIndex(stream);
        }
        self.push(format!("--- {execution}: {}", escape_control(&command.join(" "))));
        let execution = execution.to_owned();
        self.read.push(ExecutionLog { execution, after: 0, is_complete: false, partial_line: Vec::new() });
        StreamIndex(self.read.len() - 1)
    }

    pub(super) fn after(&self, stream: StreamIndex) -> u64 {
        self.read[stream.0].after
    }

    pub(super) fn add(&mut self, StreamIndex(stream): StreamIndex, page: &OutputPage) {
        self.read[stream].after = page.next;
        for event in &page.events {
            match event {
                OutputEvent::Stdout { text, base64, .. } | OutputEvent::Stderr { text, base64, .. } => {
                    self.write(stream, &bytes(text.as_deref(), base64.as_deref()));
                }
                OutputEvent::Gap { bytes, .. } => self.push(format!("--- {bytes} bytes were dropped")),
                OutputEvent::Exit { cause, exit_code, .. } => {
                    self.end_line(stream);
                    let code = exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
                    self.push(format!("--- ended: {}{code}", wire_name(cause)));
                }
                OutputEvent::Error { message, .. } => self.push(format!("--- {}", escape_control(message))),
            }
        }
        if page.ended {
            self.read[stream].is_complete = true;
        }
    }

    /// Whether all output of the execution was read.
    pub(super) fn is_complete(&self, stream: StreamIndex) -> bool {
        self.read[stream.0].is_complete
    }

    fn write(&mut self, stream: usize, bytes: &[u8]) {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let first = parts.next().unwrap_or_default();
        self.extend(stream, first);
        for part in parts {
            self.end_line(stream);
            self.extend(stream, part);
        }
    }

    fn extend(&mut self, stream: usize, bytes: &[u8]) {
        let partial_line = &mut self.read[stream].partial_line;
        let room = MAX_LINE_BYTES.saturating_sub(partial_line.len());
        partial_line.extend(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, stream: usize) {
        let line = std::mem::take(&mut self.read[stream].partial_line);
        if !line.is_empty() {
            self.push(escape_control(String::from_utf8_lossy(&line).trim_end_matches('\r')));
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// All lines, including incomplete ones.
    pub(super) fn lines(&self) -> Vec<String> {
        let partial_line = self.read.iter().filter(|it| !it.partial_line.is_empty());
        let partial_line = partial_line.map(|it| escape_control(&String::from_utf8_lossy(&it.partial_line)));
        self.lines.iter().cloned().chain(partial_line).collect()
    }
}

fn bytes(text: Option<&str>, base64: Option<&str>) -> Vec<u8> {
    match (text, base64) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(encoded)) => STANDARD.decode(encoded).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(texts: &[&str]) -> OutputPage {
        let event = |(seq, text): (u64, &&str)| OutputEvent::Stdout {
            seq,
            at: String::new(),
            text: Some((*text).to_owned()),
            base64: None,
        };
        let events: Vec<_> = (1..).zip(texts).map(event).collect();
        OutputPage { execution_id: "exe_1".into(), next: events.len() as u64, events, ended: false }
    }

    #[test]
    fn line_in_several_chunks_is_joined_and_escaped() {
        let mut log = Log::default();
        let stream = log.begin("exe_1", &["sh".into()]);

        log.add(stream, &page(&["on", "e\ntwo\u{1b}[2J\nthr"]));

        assert_eq!(log.lines(), ["--- exe_1: sh", "one", "two\\u{1b}[2J", "thr"]);
        assert_eq!(log.after(stream), 2);
    }

    #[test]
    fn number_and_length_of_lines_are_bounded() {
        let mut log = Log::default();
        let stream = log.begin("exe_1", &[]);
        let much = "x\n".repeat(MAX_LINES * 2) + &"y".repeat(MAX_LINE_BYTES * 3);

        log.add(stream, &page(&[&much]));

        assert_eq!(log.lines().len(), MAX_LINES + 1);
        assert_eq!(log.lines().last().map(String::len), Some(MAX_LINE_BYTES));
    }
}
