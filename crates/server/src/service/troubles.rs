//! What is wrong with a sandbox, from what was seen of it: what was seen, what that means, and the command that puts it
//! right. The likeliest cause comes first: what would explain the others goes before them.

use pinfold_api::{Sandbox, State, Trouble, TroubleKind, Verdict};
use pinfold_linux::{Doing, Examined, Fault, ProcessState};
use pinfold_logs::printable;

use super::diagnosis::{Signs, diagnose};
use super::known_messages::KNOWN_MESSAGES;
use super::logs::shortened;

/// How many processes are named.
const NAMED: usize = 3;
/// Nobody types so slowly.
const QUIET_MS: u64 = 5_000;

/// What was seen of a sandbox. What could not be seen is missing.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) signs: Option<Signs>,
    /// Processes, and how many there may be.
    pub(super) processes: Option<(u64, u64)>,
    pub(super) inside: Vec<Doing>,
    /// The end of what its last commands wrote.
    pub(super) written: String,
}

pub(super) fn troubles(sandbox: &Sandbox, probes: &[Examined], seen: &Seen) -> Vec<Trouble> {
    let case = Case { id: &sandbox.id, sandbox, probes, seen };
    // All else that is seen of such a one follows from it.
    if let Some(alone) = case.unreadable().or_else(|| case.quarantined()).or_else(|| case.keeper()) {
        return vec![alone];
    }
    let found = [case.stopped(), case.uninterruptible(), case.disk(), case.process_count()];
    let found = found.into_iter().chain(case.broken()).chain([case.figures(), case.input(), case.hung()]);
    let mut troubles: Vec<Trouble> = found.flatten().collect();
    for trouble in case.messages().chain(case.timeouts()) {
        if troubles.iter().all(|known| known.kind != trouble.kind) {
            troubles.push(trouble);
        }
    }
    troubles
}

struct Case<'a> {
    id: &'a str,
    sandbox: &'a Sandbox,
    probes: &'a [Examined],
    seen: &'a Seen,
}

