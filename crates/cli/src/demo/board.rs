//! Progress of the demo agents: a redrawn table on a terminal, else one line per state change.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use pinfold_lifecycle::{SandboxId, State, Timestamp, status};
use pinfold_provider::Usage;
use pinfold_service::Host;
use pinfold_store::Row;
use rustix::termios::tcgetwinsize;

use super::agents::Agent;
use super::report::{EndedAgent, mebibytes, seconds};
use crate::json_output::wire_name;
use crate::table::format_table;

/// Timeout for reading an instance's resource usage.
const MEASURE_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) struct Board {
    mode: DisplayMode,
    rows: Vec<AgentRow>,
    began: Option<Timestamp>,
    /// Number of lines of the last drawing, which the next one overwrites.
    drawn: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DisplayMode {
    Redrawn,
    LineByLine,
    Silent,
}

struct AgentRow {
    name: &'static str,
    does: &'static str,
    sandbox: SandboxId,
    state: String,
    ended: bool,
    cpu: String,
    memory: String,
    last: Option<(Timestamp, u64)>,
}

impl Board {
    pub(super) fn of(json: bool, data: &Path, no_memory_limit: Option<&String>) -> Self {
        let mode = match json {
            true => DisplayMode::Silent,
            false if std::io::stdout().is_terminal() => DisplayMode::Redrawn,
            false => DisplayMode::LineByLine,
        };
        let board = Self { mode, rows: Vec::new(), began: None, drawn: 0 };
        board.say("Five agents, each in its own sandbox.");
        board.say(&format!("To watch them: pinfold --data-dir {} top", data.display()));
        if let Some(why) = no_memory_limit {
            board.say(&format!(
                "Memory cannot be limited here ({why}). The leaking agent ends by its timeout instead."
            ));
        }
        board.say("");
        board
    }

    /// Prints a line. An output that was closed is ignored.
    pub(super) fn say(&self, what: &str) {
        if self.mode != DisplayMode::Silent {
            let _ = writeln!(std::io::stdout(), "{}", what.trim_end());
        }
    }

    pub(super) fn add(&mut self, agent: &Agent, sandbox: SandboxId) {
        self.rows.push(AgentRow {
            name: agent.name,
            does: agent.does,
            sandbox,
            state: String::new(),
            ended: false,
            cpu: "-".into(),
            memory: "-".into(),
            last: None,
        });
    }

    pub(super) fn end(&mut self, index: usize, ended: &EndedAgent, now: Timestamp) {
        let row = &mut self.rows[index];
        row.ended = true;
        row.cpu = "-".into();
        row.memory = "-".into();
        let state = format!("gone: {}", wire_name(&ended.cause));
        self.change(index, self.began.map_or(0, |began| now.ms_since(began)), state);
    }

    fn change(&mut self, index: usize, at_ms: u64, state: String) {
        let row = &mut self.rows[index];
        if row.state == state {
            return;
        }
        row.state = state;
        if self.mode == DisplayMode::LineByLine {
            let text = format!("{:>6}  {:8} {}", seconds(at_ms), row.name, row.state);
            self.say(&text);
        }
    }

    pub(super) async fn draw(&mut self, host: &Host) -> anyhow::Result<()> {
        let now = host.clock.now();
        let began = *self.began.get_or_insert(now);
        for index in 0..self.rows.len() {
            if self.rows[index].ended {
                continue;
            }
            if let Some(Row::Readable(stored)) = host.store.load(self.rows[index].sandbox).await? {
                let seen = status(&stored.sandbox, now, &stored.policy);
                // Final states are shown with their cause by `end`.
                if !matches!(seen.state, State::Completed | State::Failed | State::Terminated) {
                    self.change(index, now.ms_since(began), wire_name(&seen.state));
                }
            }
            if self.mode == DisplayMode::Redrawn {
                self.rows[index].measure(host).await;
            }
        }
        if self.mode == DisplayMode::Redrawn {
            self.redraw(now.ms_since(began));
        }
        Ok(())
    }

    fn redraw(&mut self, at_ms: u64) {
        let titles = ["AGENT", "", "STATE", "CPU", "MEMORY"].map(str::to_owned).to_vec();
        let cells = |it: &AgentRow| {
            vec![it.name.to_owned(), it.does.to_owned(), it.state.clone(), it.cpu.clone(), it.memory.clone()]
        };
        let rows: Vec<_> = std::iter::once(titles).chain(self.rows.iter().map(cells)).collect();
        let table = format!("{}{}\n", format_table(&rows), seconds(at_ms));
        // A wrapped line would take two lines to overwrite.
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

impl AgentRow {
    async fn measure(&mut self, host: &Host) {
        let command = tokio::time::timeout(MEASURE_TIMEOUT, host.engine.usage(self.sandbox)).await;
        let Ok(Ok(Usage { cpu_ms, memory_bytes, .. })) = command else { return };
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
