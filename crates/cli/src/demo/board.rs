//! How the five are doing while they are at it: a table that is drawn over and over on a terminal, or a line for
//! each change where there is none.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use pinfold_lifecycle::{SandboxId, State, Timestamp, status};
use pinfold_provider::Usage;
use pinfold_server::Host;
use pinfold_store::{Row, Store};
use rustix::termios::tcgetwinsize;

use super::agents::Agent;
use super::verdict::{Ended, mebibytes, seconds};
use crate::documents::word;
use crate::table::lay_out;

/// How long a body is asked what it uses before a line goes without it.
const ASK_USAGE: Duration = Duration::from_millis(200);

pub(super) struct Board {
    how: How,
    lines: Vec<Line>,
    began: Option<Timestamp>,
    /// Lines of the last drawing, to be drawn over.
    drawn: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Redrawn,
    LineByLine,
    Silent,
}

struct Line {
    name: &'static str,
    does: &'static str,
    sandbox: SandboxId,
    state: String,
    is_over: bool,
    cpu: String,
    memory: String,
    last: Option<(Timestamp, u64)>,
}

impl Board {
    pub(super) fn of(json: bool, data: &Path, no_memory_limit: Option<&String>) -> Self {
        let how = match json {
            true => How::Silent,
            false if std::io::stdout().is_terminal() => How::Redrawn,
            false => How::LineByLine,
        };
        let board = Self { how, lines: Vec::new(), began: None, drawn: 0 };
        board.say("Five agents, each in a sandbox of its own.");
        board.say(&format!("To look in: pinfold --data-dir {} top", data.display()));
        if let Some(why) = no_memory_limit {
            board.say(&format!(
                "Memory cannot be limited here ({why}). The one that leaks is ended by its time instead."
            ));
        }
        board.say("");
        board
    }

    /// Whoever does not listen any more misses nothing but words.
    pub(super) fn say(&self, what: &str) {
        if self.how != How::Silent {
            let _ = writeln!(std::io::stdout(), "{}", what.trim_end());
        }
    }

    pub(super) fn add(&mut self, agent: &Agent, sandbox: SandboxId) {
        self.lines.push(Line {
            name: agent.name,
            does: agent.does,
            sandbox,
            state: String::new(),
            is_over: false,
            cpu: "-".into(),
            memory: "-".into(),
            last: None,
        });
    }

    pub(super) fn end(&mut self, place: usize, ended: &Ended, now: Timestamp) {
        let line = &mut self.lines[place];
        line.is_over = true;
        line.cpu = "-".into();
        line.memory = "-".into();
        let state = format!("gone: {}", word(&ended.cause));
        self.change(place, self.began.map_or(0, |began| now.ms_since(began)), state);
    }

    fn change(&mut self, place: usize, at_ms: u64, state: String) {
        let line = &mut self.lines[place];
        if line.state == state {
            return;
        }
        line.state = state;
        if self.how == How::LineByLine {
            let said = format!("{:>6}  {:8} {}", seconds(at_ms), line.name, line.state);
            self.say(&said);
        }
    }

    pub(super) async fn draw(&mut self, host: &Host) -> anyhow::Result<()> {
        let now = host.clock.now();
        let began = *self.began.get_or_insert(now);
        for place in 0..self.lines.len() {
            if self.lines[place].is_over {
                continue;
            }
            if let Some(Row::Readable(stored)) = host.store.load(self.lines[place].sandbox).await? {
                let seen = status(&stored.sandbox, now, &stored.policy);
                // What has ended is told with its cause, once it is seen through.
                if !matches!(seen.state, State::Completed | State::Failed | State::Terminated) {
                    self.change(place, now.ms_since(began), word(&seen.state));
                }
            }
            if self.how == How::Redrawn {
                self.lines[place].measure(host).await;
            }
        }
        if self.how == How::Redrawn {
            self.redraw(now.ms_since(began));
        }
        Ok(())
    }

    fn redraw(&mut self, at_ms: u64) {
        let titles = ["AGENT", "", "STATE", "CPU", "MEMORY"].map(str::to_owned).to_vec();
        let cells = |it: &Line| {
            vec![it.name.to_owned(), it.does.to_owned(), it.state.clone(), it.cpu.clone(), it.memory.clone()]
        };
        let rows: Vec<_> = std::iter::once(titles).chain(self.lines.iter().map(cells)).collect();
        let table = format!("{}{}\n", lay_out(&rows), seconds(at_ms));
        // A line that were wrapped would be two to draw over.
        let columns = tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col.max(20)));
        let mut text = String::new();
        if self.drawn > 0 {
            text = format!("\u{1b}[{}A", self.drawn);
        }
        for line in table.lines() {
            text.extend(line.chars().take(columns - 1));
            text.push_str("\u{1b}[K\n");
        }
        self.drawn = table.lines().count();
        let mut out = std::io::stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    pub(super) fn close(&self, why: &str) {
        self.say(why);
    }
}

impl Line {
    async fn measure(&mut self, host: &Host) {
        let asked = tokio::time::timeout(ASK_USAGE, host.engine.usage(self.sandbox)).await;
        let Ok(Ok(Usage { cpu_ms, memory_bytes, .. })) = asked else { return };
        let now = host.clock.now();
        if let Some(bytes) = memory_bytes {
            self.memory = mebibytes(bytes);
        }
        let Some(cpu_ms) = cpu_ms else { return };
        if let Some((before, was_ms)) = self.last.replace((now, cpu_ms)) {
            let between = now.ms_since(before).max(1);
            self.cpu = format!("{} %", 100 * cpu_ms.saturating_sub(was_ms) / between);
        }
    }
}