impl Case<'_> {
    fn of(&self, kind: TroubleKind, saw: String, means: &str, resolve: String) -> Trouble {
        Trouble { kind, saw: printable(&saw), means: means.to_owned(), resolve }
    }

    fn end_it(&self) -> String {
        format!("pinfold stop {}", self.id)
    }

    fn end_it_at_once(&self) -> String {
        format!("pinfold stop --force {}, and make another; what it wrote is in its log", self.id)
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.sandbox.flags.iter().any(|it| it == flag)
    }

    fn unreadable(&self) -> Option<Trouble> {
        let saw = "its record cannot be read".to_owned();
        let resolve = "pinfold reconcile".to_owned();
        self.has_flag("unreadable").then(|| {
            self.of(TroubleKind::Unreadable, saw, "its record is damaged, or of a later version", resolve)
        })
    }

    fn quarantined(&self) -> Option<Trouble> {
        let saw = self.sandbox.status.message.clone();
        let id = self.id;
        let resolve = format!(
            "pinfold stop --force {id} tries once more; look at what is left, and pinfold stop --attest --reason … \
             {id} once you know that it is gone"
        );
        (self.sandbox.status.state == State::Quarantined)
            .then(|| self.of(TroubleKind::Quarantined, saw, "it could not be proven gone", resolve))
    }

    fn failed(&self, fault: Fault) -> impl Iterator<Item = &Examined> {
        self.probes.iter().filter(move |probe| probe.fault == Some(fault))
    }

    fn keeper(&self) -> Option<Trouble> {
        let gone = self.failed(Fault::KeeperGone).next().map(|probe| {
            let means = "the process that keeps it is gone, and all that ran in it went along";
            self.of(TroubleKind::KeeperGone, saw(probe), means, "pinfold reconcile".to_owned())
        });
        let silent = || {
            let probe = self.failed(Fault::KeeperSilent).next()?;
            let means = "the process that keeps it is there and does not answer: stopped, or starved";
            Some(self.of(TroubleKind::KeeperSilent, saw(probe), means, self.end_it_at_once()))
        };
        gone.or_else(silent)
    }

    fn broken(&self) -> impl Iterator<Item = Option<Trouble>> {
        let place = self.failed(Fault::Place).next().map(|probe| {
            let means = "a place that everything in it needs is missing, or no file can be written there";
            self.of(TroubleKind::PlaceMissing, saw(probe), means, self.end_it_at_once())
        });
        let command = self.failed(Fault::Command).next().map(|probe| {
            let means = "no command can be run in it";
            self.of(TroubleKind::CommandFails, saw(probe), means, self.end_it_at_once())
        });
        let unseen = self.failed(Fault::Unseen).next().map(|probe| {
            let means = "something about it could not be seen";
            self.of(TroubleKind::Unseen, saw(probe), means, "pinfold reconcile".to_owned())
        });
        [place, command, unseen].into_iter()
    }

    fn doing(&self, what: impl Fn(&Doing) -> bool) -> Vec<&Doing> {
        self.seen.inside.iter().filter(|it| what(it)).collect()
    }

    fn stopped(&self) -> Option<Trouble> {
        let stopped = self.doing(|it| it.state == ProcessState::Stopped);
        let saw = format!("{} of {} processes: {}", stopped.len(), self.seen.inside.len(), named(&stopped));
        let means = "processes in it were stopped by a signal, and do nothing until somebody continues them";
        let resolve =
            format!("send CONT to its execution (POST /api/executions/…/signal), or {}", self.end_it());
        (!stopped.is_empty()).then(|| self.of(TroubleKind::Stopped, saw, means, resolve))
    }

    fn uninterruptible(&self) -> Option<Trouble> {
        let stuck = self.doing(|it| it.state == ProcessState::Uninterruptible);
        let is_still = self.seen.signs.is_some_and(|signs| is_quiet(&signs));
        let means =
            "processes in it wait in the kernel, for a disk or for each other, where no signal reaches them";
        (is_still && !stuck.is_empty())
            .then(|| self.of(TroubleKind::Uninterruptible, named(&stuck), means, self.end_it_at_once()))
    }

    fn disk(&self) -> Option<Trouble> {
        let probe = self.failed(Fault::DiskFull).next()?;
        let resolve = format!(
            "remove files in it (pinfold exec {} -- rm …), or make one with a larger --disk",
            self.id
        );
        Some(self.of(TroubleKind::DiskFull, saw(probe), "its disk is full", resolve))
    }

    fn process_count(&self) -> Option<Trouble> {
        let (used, limit) = self.seen.processes.filter(|(used, limit)| used >= limit)?;
        let all: Vec<_> = self.seen.inside.iter().collect();
        let saw = format!("{used} of {limit} processes: {}", named(&all));
        let means = "it has as many processes as it may: a fork bomb, or children that nobody waits for";
        Some(self.of(TroubleKind::ProcessesFull, saw, means, self.end_it()))
    }

    /// What its figures say by themselves.
    fn figures(&self) -> Option<Trouble> {
        let signs = self.seen.signs?;
        let (verdict, means) = diagnose(&signs);
        let saw = self.in_figures(&signs);
        match verdict {
            Verdict::Leaking => Some(self.of(TroubleKind::Leaking, saw, &means, self.end_it())),
            Verdict::Busy => Some(self.of(TroubleKind::Busy, saw, &means, self.end_it())),
            Verdict::Healthy | Verdict::Hung | Verdict::Silent | Verdict::Idle | Verdict::Ended => None,
        }
    }

    fn input(&self) -> Option<Trouble> {
        let reads = self.doing(|it| it.waits_for_input);
        let signs = self.seen.signs.filter(is_quiet)?;
        let saw = format!("{}; {}", named(&reads), self.in_figures(&signs));
        let means = "it reads its input, and nobody writes: an agent that asks something, most of the time";
        let resolve = format!("give it its input (pinfold exec -i …), or {}", self.end_it());
        (signs.executions > 0 && !reads.is_empty())
            .then(|| self.of(TroubleKind::WaitsForInput, saw, means, resolve))
    }

    fn hung(&self) -> Option<Trouble> {
        let signs = self.seen.signs?;
        let (verdict, means) = diagnose(&signs);
        let reads = self.seen.inside.iter().any(|it| it.waits_for_input);
        let waiting = self.doing(|it| it.waits_in.is_some());
        let sockets: usize = self.seen.inside.iter().map(|it| it.sockets).sum();
        let saw = format!("{}; {}, {sockets} open sockets", self.in_figures(&signs), named(&waiting));
        (verdict == Verdict::Hung && !reads).then(|| self.of(TroubleKind::Hung, saw, &means, self.end_it()))
    }

    fn in_figures(&self, signs: &Signs) -> String {
        let cpu = signs.cpu_percent.map(|percent| format!("processor at {percent:.1} %"));
        let memory = signs.memory_mb.map(|mb| match signs.memory_limit_mb {
            Some(limit) => format!("{mb:.0} of {limit:.0} MiB of memory"),
            None => format!("{mb:.0} MiB of memory"),
        });
        let quiet = signs.quiet_ms.map(|ms| format!("nothing written for {} s", ms / 1_000));
        [cpu, memory, quiet].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn messages(&self) -> impl Iterator<Item = Trouble> {
        let lines = || self.seen.written.lines().rev();
        KNOWN_MESSAGES.iter().filter_map(move |known| {
            let line = lines().find(|line| known.is_in(line))?;
            let saw = format!("its log says: {}", shortened(line));
            let means = format!("likely {}", known.cause);
            let resolve = match known.kind {
                TroubleKind::NoNetwork => "bring along what it fetches: images, files, artifacts".to_owned(),
                _ => format!("pinfold logs {}, and then {}", self.id, self.end_it()),
            };
            Some(self.of(known.kind, saw, &means, resolve))
        })
    }

    fn timeouts(&self) -> Option<Trouble> {
        let saw = "more than one of its commands took too long".to_owned();
        let means = "work that does not fit into its time, or hangs again and again";
        let resolve = format!("pinfold logs {}; a larger --timeout, or smaller steps", self.id);
        self.has_flag("repeated_timeouts")
            .then(|| self.of(TroubleKind::RepeatedTimeouts, saw, means, resolve))
    }
}

fn saw(probe: &Examined) -> String {
    format!("{}: {}", probe.probe, probe.answer)
}

fn is_quiet(signs: &Signs) -> bool {
    signs.quiet_ms.is_some_and(|ms| ms >= QUIET_MS) && signs.operations == 0
}

/// The first of them, and how many more there are.
fn named(processes: &[&Doing]) -> String {
    let one = |it: &&Doing| match &it.waits_in {
        Some(place) => format!("{} waits in {place}", it.name),
        None => it.name.clone(),
    };
    let more = processes.len().saturating_sub(NAMED);
    let names: Vec<_> = processes.iter().take(NAMED).map(one).collect();
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{and_more}", names.join(", "))
}

#[cfg(test)]
mod tests;
