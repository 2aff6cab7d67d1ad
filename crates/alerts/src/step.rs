//! Evaluates an alert at one moment, and decides what begins, continues and ends, and what is notified.

use pinfold_lifecycle::Timestamp;

use crate::{
    Alert, AlertChange, AlertInputs, AlertInstance, AlertState, ChangeKind, Definition, Evaluation, Firing,
    NotificationPolicy, Phase, Rule, Rules, Severity, Suppression, evaluate,
};

/// Limit of instances of the alert about single sandboxes within a cooldown.
const MAX_INSTANCES: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct AlertTransition {
    pub state: AlertState,
    pub changes: Vec<AlertChange>,
}

/// Applies new values. Unknown values change nothing: a firing alert keeps firing, and an inactive one stays inactive.
#[must_use]
pub fn step(
    alert: Alert,
    state: &AlertState,
    inputs: &AlertInputs,
    rules: &Rules,
    policy: NotificationPolicy,
    now: Timestamp,
) -> AlertTransition {
    let silence = state.silence.clone().filter(|silence| now < silence.until);
    let rule = rules.of(alert);
    let definition = alert.definition();
    let is_silent = silence.is_some();
    let mut evaluator = Evaluator { alert, definition, rule, policy, now, is_silent, happened: Vec::new() };
    let mut instances = Vec::new();
    for (mut instance, evaluation) in evaluate_instances(alert, state, inputs, rule) {
        evaluator.apply(&mut instance, evaluation);
        if evaluator.must_keep(&instance) {
            instances.push(instance);
        }
    }
    AlertTransition { state: AlertState { silence, instances }, changes: evaluator.happened }
}

/// Every instance with its evaluation, including new ones.
fn evaluate_instances(
    alert: Alert,
    state: &AlertState,
    inputs: &AlertInputs,
    rule: Rule,
) -> Vec<(AlertInstance, Evaluation)> {
    if alert != Alert::SandboxEvent {
        let instance = state.instances.first().cloned().unwrap_or_else(|| AlertInstance::new(None));
        return vec![(instance, evaluate(alert, inputs, rule))];
    }
    let evaluate_event = |instance: &AlertInstance| match &inputs.events {
        None => Evaluation::Unknown,
        Some(events) if instance.subject.as_ref().is_some_and(|subject| events.contains(subject)) => {
            Evaluation::Bad { value: 1.0 }
        }
        Some(_) => Evaluation::Fine { value: None },
    };
    let mut all: Vec<_> =
        state.instances.iter().map(|instance| (instance.clone(), evaluate_event(instance))).collect();
    for event in inputs.events.iter().flatten() {
        let is_known = all.iter().any(|(instance, _)| instance.subject.as_ref() == Some(event));
        if !is_known && all.len() < MAX_INSTANCES {
            all.push((AlertInstance::new(Some(event.clone())), Evaluation::Bad { value: 1.0 }));
        }
    }
    all
}

struct Evaluator {
    alert: Alert,
    definition: Definition,
    rule: Rule,
    policy: NotificationPolicy,
    now: Timestamp,
    is_silent: bool,
    happened: Vec<AlertChange>,
}

impl Evaluator {
    fn apply(&mut self, instance: &mut AlertInstance, evaluation: Evaluation) {
        match (instance.phase.clone(), evaluation) {
            (Phase::Inactive | Phase::Resolved { .. }, Evaluation::Bad { value }) => {
                self.condition_holds(instance, self.now, value);
            }
            (Phase::Pending { since, seen_at }, Evaluation::Bad { value }) => {
                // After a long gap it is not known whether the condition held all the time.
                let is_known = self.now.ms_since(seen_at) <= self.policy.gap_ms;
                self.condition_holds(instance, if is_known { since } else { self.now }, value);
            }
            (Phase::Firing(firing), Evaluation::Bad { .. } | Evaluation::Unknown) => {
                self.continue_firing(instance, firing, evaluation.value());
            }
            (Phase::Firing(firing), Evaluation::Fine { value }) => self.resolve(instance, &firing, value),
            (Phase::Pending { .. }, Evaluation::Fine { .. }) => instance.phase = Phase::Inactive,
            (Phase::Inactive | Phase::Resolved { .. }, Evaluation::Fine { .. } | Evaluation::Unknown)
            | (Phase::Pending { .. }, Evaluation::Unknown) => {}
        }
    }

