//! Diagnosis of a sandbox: what was observed, what it means, and the command that resolves it. Problems that explain
//! others come first.

use pinfold_api::{Sandbox, State, Trouble, TroubleKind, Verdict};
use pinfold_logs::escape_text;
use pinfold_provider::{InstanceFault, ProbeReport, ProcessInfo, ProcessState};

use super::log_patterns::LOG_PATTERNS;
use super::logs::shortened;
use super::usage_verdict::{Signs, judge_usage};

/// How many processes are listed by name.
const NAMED: usize = 3;
/// Longer than a pause between two keystrokes.
const QUIET_MS: u64 = 5_000;

/// What was observed of a sandbox. Values that could not be observed are missing.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations {
    pub(super) signs: Option<Signs>,
    /// The number of processes, and their limit.
    pub(super) processes: Option<(u64, u64)>,
    pub(super) inside: Vec<ProcessInfo>,
    /// The end of the output of its last commands.
    pub(super) written: String,
}

pub(super) fn diagnose(sandbox: &Sandbox, probes: &[ProbeReport], observed: &Observations) -> Vec<Trouble> {
    let case = Case { id: &sandbox.id, sandbox, probes, observed };
    // All other symptoms follow from one of these.
    if let Some(alone) = case.unreadable().or_else(|| case.quarantined()).or_else(|| case.keeper()) {
        return vec![alone];
    }
    let found = [case.stopped(), case.uninterruptible(), case.disk(), case.process_count()];
    let found =
        found.into_iter().chain(case.probe_failures()).chain([case.usage(), case.input(), case.hung()]);
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
    probes: &'a [ProbeReport],
    observed: &'a Observations,
}

