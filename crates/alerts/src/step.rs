//! Takes in what is known at one moment: which alerts begin, go on and end by it, and whom that concerns.

use pinfold_lifecycle::Timestamp;

use crate::{
    Alert, AlertState, Definition, Figures, Firing, Habits, Happening, Instance, Phase, Reading, Rule, Rules,
    Severity, Untold, What, reading,
};

/// Of an alert about single sandboxes, so many are told within a cooldown: whoever has read these knows enough.
const MOST_INSTANCES: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Stepped {
    pub state: AlertState,
    pub happened: Vec<Happening>,
}

/// Figures that are not known change nothing: what fires goes on, and what does not stays quiet.
#[must_use]
pub fn step(
    alert: Alert,
    state: &AlertState,
    figures: &Figures,
    rules: &Rules,
    habits: Habits,
    now: Timestamp,
) -> Stepped {
    let silence = state.silence.clone().filter(|silence| now < silence.until);
    let rule = rules.of(alert);
    let definition = alert.definition();
    let is_silent = silence.is_some();
    let mut turn = Turn { alert, definition, rule, habits, now, is_silent, happened: Vec::new() };
    let mut instances = Vec::new();
    for (mut instance, reading) in readings(alert, state, figures, rule) {
        turn.take(&mut instance, reading);
        if turn.is_worth_keeping(&instance) {
            instances.push(instance);
        }
    }
    Stepped { state: AlertState { silence, instances }, happened: turn.happened }
}

/// Each instance with what is known about it, new ones included.
fn readings(alert: Alert, state: &AlertState, figures: &Figures, rule: Rule) -> Vec<(Instance, Reading)> {
    if alert != Alert::SandboxEvent {
        let instance = state.instances.first().cloned().unwrap_or_else(|| Instance::new(None));
        return vec![(instance, reading(alert, figures, rule))];
    }
    let judge = |instance: &Instance| match &figures.events {
        None => Reading::Unknown,
        Some(events) if instance.subject.as_ref().is_some_and(|subject| events.contains(subject)) => {
            Reading::Bad { value: 1.0 }
        }
        Some(_) => Reading::Fine { value: None },
    };
    let mut all: Vec<_> =
        state.instances.iter().map(|instance| (instance.clone(), judge(instance))).collect();
    for event in figures.events.iter().flatten() {
        let is_known = all.iter().any(|(instance, _)| instance.subject.as_ref() == Some(event));
        if !is_known && all.len() < MOST_INSTANCES {
            all.push((Instance::new(Some(event.clone())), Reading::Bad { value: 1.0 }));
        }
    }
    all
}

struct Turn {
    alert: Alert,
    definition: Definition,
    rule: Rule,
    habits: Habits,
    now: Timestamp,
    is_silent: bool,
    happened: Vec<Happening>,
}

impl Turn {
    fn take(&mut self, instance: &mut Instance, reading: Reading) {
        match (instance.phase.clone(), reading) {
            (Phase::Inactive | Phase::Resolved { .. }, Reading::Bad { value }) => {
                self.hold(instance, self.now, value);
            }
            (Phase::Pending { since, seen_at }, Reading::Bad { value }) => {
                // Nobody looked for long, so nobody knows that it held all the time.
                let is_known = self.now.ms_since(seen_at) <= self.habits.gap_ms;
                self.hold(instance, if is_known { since } else { self.now }, value);
            }
            (Phase::Firing(firing), Reading::Bad { .. } | Reading::Unknown) => {
                self.go_on(instance, firing, reading.value());
            }
            (Phase::Firing(firing), Reading::Fine { value }) => self.resolve(instance, &firing, value),
            (Phase::Pending { .. }, Reading::Fine { .. }) => instance.phase = Phase::Inactive,
            (Phase::Inactive | Phase::Resolved { .. }, Reading::Fine { .. } | Reading::Unknown)
            | (Phase::Pending { .. }, Reading::Unknown) => {}
        }
    }

    fn hold(&mut self, instance: &mut Instance, since: Timestamp, value: f64) {
        if self.now.ms_since(since) < self.rule.sustained_ms {
            instance.phase = Phase::Pending { since, seen_at: self.now };
            return;
        }
        let untold = self.untold(instance);
        let firing = Firing {
            since: self.now,
            value,
            told: untold.is_none(),
            level: self.definition.level,
            acknowledged: None,
        };
        self.tell(instance, &firing, What::Fired, Some(value), untold);
        instance.phase = Phase::Firing(firing);
    }

    /// Reminds those who were called, or calls others.
    fn go_on(&mut self, instance: &mut Instance, mut firing: Firing, value: Option<f64>) {
        if self.is_silent || firing.acknowledged.is_some() {
            return;
        }
        let due = self.level_due(&firing);
        let what = if due > firing.level {
            What::Escalated
        } else if self.is_cooling(instance) {
            return;
        } else {
            What::Repeated
        };
        firing.level = due.max(firing.level);
        firing.told = true;
        self.tell(instance, &firing, what, value, None);
        instance.phase = Phase::Firing(firing);
    }

    fn resolve(&mut self, instance: &mut Instance, firing: &Firing, value: Option<f64>) {
        let untold = if !self.definition.end_is_told {
            Some(Untold::Quiet)
        } else if self.is_silent {
            Some(Untold::Silence)
        } else if firing.told {
            None
        } else {
            Some(Untold::Cooldown)
        };
        let told_at = instance.told_at;
        self.tell(instance, firing, What::Resolved, value, untold);
        // The cooldown is counted from the last call, and an all-clear is none.
        instance.told_at = told_at;
        instance.phase = Phase::Resolved { fired_at: firing.since, at: self.now };
    }

    fn tell(
        &mut self,
        instance: &mut Instance,
        firing: &Firing,
        what: What,
        value: Option<f64>,
        untold: Option<Untold>,
    ) {
        if untold.is_none() {
            instance.told_at = Some(self.now);
        }
        self.happened.push(Happening {
            at: self.now,
            alert: self.alert,
            subject: instance.subject.clone(),
            what,
            value,
            since: Some(firing.since),
            level: firing.level,
            untold,
        });
    }

    fn level_due(&self, firing: &Firing) -> crate::Level {
        if self.definition.severity < Severity::Critical || self.habits.escalate_after_ms == 0 {
            return firing.level;
        }
        let steps = self.now.ms_since(firing.since) / self.habits.escalate_after_ms;
        self.definition.level.further(steps)
    }

    fn untold(&self, instance: &Instance) -> Option<Untold> {
        if self.is_silent {
            return Some(Untold::Silence);
        }
        self.is_cooling(instance).then_some(Untold::Cooldown)
    }

    fn is_cooling(&self, instance: &Instance) -> bool {
        instance.told_at.is_some_and(|at| self.now.ms_since(at) < self.habits.cooldown_ms)
    }

    /// What is over is remembered for as long as it keeps others from being called again.
    fn is_worth_keeping(&self, instance: &Instance) -> bool {
        match instance.phase {
            Phase::Pending { .. } | Phase::Firing(_) => true,
            Phase::Inactive => self.is_cooling(instance),
            Phase::Resolved { at, .. } => {
                self.is_cooling(instance) || self.now.ms_since(at) < self.habits.cooldown_ms
            }
        }
    }
}
