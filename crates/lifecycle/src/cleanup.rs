//! Whether a sandbox is stuck, and why. Never by its age alone: what is at work is not stuck, however old it is, and
//! what is being ended has deadlines of its own.

use serde::{Deserialize, Serialize};

use crate::{
    Cause, Execution, ExecutionState, Lease, Life, Live, Policy, Sandbox, StartStep, Timestamp, Verdict,
};

/// When something counts as stuck. It holds for all sandboxes, whatever each was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupRules {
    /// A start takes no longer than this.
    pub orphan_ms: u64,
    /// Work that gave no sign of life for so long is stuck, in a sandbox that is as old.
    pub stuck_ms: u64,
    /// From this age on a sandbox has to be healthy, and at work or used now and then.
    pub max_age_ms: u64,
    /// How long a deadline may go unheeded.
    pub overdue_ms: u64,
}

impl Default for CleanupRules {
    fn default() -> Self {
        Self { orphan_ms: 600_000, stuck_ms: 1_800_000, max_age_ms: 600_000, overdue_ms: 60_000 }
    }
}

/// What is known of a sandbox when it is judged.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub sandbox: &'a Sandbox,
    pub policy: &'a Policy,
    pub activity: Activity,
    /// Since when somebody sees to its deadlines. What fell due while nobody did is about to be seen to.
    pub watched_since: Timestamp,
}

/// What a look has shown of what goes on inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Nobody has looked, or could. It says nothing about the sandbox.
    Unknown,
    /// The last sign of life: output, an operation, time of the processor.
    LastSeen(Timestamp),
}

/// The ways to be stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Stuck {
    /// It has been starting for too long.
    NeverReady { since: Timestamp },
    /// It is unhealthy, and old.
    Failed { since: Timestamp },
    /// A deadline of its own has passed, and nobody has seen to it.
    Overdue { deadline: Timestamp, cause: Cause },
    /// It gives no sign of life.
    Silent { since: Timestamp, at_work: bool },
}

impl Stuck {
    /// What it is ended for.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::NeverReady { .. } => Cause::StartDeadline,
            Self::Failed { .. } => Cause::ProbeFailed,
            Self::Overdue { cause, .. } => *cause,
            Self::Silent { at_work: true, .. } => Cause::Inactivity,
            Self::Silent { at_work: false, .. } => Cause::Idle,
        }
    }
}

/// Why a sandbox is stuck, if it is.
#[must_use]
pub fn stuck(subject: &Subject<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let sandbox = subject.sandbox;
    if sandbox.pooled.is_some() || !matches!(sandbox.life, Life::Wanted) {
        return None;
    }
    let by_state = match &sandbox.lease {
        Lease::Starting { .. } | Lease::LaunchWaiting { .. } => never_ready(subject, rules, now),
        Lease::Live(live) => failed(sandbox, live, rules, now),
        // What is being ended, for good or for the next body, has its own attempts and quarantine.
        Lease::Stopping { .. } | Lease::StopWaiting { .. } | Lease::Quarantined { .. } => return None,
        Lease::Free { .. } => None,
    };
    by_state.or_else(|| overdue(subject, rules, now)).or_else(|| silent(subject, rules, now))
}

/// Whether only a look at what goes on inside can tell whether this one is stuck.
#[must_use]
pub fn is_told_by_a_look(subject: &Subject<'_>, rules: &CleanupRules, now: Timestamp) -> bool {
    let never_a_sign = Activity::LastSeen(Timestamp(i64::MIN));
    let if_silent = Subject { activity: never_a_sign, ..*subject };
    matches!(stuck(&if_silent, rules, now), Some(Stuck::Silent { .. }))
}

