//! The last of what a sandbox's commands wrote, as lines that no terminal obeys.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{OutputEvent, OutputPage};

use crate::documents::word;
use crate::table::harmless;

/// Lines that are kept, and how much of a line.
const MOST_LINES: usize = 2_000;
const LONGEST_LINE: usize = 4_096;

#[derive(Default)]
pub(super) struct Log {
    lines: VecDeque<String>,
    read: Vec<Read>,
}

/// How far one execution was read.
struct Read {
    execution: String,
    after: u64,
    is_over: bool,
    /// A line that has not ended yet.
    begun: Vec<u8>,
}

/// Which execution is meant.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

impl Log {
    pub(super) fn begin(&mut self, execution: &str, command: &[String]) -> Place {
        if let Some(place) = self.read.iter().position(|it| it.execution == execution) {
            return Place(place);
        }
        self.push(format!("--- {execution}: {}", harmless(&command.join(" "))));
        let execution = execution.to_owned();
        self.read.push(Read { execution, after: 0, is_over: false, begun: Vec::new() });
        Place(self.read.len() - 1)
    }

    pub(super) fn after(&self, place: Place) -> u64 {
        self.read[place.0].after
    }

    pub(super) fn add(&mut self, Place(place): Place, page: &OutputPage) {
        self.read[place].after = page.next;
        for event in &page.events {
            match event {
                OutputEvent::Stdout { text, base64, .. } | OutputEvent::Stderr { text, base64, .. } => {
                    self.write(place, &bytes(text.as_deref(), base64.as_deref()));
                }
                OutputEvent::Gap { bytes, .. } => self.push(format!("--- {bytes} bytes were not kept")),
                OutputEvent::Exit { cause, exit_code, .. } => {
                    self.end_line(place);
                    let code = exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
                    self.push(format!("--- ended: {}{code}", word(cause)));
                }
                OutputEvent::Error { message, .. } => self.push(format!("--- {}", harmless(message))),
            }
        }
        if page.ended {
            self.read[place].is_over = true;
        }
    }

    /// Nothing more comes of it.
    pub(super) fn is_over(&self, place: Place) -> bool {
        self.read[place.0].is_over
    }

    fn write(&mut self, place: usize, bytes: &[u8]) {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let first = parts.next().unwrap_or_default();
        self.extend(place, first);
        for part in parts {
            self.end_line(place);
            self.extend(place, part);
        }
    }

    fn extend(&mut self, place: usize, bytes: &[u8]) {
        let begun = &mut self.read[place].begun;
        let room = LONGEST_LINE.saturating_sub(begun.len());
        begun.extend(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, place: usize) {
        let line = std::mem::take(&mut self.read[place].begun);
        if !line.is_empty() {
            self.push(harmless(String::from_utf8_lossy(&line).trim_end_matches('\r')));
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// With the lines that have not ended yet.
    pub(super) fn lines(&self) -> Vec<String> {
        let begun = self.read.iter().filter(|it| !it.begun.is_empty());
        let begun = begun.map(|it| harmless(&String::from_utf8_lossy(&it.begun)));
        self.lines.iter().cloned().chain(begun).collect()
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
    fn a_line_that_comes_in_pieces_is_one_line_and_obeyed_by_nobody() {
        let mut log = Log::default();
        let place = log.begin("exe_1", &["sh".into()]);

        log.add(place, &page(&["on", "e\ntwo\u{1b}[2J\nthr"]));

        assert_eq!(log.lines(), ["--- exe_1: sh", "one", "two\\u{1b}[2J", "thr"]);
        assert_eq!(log.after(place), 2);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut log = Log::default();
        let place = log.begin("exe_1", &[]);
        let much = "x\n".repeat(MOST_LINES * 2) + &"y".repeat(LONGEST_LINE * 3);

        log.add(place, &page(&[&much]));

        assert_eq!(log.lines().len(), MOST_LINES + 1);
        assert_eq!(log.lines().last().map(String::len), Some(LONGEST_LINE));
    }
}