impl Case<'_> {
    fn of(&self, kind: TroubleKind, saw: String, means: &str, resolve: String) -> Trouble {
        Trouble { kind, saw: escape_text(&saw), means: means.to_owned(), resolve }
    }

    fn stop_command(&self) -> String {
        format!("pinfold stop {}", self.id)
    }

    fn force_stop_command(&self) -> String {
        format!("pinfold stop --force {}, and create another; its output stays in its log", self.id)
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.sandbox.flags.iter().any(|it| it == flag)
    }

    fn unreadable(&self) -> Option<Trouble> {
        let saw = "its record cannot be read".to_owned();
        let resolve = "pinfold reconcile".to_owned();
        self.has_flag("unreadable").then(|| {
            self.of(
                TroubleKind::Unreadable,
                saw,
                "its record is damaged or was written by a later version",
                resolve,
            )
        })
    }

    fn quarantined(&self) -> Option<Trouble> {
        let saw = self.sandbox.status.message.clone();
        let id = self.id;
        let resolve = format!(
            "pinfold stop --force {id} tries once more; check what is left, and run pinfold stop --attest --reason … \
             {id} once you know that it is gone"
        );
        (self.sandbox.status.state == State::Quarantined)
            .then(|| self.of(TroubleKind::Quarantined, saw, "it could not be proven gone", resolve))
    }

    fn failed(&self, fault: InstanceFault) -> impl Iterator<Item = &ProbeReport> {
        self.probes.iter().filter(move |probe| probe.fault == Some(fault))
    }

    fn keeper(&self) -> Option<Trouble> {
        let gone = self.failed(InstanceFault::KeeperGone).next().map(|probe| {
            let means = "its keeper (process 1) is gone, and all its processes with it";
            self.of(TroubleKind::KeeperGone, saw(probe), means, "pinfold reconcile".to_owned())
        });
        let silent = || {
            let probe = self.failed(InstanceFault::KeeperSilent).next()?;
            let means = "its keeper (process 1) exists but does not answer: stopped, or starved of CPU";
            Some(self.of(TroubleKind::KeeperSilent, saw(probe), means, self.force_stop_command()))
        };
        gone.or_else(silent)
    }

    fn probe_failures(&self) -> impl Iterator<Item = Option<Trouble>> {
        let place = self.failed(InstanceFault::Filesystem).next().map(|probe| {
            let means = "a required directory is missing, or no file can be written there";
            self.of(TroubleKind::PlaceMissing, saw(probe), means, self.force_stop_command())
        });
        let command = self.failed(InstanceFault::Exec).next().map(|probe| {
            let means = "no command can be run in it";
            self.of(TroubleKind::CommandFails, saw(probe), means, self.force_stop_command())
        });
        let unseen = self.failed(InstanceFault::Unobservable).next().map(|probe| {
            let means = "part of its state could not be observed";
            self.of(TroubleKind::Unseen, saw(probe), means, "pinfold reconcile".to_owned())
        });
        [place, command, unseen].into_iter()
    }

    fn processes(&self, what: impl Fn(&ProcessInfo) -> bool) -> Vec<&ProcessInfo> {
        self.observed.inside.iter().filter(|it| what(it)).collect()
    }

    fn stopped(&self) -> Option<Trouble> {
        let stopped = self.processes(|it| it.state == ProcessState::Stopped);
        let saw =
            format!("{} of {} processes: {}", stopped.len(), self.observed.inside.len(), named(&stopped));
        let means = "processes in it are stopped by a signal, until they receive CONT";
        let resolve =
            format!("send CONT to its execution (POST /api/executions/…/signal), or {}", self.stop_command());
        (!stopped.is_empty()).then(|| self.of(TroubleKind::Stopped, saw, means, resolve))
    }

    fn uninterruptible(&self) -> Option<Trouble> {
        let stuck = self.processes(|it| it.state == ProcessState::Uninterruptible);
        let is_still = self.observed.signs.is_some_and(|signs| is_quiet(&signs));
        let means =
            "processes in it are in uninterruptible sleep in the kernel, where no signal reaches them";
        (is_still && !stuck.is_empty())
            .then(|| self.of(TroubleKind::Uninterruptible, named(&stuck), means, self.force_stop_command()))
    }

    fn disk(&self) -> Option<Trouble> {
        let probe = self.failed(InstanceFault::DiskFull).next()?;
        let resolve = format!(
            "remove files in it (pinfold exec {} -- rm …), or create one with a larger --disk",
            self.id
        );
        Some(self.of(TroubleKind::DiskFull, saw(probe), "its disk is full", resolve))
    }

    fn process_count(&self) -> Option<Trouble> {
        let (used, limit) = self.observed.processes.filter(|(used, limit)| used >= limit)?;
        let all: Vec<_> = self.observed.inside.iter().collect();
        let saw = format!("{used} of {limit} processes: {}", named(&all));
        let means = "it has reached its process limit: a fork bomb, or zombies that are not reaped";
        Some(self.of(TroubleKind::ProcessesFull, saw, means, self.stop_command()))
    }

    /// Problems visible from its usage alone.
    fn usage(&self) -> Option<Trouble> {
        let signs = self.observed.signs?;
        let (verdict, means) = judge_usage(&signs);
        let saw = self.usage_text(&signs);
        match verdict {
            Verdict::Leaking => Some(self.of(TroubleKind::Leaking, saw, &means, self.stop_command())),
            Verdict::Busy => Some(self.of(TroubleKind::Busy, saw, &means, self.stop_command())),
            Verdict::Healthy | Verdict::Hung | Verdict::Silent | Verdict::Idle | Verdict::Ended => None,
        }
    }

    fn input(&self) -> Option<Trouble> {
        let reads = self.processes(|it| it.waits_for_input);
        let signs = self.observed.signs.filter(is_quiet)?;
        let saw = format!("{}; {}", named(&reads), self.usage_text(&signs));
        let means = "it waits for input: usually an agent that asks a question";
        let resolve = format!("send it input (pinfold exec -i …), or {}", self.stop_command());
        (signs.executions > 0 && !reads.is_empty())
            .then(|| self.of(TroubleKind::WaitsForInput, saw, means, resolve))
    }

    fn hung(&self) -> Option<Trouble> {
        let signs = self.observed.signs?;
        let (verdict, means) = judge_usage(&signs);
        let reads = self.observed.inside.iter().any(|it| it.waits_for_input);
        let waiting = self.processes(|it| it.wait_channel.is_some());
        let sockets: usize = self.observed.inside.iter().map(|it| it.sockets).sum();
        let saw = format!("{}; {}, {sockets} open sockets", self.usage_text(&signs), named(&waiting));
        (verdict == Verdict::Hung && !reads)
            .then(|| self.of(TroubleKind::Hung, saw, &means, self.stop_command()))
    }

    fn usage_text(&self, signs: &Signs) -> String {
        let cpu = signs.cpu_percent.map(|percent| format!("processor at {percent:.1} %"));
        let memory = signs.memory_mb.map(|mb| match signs.memory_limit_mb {
            Some(limit) => format!("{mb:.0} of {limit:.0} MiB of memory"),
            None => format!("{mb:.0} MiB of memory"),
        });
        let quiet = signs.quiet_ms.map(|ms| format!("nothing written for {} s", ms / 1_000));
        [cpu, memory, quiet].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn messages(&self) -> impl Iterator<Item = Trouble> {
        let lines = || self.observed.written.lines().rev();
        LOG_PATTERNS.iter().filter_map(move |known| {
            let line = lines().find(|line| known.matches(line))?;
            let saw = format!("its log says: {}", shortened(line));
            let means = format!("likely {}", known.cause);
            let resolve = match known.kind {
                TroubleKind::NoNetwork => {
                    "provide what it downloads in the image or as input files".to_owned()
                }
                _ => format!("pinfold logs {}, and then {}", self.id, self.stop_command()),
            };
            Some(self.of(known.kind, saw, &means, resolve))
        })
    }

    fn timeouts(&self) -> Option<Trouble> {
        let saw = "more than one of its executions timed out".to_owned();
        let means = "the work needs more time than its limit, or hangs repeatedly";
        let resolve = format!("pinfold logs {}; a larger --timeout, or smaller steps", self.id);
        self.has_flag("repeated_timeouts")
            .then(|| self.of(TroubleKind::RepeatedTimeouts, saw, means, resolve))
    }
}

fn saw(probe: &ProbeReport) -> String {
    format!("{}: {}", probe.probe, probe.answer)
}

fn is_quiet(signs: &Signs) -> bool {
    signs.quiet_ms.is_some_and(|ms| ms >= QUIET_MS) && signs.operations == 0
}

/// Names the first processes, and how many more there are.
fn named(processes: &[&ProcessInfo]) -> String {
    let one = |it: &&ProcessInfo| match &it.wait_channel {
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
