//! One start of the machine: it judges what the last power cut has left, goes to work, and has its power cut.

use std::time::Duration;

use anyhow::Result;

use super::disks::Disks;
use crate::test::machine::{Emulator, Heard, Machine, now};

/// From one start to the next, on a host that does other things, too.
const PATIENCE: Duration = Duration::from_secs(240);
/// What a machine that has found something may still want to say.
const LAST_WORDS: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Lines for people, of a machine that failed.
const LINES: usize = 40;

pub(super) struct Round<'a> {
    pub(super) machine: &'a Machine,
    pub(super) disks: &'a Disks,
    pub(super) seed: u64,
    pub(super) rng: fastrand::Rng,
}

/// What there is to tell of a round, and what was broken.
type Told = (String, Vec<String>);

/// When the power is cut.
#[derive(Debug)]
enum Moment {
    /// So many milliseconds after the server was started: it finds out what the last cut has left.
    Recovering(u64),
    /// Under load, when so many more notes are in the ledger, and so many milliseconds have passed.
    Working(usize, u64),
}

/// What was heard of the machine so far.
#[derive(Default)]
struct Ears {
    words: Vec<String>,
    broken: Vec<String>,
    others: Vec<String>,
    is_off: bool,
}

impl Round<'_> {
    pub(super) fn cut_short(mut self) -> Result<Told> {
        let moment = match self.rng.u8(0..4) {
            0 => Moment::Recovering(self.rng.u64(0..4_000)),
            _ => Moment::Working(self.rng.usize(5..120), self.rng.u64(0..300)),
        };
        let emulator = self.start("")?;
        let mut ears = Ears::default();
        let ms = match moment {
            Moment::Recovering(ms) => {
                ears.listen(&emulator, |ears| Ok(ears.have("started")))?;
                ms
            }
            Moment::Working(notes, ms) => {
                ears.listen(&emulator, |ears| Ok(ears.have("load")))?;
                let enough = self.disks.notes()? + notes;
                ears.listen(&emulator, |_| Ok(self.disks.notes()? >= enough))?;
                ms
            }
        };
        let end = now() + Duration::from_millis(ms);
        ears.listen(&emulator, |_| Ok(now() >= end))?;
        drop(emulator);
        let left = self.disks.lose(&mut self.rng)?;
        let told = format!(
            "{}; cut {moment:?} with {} notes, {} flushes, then {} writes of which {} were lost",
            ears.judgement(),
            self.disks.notes()?,
            left.flushes,
            left.in_doubt,
            left.lost
        );
        Ok((told, ears.complaints()))
    }

    /// Without a cut: judged for the last time, and ended in order.
    pub(super) fn run_out(self) -> Result<Told> {
        let emulator = self.start("LAST=yes")?;
        let mut ears = Ears::default();
        ears.listen(&emulator, |ears| Ok(ears.have("done")))?;
        Ok((format!("{}; ended in order", ears.judgement()), ears.complaints()))
    }

    fn start(&self, words: &str) -> Result<Emulator> {
        self.machine.start(&format!("SEED={} {words}", self.seed), &self.disks.plug_in()?)
    }
}

impl Ears {
    /// Until it is so, or will not be.
    fn listen(&mut self, emulator: &Emulator, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let mut end = now() + PATIENCE;
        while !(self.is_off || self.broken.is_empty() && is_so(self)?) {
            match emulator.hear((now() + LOOK_EVERY).min(end)) {
                Heard::Line(line) => {
                    if self.hear(&line) {
                        end = end.min(now() + LAST_WORDS);
                    }
                }
                Heard::Nothing if now() >= end => {
                    if self.broken.is_empty() {
                        self.broken.push(format!("nothing came of it within {} seconds", PATIENCE.as_secs()));
                    }
                    return Ok(());
                }
                Heard::Nothing => {}
                Heard::End => self.is_off = true,
            }
        }
        if self.is_off && self.broken.is_empty() && !is_so(self)? {
            self.broken.push("the machine went off by itself".to_owned());
        }
        Ok(())
    }

    /// Whether it is a complaint.
    fn hear(&mut self, line: &str) -> bool {
        match line.strip_prefix("power: ") {
            None => self.others.push(line.to_owned()),
            Some(said) => match said.strip_prefix("broken ") {
                Some(complaint) => {
                    self.broken.push(complaint.to_owned());
                    return true;
                }
                None => self.words.push(said.to_owned()),
            },
        }
        false
    }

    fn have(&self, word: &str) -> bool {
        self.words.iter().any(|said| said == word)
    }

    fn judgement(&self) -> String {
        let judged = self.words.iter().find(|said| said.starts_with("judged "));
        judged.cloned().unwrap_or_else(|| "not judged".to_owned())
    }

    /// With what else the console said, if there are any.
    fn complaints(mut self) -> Vec<String> {
        if !self.broken.is_empty() {
            let first = self.others.len().saturating_sub(LINES);
            self.broken.extend(self.others.drain(first..).map(|line| format!("console: {line}")));
        }
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_words_and_the_rest_are_told_apart() {
        let mut ears = Ears::default();

        let is_complaint =
            ["power: load", "power: broken lost: sbx_a", "[ 1.0] panic"].map(|line| ears.hear(line));

        assert_eq!(is_complaint, [false, true, false]);
        assert!(ears.have("load"));
        assert_eq!(ears.complaints(), ["lost: sbx_a", "console: [ 1.0] panic"]);
    }

    #[test]
    fn what_a_machine_says_that_is_well_is_no_complaint() {
        let mut ears = Ears::default();

        ears.hear("random: crng init done");

        assert_eq!(ears.complaints(), Vec::<String>::new());
    }
}
