//! One start of the machine: it verifies what the last power cut has left, runs the load, and has its power cut.

use std::time::Duration;

use anyhow::Result;

use super::disks::Disks;
use crate::test::machine::{ConsoleEvent, Emulator, Machine, now};

/// From one start to the next, on a busy host.
const TIMEOUT: Duration = Duration::from_secs(240);
/// How long a machine that reported a violation may still print.
const DRAIN_TIME: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Console lines to show of a failed machine.
const LINES: usize = 40;

pub(super) struct Round<'a> {
    pub(super) machine: &'a Machine,
    pub(super) disks: &'a Disks,
    pub(super) seed: u64,
    pub(super) rng: fastrand::Rng,
}

/// A round's summary, and its violations.
type RoundReport = (String, Vec<String>);

/// When the power is cut.
#[derive(Debug)]
enum Moment {
    /// So many milliseconds after the server was started, while it recovers from the last cut.
    Recovering(u64),
    /// Under load, after so many more ledger entries and so many milliseconds.
    Working(usize, u64),
}

/// What the machine's console has printed so far.
#[derive(Default)]
struct ConsoleLog {
    messages: Vec<String>,
    violations: Vec<String>,
    others: Vec<String>,
    is_off: bool,
}

impl Round<'_> {
    pub(super) fn cut_short(mut self) -> Result<RoundReport> {
        let moment = match self.rng.u8(0..4) {
            0 => Moment::Recovering(self.rng.u64(0..4_000)),
            _ => Moment::Working(self.rng.usize(5..120), self.rng.u64(0..300)),
        };
        let emulator = self.start("")?;
        let mut console = ConsoleLog::default();
        let ms = match moment {
            Moment::Recovering(ms) => {
                console.listen(&emulator, |console| Ok(console.have("started")))?;
                ms
            }
            Moment::Working(entries, ms) => {
                console.listen(&emulator, |console| Ok(console.have("load")))?;
                let enough = self.disks.entries()? + entries;
                console.listen(&emulator, |_| Ok(self.disks.entries()? >= enough))?;
                ms
            }
        };
        let end = now() + Duration::from_millis(ms);
        console.listen(&emulator, |_| Ok(now() >= end))?;
        drop(emulator);
        let left = self.disks.apply_power_cut(&mut self.rng)?;
        let summary = format!(
            "{}; cut {moment:?} with {} ledger entries, {} flushes, then {} writes of which {} were lost",
            console.verification(),
            self.disks.entries()?,
            left.flushes,
            left.in_doubt,
            left.lost
        );
        Ok((summary, console.violations()))
    }

    /// Without a cut: the last verification, and a clean shutdown.
    pub(super) fn finish(self) -> Result<RoundReport> {
        let emulator = self.start("LAST=yes")?;
        let mut console = ConsoleLog::default();
        console.listen(&emulator, |console| Ok(console.have("done")))?;
        Ok((format!("{}; clean shutdown", console.verification()), console.violations()))
    }

    fn start(&self, kernel_args: &str) -> Result<Emulator> {
        self.machine.start(&format!("SEED={} {kernel_args}", self.seed), &self.disks.drives()?)
    }
}

impl ConsoleLog {
    /// Reads the console until the condition holds, a violation is reported, or the time is up.
    fn listen(&mut self, emulator: &Emulator, condition: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let mut end = now() + TIMEOUT;
        while !(self.is_off || self.violations.is_empty() && condition(self)?) {
            match emulator.next_line((now() + POLL_INTERVAL).min(end)) {
                ConsoleEvent::Line(line) => {
                    if self.take_line(&line) {
                        end = end.min(now() + DRAIN_TIME);
                    }
                }
                ConsoleEvent::Nothing if now() >= end => {
                    if self.violations.is_empty() {
                        self.violations.push(format!("no progress within {} seconds", TIMEOUT.as_secs()));
                    }
                    return Ok(());
                }
                ConsoleEvent::Nothing => {}
                ConsoleEvent::End => self.is_off = true,
            }
        }
        if self.is_off && self.violations.is_empty() && !condition(self)? {
            self.violations.push("the machine powered off by itself".to_owned());
        }
        Ok(())
    }

    /// Returns whether the line reports a violation.
    fn take_line(&mut self, line: &str) -> bool {
        match line.strip_prefix("power: ") {
            None => self.others.push(line.to_owned()),
            Some(message) => match message.strip_prefix("broken ") {
                Some(violation) => {
                    self.violations.push(violation.to_owned());
                    return true;
                }
                None => self.messages.push(message.to_owned()),
            },
        }
        false
    }

    fn have(&self, word: &str) -> bool {
        self.messages.iter().any(|message| message == word)
    }

    fn verification(&self) -> String {
        let verified = self.messages.iter().find(|message| message.starts_with("verified "));
        verified.cloned().unwrap_or_else(|| "not verified".to_owned())
    }

    /// The violations, with the end of the console output if there are any.
    fn violations(mut self) -> Vec<String> {
        if !self.violations.is_empty() {
            let first = self.others.len().saturating_sub(LINES);
            self.violations.extend(self.others.drain(first..).map(|line| format!("console: {line}")));
        }
        self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_messages_and_other_lines_are_separated() {
        let mut console = ConsoleLog::default();

        let is_violation =
            ["power: load", "power: broken lost: sbx_a", "[ 1.0] panic"].map(|line| console.take_line(line));

        assert_eq!(is_violation, [false, true, false]);
        assert!(console.have("load"));
        assert_eq!(console.violations(), ["lost: sbx_a", "console: [ 1.0] panic"]);
    }

    #[test]
    fn an_ordinary_console_line_is_no_violation() {
        let mut console = ConsoleLog::default();

        console.take_line("random: crng init done");

        assert_eq!(console.violations(), Vec::<String>::new());
    }
}