fn never_ready(subject: &Subject<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let Subject { sandbox, policy, .. } = subject;
    let since = match sandbox.lease {
        // Between two tries it begins to wait anew.
        Lease::LaunchWaiting { next_at, .. } => {
            let waits_ms = policy.recovery.map_or(0, |recovery| recovery.wait_ms(sandbox.launches));
            before(next_at, waits_ms)
        }
        _ => before(sandbox.start_by, policy.start_ms),
    };
    (now.ms_since(since) >= rules.orphan_ms).then_some(Stuck::NeverReady { since })
}

fn failed(sandbox: &Sandbox, live: &Live, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    match live.health.verdict {
        Verdict::Unhealthy { since, .. } if is_old(sandbox, rules.max_age_ms, now) => {
            Some(Stuck::Failed { since })
        }
        Verdict::Unhealthy { .. } | Verdict::Healthy => None,
    }
}

fn overdue(subject: &Subject<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let (deadline, cause) = deadlines(subject.sandbox).min_by_key(|(deadline, _)| *deadline)?;
    let unheeded_since = deadline.max(subject.watched_since);
    let is_overdue = deadline <= now && now.ms_since(unheeded_since) >= rules.overdue_ms;
    is_overdue.then_some(Stuck::Overdue { deadline, cause })
}

/// What must have happened by when, and what it means if it has not. Deadlines that activity moves are not among
/// them, nor those at which it is only asked how it is.
fn deadlines(sandbox: &Sandbox) -> impl Iterator<Item = (Timestamp, Cause)> + '_ {
    let of_lease = match sandbox.lease {
        Lease::Starting { step: StartStep::Launch, duty, .. } => Some((duty.deadline, Cause::StartDeadline)),
        Lease::Starting { duty, .. } => Some((duty.deadline, Cause::ProbeFailed)),
        Lease::LaunchWaiting { next_at, .. } => Some((next_at, Cause::StartDeadline)),
        Lease::Live(_)
        | Lease::Free { .. }
        | Lease::Stopping { .. }
        | Lease::StopWaiting { .. }
        | Lease::Quarantined { .. } => None,
    };
    let of_executions = sandbox.executions.iter().filter_map(|execution| match execution.state {
        ExecutionState::Queued { start_by } => Some((start_by, Cause::StartDeadline)),
        ExecutionState::Starting { duty } => Some((duty.deadline, Cause::StartDeadline)),
        ExecutionState::Running { watch, .. } => Some((watch.deadline, Cause::TimeLimit)),
        ExecutionState::Ending { kill, .. } => kill.map(|duty| (duty.deadline, Cause::ProviderError)),
        ExecutionState::Interrupted | ExecutionState::Ended { .. } => None,
    });
    // Its own end goes before that of an execution that has no other.
    [(sandbox.expires_at, Cause::MaxLife)].into_iter().chain(of_lease).chain(of_executions)
}

fn silent(subject: &Subject<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let Subject { sandbox, policy, activity, .. } = *subject;
    let (Lease::Live(_), Activity::LastSeen(since)) = (&sandbox.lease, activity) else { return None };
    let at_work = !sandbox.executions.is_empty();
    let (age_ms, own_ms) = if at_work {
        (rules.stuck_ms, sandbox.executions.iter().filter_map(may_be_quiet_ms).max())
    } else {
        (rules.max_age_ms, policy.idle_ms)
    };
    // Whoever asked for a longer silence gets it.
    let silence_ms = age_ms.max(own_ms.unwrap_or(0));
    let is_silent = is_old(sandbox, age_ms, now) && now.ms_since(since) >= silence_ms;
    is_silent.then_some(Stuck::Silent { since, at_work })
}

fn may_be_quiet_ms(execution: &Execution) -> Option<u64> {
    execution.limits.inactivity_ms
}

fn is_old(sandbox: &Sandbox, age_ms: u64, now: Timestamp) -> bool {
    now.ms_since(sandbox.created_at) >= age_ms
}

fn before(moment: Timestamp, ms: u64) -> Timestamp {
    Timestamp(moment.0.saturating_sub_unsigned(ms))
}