    fn condition_holds(&mut self, instance: &mut AlertInstance, since: Timestamp, value: f64) {
        if self.now.ms_since(since) < self.rule.sustained_ms {
            instance.phase = Phase::Pending { since, seen_at: self.now };
            return;
        }
        let suppressed = self.suppressed(instance);
        let firing = Firing {
            since: self.now,
            value,
            notified: suppressed.is_none(),
            level: self.definition.level,
            acknowledged: None,
        };
        self.record(instance, &firing, ChangeKind::Fired, Some(value), suppressed);
        instance.phase = Phase::Firing(firing);
    }

    /// Repeats the notification, or escalates.
    fn continue_firing(&mut self, instance: &mut AlertInstance, mut firing: Firing, value: Option<f64>) {
        if self.is_silent || firing.acknowledged.is_some() {
            return;
        }
        let due = self.level_due(&firing);
        let what = if due > firing.level {
            ChangeKind::Escalated
        } else if self.is_cooling(instance) {
            return;
        } else {
            ChangeKind::Repeated
        };
        firing.level = due.max(firing.level);
        firing.notified = true;
        self.record(instance, &firing, what, value, None);
        instance.phase = Phase::Firing(firing);
    }

    fn resolve(&mut self, instance: &mut AlertInstance, firing: &Firing, value: Option<f64>) {
        let suppressed = if !self.definition.notifies_end {
            Some(Suppression::Quiet)
        } else if self.is_silent {
            Some(Suppression::Silence)
        } else if firing.notified {
            None
        } else {
            Some(Suppression::Cooldown)
        };
        let problem_notified_at = instance.notified_at;
        self.record(instance, firing, ChangeKind::Resolved, value, suppressed);
        // The cooldown counts from the last notification of a problem, not from its resolution.
        instance.notified_at = problem_notified_at;
        instance.phase = Phase::Resolved { fired_at: firing.since, at: self.now };
    }

    fn record(
        &mut self,
        instance: &mut AlertInstance,
        firing: &Firing,
        what: ChangeKind,
        value: Option<f64>,
        suppressed: Option<Suppression>,
    ) {
        if suppressed.is_none() {
            instance.notified_at = Some(self.now);
        }
        self.happened.push(AlertChange {
            at: self.now,
            alert: self.alert,
            subject: instance.subject.clone(),
            kind: what,
            value,
            since: Some(firing.since),
            level: firing.level,
            suppressed,
        });
    }

    fn level_due(&self, firing: &Firing) -> crate::EscalationLevel {
        if self.definition.severity < Severity::Critical || self.policy.escalate_after_ms == 0 {
            return firing.level;
        }
        let steps = self.now.ms_since(firing.since) / self.policy.escalate_after_ms;
        self.definition.level.escalated_by(steps)
    }

    fn suppressed(&self, instance: &AlertInstance) -> Option<Suppression> {
        if self.is_silent {
            return Some(Suppression::Silence);
        }
        self.is_cooling(instance).then_some(Suppression::Cooldown)
    }

    fn is_cooling(&self, instance: &AlertInstance) -> bool {
        instance.notified_at.is_some_and(|at| self.now.ms_since(at) < self.policy.cooldown_ms)
    }

    /// An instance that is over is kept as long as its cooldown suppresses notifications.
    fn must_keep(&self, instance: &AlertInstance) -> bool {
        match instance.phase {
            Phase::Pending { .. } | Phase::Firing(_) => true,
            Phase::Inactive => self.is_cooling(instance),
            Phase::Resolved { at, .. } => {
                self.is_cooling(instance) || self.now.ms_since(at) < self.policy.cooldown_ms
            }
        }
    }
}
