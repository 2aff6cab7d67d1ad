//! Finds stuck sandboxes for the cleanup sweep. Age alone is never a reason: a busy sandbox is not stuck, and a
//! sandbox that is being stopped has deadlines of its own.

use serde::{Deserialize, Serialize};

use crate::{
    Cause, Execution, ExecutionState, Lease, Life, Live, Policy, Sandbox, StartStep, Timestamp, Verdict,
};

/// Thresholds after which a sandbox counts as stuck. They apply to all sandboxes, whatever their policies say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupRules {
    /// Longest time that a start may take.
    pub orphan_ms: u64,
    /// An execution without activity for this long is stuck, if the sandbox is at least as old.
    pub stuck_ms: u64,
    /// A sandbox older than this must be healthy, and must be running executions or show activity.
    pub max_age_ms: u64,
    /// How long after a deadline the engine may take to act on it.
    pub overdue_ms: u64,
}

impl Default for CleanupRules {
    fn default() -> Self {
        Self { orphan_ms: 600_000, stuck_ms: 1_800_000, max_age_ms: 600_000, overdue_ms: 60_000 }
    }
}

/// One sandbox, with everything needed to decide whether it is stuck.
#[derive(Debug, Clone, Copy)]
pub struct CleanupCandidate<'a> {
    pub sandbox: &'a Sandbox,
    pub policy: &'a Policy,
    pub activity: Activity,
    /// Since when an engine has enforced this sandbox's deadlines. Deadlines that passed while no engine ran are about
    /// to be enforced and do not count as overdue.
    pub monitored_since: Timestamp,
}

/// Activity inside the sandbox, as an observation shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Not observed, or the observation failed. Says nothing about the sandbox.
    Unknown,
    /// Time of the last output, file or exec operation, or CPU use.
    LastSeen(Timestamp),
}

/// Why a sandbox is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Stuck {
    /// It has been starting for too long.
    NeverReady { since: Timestamp },
    /// It is unhealthy and older than `max_age_ms`.
    Failed { since: Timestamp },
    /// One of its deadlines passed and no engine acted on it.
    Overdue { deadline: Timestamp, cause: Cause },
    /// It shows no activity. `at_work`: it has executions.
    Silent { since: Timestamp, at_work: bool },
}

impl Stuck {
    /// The cause with which the sandbox is ended.
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

/// Decides whether a sandbox is stuck, and why.
#[must_use]
pub fn stuck(subject: &CleanupCandidate<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let sandbox = subject.sandbox;
    if sandbox.pooled.is_some() || !matches!(sandbox.life, Life::Wanted) {
        return None;
    }
    let by_state = match &sandbox.lease {
        Lease::Starting { .. } | Lease::LaunchWaiting { .. } => never_ready(subject, rules, now),
        Lease::Live(live) => failed(sandbox, live, rules, now),
        // A stop has its own attempts, backoff and quarantine.
        Lease::Stopping { .. } | Lease::StopWaiting { .. } | Lease::Quarantined { .. } => return None,
        Lease::Free { .. } => None,
    };
    by_state.or_else(|| overdue(subject, rules, now)).or_else(|| silent(subject, rules, now))
}

/// Whether an observation is needed to decide if this sandbox is stuck.
#[must_use]
pub fn needs_observation(subject: &CleanupCandidate<'_>, rules: &CleanupRules, now: Timestamp) -> bool {
    let never_a_sign = Activity::LastSeen(Timestamp(i64::MIN));
    let if_silent = CleanupCandidate { activity: never_a_sign, ..*subject };
    matches!(stuck(&if_silent, rules, now), Some(Stuck::Silent { .. }))
}

fn never_ready(subject: &CleanupCandidate<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let CleanupCandidate { sandbox, policy, .. } = subject;
    let since = match sandbox.lease {
        // The wait between two attempts is counted from its own beginning.
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

fn overdue(subject: &CleanupCandidate<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let (deadline, cause) = deadlines(subject.sandbox).min_by_key(|(deadline, _)| *deadline)?;
    let unheeded_since = deadline.max(subject.monitored_since);
    let is_overdue = deadline <= now && now.ms_since(unheeded_since) >= rules.overdue_ms;
    is_overdue.then_some(Stuck::Overdue { deadline, cause })
}

/// The deadlines that only an engine can act on, each with the cause if it is missed. Deadlines that activity extends
/// and times of routine checks are not among them.
fn deadlines(sandbox: &Sandbox) -> impl Iterator<Item = (Timestamp, Cause)> + '_ {
    let of_lease = match sandbox.lease {
        Lease::Starting { step: StartStep::Launch, pending, .. } => {
            Some((pending.deadline, Cause::StartDeadline))
        }
        Lease::Starting { pending, .. } => Some((pending.deadline, Cause::ProbeFailed)),
        Lease::LaunchWaiting { next_at, .. } => Some((next_at, Cause::StartDeadline)),
        Lease::Live(_)
        | Lease::Free { .. }
        | Lease::Stopping { .. }
        | Lease::StopWaiting { .. }
        | Lease::Quarantined { .. } => None,
    };
    let of_executions = sandbox.executions.iter().filter_map(|execution| match execution.state {
        ExecutionState::Queued { start_by } => Some((start_by, Cause::StartDeadline)),
        ExecutionState::Preparing { pending } | ExecutionState::Starting { pending } => {
            Some((pending.deadline, Cause::StartDeadline))
        }
        ExecutionState::Running { watch, .. } => Some((watch.deadline, Cause::TimeLimit)),
        ExecutionState::Ending { kill, .. } => kill.map(|pending| (pending.deadline, Cause::ProviderError)),
        ExecutionState::Collecting { pending, .. } => Some((pending.deadline, Cause::ProviderError)),
        ExecutionState::Interrupted | ExecutionState::Ended { .. } => None,
    });
    // First, so that `max_life` is reported when an execution's deadline is the sandbox's own end.
    [(sandbox.expires_at, Cause::MaxLife)].into_iter().chain(of_lease).chain(of_executions)
}

fn silent(subject: &CleanupCandidate<'_>, rules: &CleanupRules, now: Timestamp) -> Option<Stuck> {
    let CleanupCandidate { sandbox, policy, activity, .. } = *subject;
    let (Lease::Live(_), Activity::LastSeen(since)) = (&sandbox.lease, activity) else { return None };
    let at_work = !sandbox.executions.is_empty();
    let (age_ms, own_ms) = if at_work {
        (rules.stuck_ms, sandbox.executions.iter().filter_map(may_be_quiet_ms).max())
    } else {
        (rules.max_age_ms, policy.idle_ms)
    };
    // A longer limit in the policy or on the execution takes precedence.
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
